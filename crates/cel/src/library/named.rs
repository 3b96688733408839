//! Formats of texts that have a name, and what is wrong with texts that do not have them.

use atoll_meta::{names, time};

use super::location;

/// A format with a name.
#[derive(Debug)]
pub struct Format {
    /// What expressions call it.
    pub name: &'static str,
    /// How long a pattern for it would be: the longer, the more a check costs.
    pub pattern_length: u64,
    check: fn(&str) -> Vec<String>,
}

impl Format {
    /// What is wrong with the text.
    pub fn check(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

/// All of them.
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
        check: |text| location::check(text).err().into_iter().collect(),
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

/// Hexadecimal digits, with hyphens between the groups or not.
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

/// Base64 with padding; unlike elsewhere, at least four characters of it.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// `2006-01-02`, a day that exists.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// A date, a `T` and a time with a zone. What follows another `T` is not looked at.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && is_time(time),
        _ => false,
    }
}

/// `15:04:05`, perhaps any character and digits, and `z` or `+07:00`.
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
    // A sign and two digits of a zone may be taken for a fraction, but then no zone is left.
    has_separator && digits > 0 && is_zone(&after[digits..])
}

fn is_zone(text: &str) -> bool {
    text == "z"
        || matches!(text.as_bytes(), [b'+' | b'-', h, i, b':', m, n]
            if [h, i, m, n].into_iter().all(u8::is_ascii_digit))
}
