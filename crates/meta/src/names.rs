//! Rules for names, keys and values. Each returns upstream's messages about the violations.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go

mod domain;
mod pattern;

pub use domain::{
    domain_prefixed_key, domain_prefixed_path, fully_qualified_domain_name, fully_qualified_name,
};
use pattern::{is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_label_name};

/// A rule for names. The flag says that the name is a prefix, as `generateName` is.
pub type NameRule = fn(&str, bool) -> Vec<String>;

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character";
const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Returns the message about the length in bytes, which only the rules of label keys use.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Returns the explanation of a pattern, with examples.
pub fn pattern_error(explanation: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{explanation} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{explanation} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn subdomain_error() -> String {
    pattern_error(SUBDOMAIN_WORDS, SUBDOMAIN_PATTERN, &["example.com"])
}

/// Checks a DNS label (RFC 1123) in lower case.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_LENGTH {
        errors.push(too_long(LABEL_LENGTH));
    }
    if !is_dns1123_label(value) {
        errors.push(if is_dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern_error(LABEL_WORDS, LABEL_PATTERN, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Checks a DNS subdomain (RFC 1123) in lower case.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !is_dns1123_subdomain(value) {
        errors.push(subdomain_error());
    }
    errors
}

/// Checks a DNS subdomain that may contain underscores.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !value.split('.').all(pattern::is_label_with_underscore) {
        errors.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    errors
}

/// Checks `*.` followed by a subdomain.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        errors.push(pattern_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
             of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN_PATTERN}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// Checks a DNS label (RFC 1035), which starts with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_LENGTH {
        errors.push(too_long(LABEL_LENGTH));
    }
    if !is_dns1035_label(value) {
        errors.push(pattern_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// Checks the key of a label: a name, optionally after a domain and a slash.
pub fn qualified_name(value: &str) -> Vec<String> {
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let rule = pattern_error(QUALIFIED_WORDS, QUALIFIED_PATTERN, EXAMPLES);
            errors.push(format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return errors;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            }
            if prefix.len() > SUBDOMAIN_LENGTH {
                errors.push(format!("prefix part {}", too_many_bytes(SUBDOMAIN_LENGTH)));
            }
            if !prefix.is_empty() && !is_dns1123_subdomain(prefix) {
                errors.push(format!("prefix part {}", subdomain_error()));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH {
        errors.push(format!("name part {}", too_many_bytes(LABEL_LENGTH)));
    }
    if !is_label_name(name) {
        errors.push(format!("name part {}", pattern_error(QUALIFIED_WORDS, QUALIFIED_PATTERN, EXAMPLES)));
    }
    errors
}

/// Checks the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_LENGTH {
        errors.push(too_many_bytes(LABEL_LENGTH));
    }
    if !value.is_empty() && !is_label_name(value) {
        errors.push(pattern_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Checks a C identifier.
pub fn c_identifier(value: &str) -> Vec<String> {
    if pattern::starts_and_continues(
        value,
        |b| b.is_ascii_alphabetic() || b == b'_',
        |b| b.is_ascii_alphanumeric() || b == b'_',
    ) {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
         characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// Checks a key of a ConfigMap or a Secret, which becomes a file name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !pattern::is_all(value, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        errors.push(pattern_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(parent_directory(value));
    errors
}

/// Returns the message about a name that would leave its directory.
fn parent_directory(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// Checks the name of an environment variable by the old, stricter rule.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let other = |b: u8| matches!(b, b'-' | b'.' | b'_');
    if !pattern::starts_and_continues(
        value,
        |b| b.is_ascii_alphabetic() || other(b),
        |b| b.is_ascii_alphanumeric() || other(b),
    ) {
        errors.push(pattern_error(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and \
             must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    errors.extend(parent_directory(value));
    errors
}

/// Checks the name of an environment variable by the current rule.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|b| !(b' '..=b'~').contains(&b) || b == b'=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// Checks the name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if pattern::is_all(value, |b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Checks a percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    if value.strip_suffix('%').is_some_and(|digits| pattern::is_all(digits, |b| b.is_ascii_digit())) {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// Checks a port number.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// Checks that a number is in an inclusive range.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![between(low, high)] }
}

/// Checks a Unix user or group ID.
pub fn unix_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// Checks the name of a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(too_long(15));
    }
    if !pattern::is_all(value, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// Checks a segment of a URL path.
pub fn path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_prefix(name),
    }
}

/// Checks a prefix of a segment of a URL path.
pub fn path_segment_prefix(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    for illegal in ['/', '%'] {
        if name.contains(illegal) {
            errors.push(format!("may not contain '{illegal}'"));
        }
    }
    errors
}

/// The [`NameRule`] of kinds whose names are subdomains, which are most.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    masked(name, prefix, dns1123_subdomain)
}

/// The [`NameRule`] of kinds whose names are labels, such as namespaces.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    masked(name, prefix, dns1123_label)
}

/// The [`NameRule`] of kinds whose names start with a letter, such as services.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    masked(name, prefix, dns1035_label)
}

/// The [`NameRule`] of kinds whose names only need to fit into a path, such as roles.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment_name(name) }
}

/// Checks a name without the dash at the end of a prefix, because more characters will follow it. Upstream
/// also removes the byte before the dash; if that cuts a character, `_` replaces it, which no rule accepts.
fn masked(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
    if !prefix || name.len() < 2 || !name.ends_with('-') {
        return rule(name);
    }
    let cut = name.len() - 2;
    let kept = name.floor_char_boundary(cut);
    rule(&format!("{}{}a", &name[..kept], "_".repeat(cut - kept)))
}

#[cfg(test)]
mod tests;
