//! Named string formats.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go

use atoll_meta::formats::{is_base64, is_date, is_date_time};
use atoll_meta::names;

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
