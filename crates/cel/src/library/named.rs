//! Named string formats.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go

use atoll_meta::{names, time};

use super::go_url;

/// A named format.
#[derive(Debug)]
pub struct Format {
    /// Name in expressions.
    pub name: &'static str,
    /// Length of an equivalent pattern, which determines the cost.
    pub pattern_length: u64,
    check: fn(&str) -> Vec<String>,
}

impl Format {
    /// Returns messages about the string.
    pub fn check(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }

    /// Returns the format of this name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

/// All formats.
pub static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", pattern_length: 30, check: |text| names::name_is_dns_label(text, false) },
    Format {
        name: "dns1123Subdomain",
        pattern_length: 60,
        check: |text| names::name_is_dns_subdomain(text, false),
    },
    Format {
        name: "dns1035Label",
        pattern_length: 30,
        check: |text| names::name_is_dns1035_label(text, false),
    },
    Format { name: "qualifiedName", pattern_length: 60, check: names::qualified_name },
    Format {
        name: "dns1123LabelPrefix",
        pattern_length: 30,
        check: |text| names::name_is_dns_label(text, true),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        pattern_length: 60,
        check: |text| names::name_is_dns_subdomain(text, true),
    },
    Format {
        name: "dns1035LabelPrefix",
        pattern_length: 30,
        check: |text| names::name_is_dns1035_label(text, true),
    },
    Format { name: "labelValue", pattern_length: 40, check: names::label_value },
    Format {
        name: "uri",
        pattern_length: 1103,
        check: |text| go_url::check(text).err().into_iter().collect(),
    },
    Format {
        name: "uuid",
        pattern_length: 70,
        check: |text| unless(is_uuid(text), "does not match the UUID format"),
    },
    Format { name: "byte", pattern_length: 84, check: |text| unless(is_base64(text), "invalid base64") },
    Format { name: "date", pattern_length: 71, check: |text| unless(is_date(text), "invalid date") },
    Format {
        name: "datetime",
        pattern_length: 71,
        check: |text| unless(is_date_time(text), "invalid datetime"),
    },
];

fn unless(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
}

/// Whether this is a UUID: hexadecimal digits, optionally with hyphens between the groups.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((group, after)) if group.iter().all(u8::is_ascii_hexdigit) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Whether this is base64 with padding, of at least four characters.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// Whether this is an existing day in the form `2006-01-02`.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// Whether this is a date, a `T` and a time with a zone. Everything after a second `T` is ignored.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && is_time(time),
        _ => false,
    }
}

/// Whether this is `15:04:05`, optionally any character and digits, and `z` or `+07:00`.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let is_clock = matches!(clock.as_bytes(), [h, i, b':', m, n, b':', s, t]
        if [h, i, m, n, s, t].into_iter().all(u8::is_ascii_digit))
        && &clock[..2] <= "23"
        && &clock[3..5] <= "59"
        && &clock[6..] <= "59";
    if !is_clock {
        return false;
    }
    if is_zone(rest) {
        return true;
    }
    let mut after = rest.chars();
    let has_separator = after.next().is_some_and(|character| character != '\n');
    let after = after.as_str();
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    // A sign and two digits of a zone may be parsed as a fraction, but then no zone is left.
    has_separator && digits > 0 && is_zone(&after[digits..])
}

fn is_zone(text: &str) -> bool {
    text == "z"
        || matches!(text.as_bytes(), [b'+' | b'-', h, i, b':', m, n]
            if [h, i, m, n].into_iter().all(u8::is_ascii_digit))
}
