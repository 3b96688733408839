//! Rules for names, keys and values. Each returns the rules that the text breaks, in upstream's words.

mod domain;
mod shape;

pub use domain::{
    domain_prefixed_key, domain_prefixed_path, fully_qualified_domain_name, fully_qualified_name,
};
use shape::{is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_label_name};

/// Whether a text is good as a name. The flag says that more will be appended to it, as to `generateName`.
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

/// Upstream counts bytes in both cases; only the rules around label keys say so.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The explanation of a pattern, with examples of what fits.
pub fn pattern_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn subdomain_error() -> String {
    pattern_error(SUBDOMAIN_WORDS, SUBDOMAIN_PATTERN, &["example.com"])
}

/// A DNS label as in RFC 1123, in lower case.
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

/// DNS labels separated by dots, as in RFC 1123, in lower case.
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

/// Like [`dns1123_subdomain`], and underscores are allowed too.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !value.split('.').all(shape::is_label_with_underscore) {
        errors.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    errors
}

/// `*.` and a subdomain.
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

/// A DNS label as in RFC 1035, which begins with a letter.
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

/// The key of a label: a name, optionally after a domain and a slash.
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

/// The value of a label.
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

/// An identifier of the C language.
pub fn c_identifier(value: &str) -> Vec<String> {
    if shape::starts_and_continues(
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

/// A key of a ConfigMap or a Secret, which becomes the name of a file.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        errors.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !shape::is_all(value, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        errors.push(pattern_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(parent_directory(value));
    errors
}

/// What would lead out of a directory.
fn parent_directory(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// The name of an environment variable, by the old and narrower rule.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let other = |b: u8| matches!(b, b'-' | b'.' | b'_');
    if !shape::starts_and_continues(
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

/// The name of an environment variable, by the present rule.
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

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if shape::is_all(value, |b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    if value.strip_suffix('%').is_some_and(|digits| shape::is_all(digits, |b| b.is_ascii_digit())) {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The number of a port.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number between two others, both included.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![between(low, high)] }
}

/// The id of a Unix user or group.
pub fn unix_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// The name of a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(too_long(15));
    }
    if !shape::is_all(value, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
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

/// A text that can be a segment of a URL's path.
pub fn path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_prefix(name),
    }
}

/// A text that can be the beginning of a segment of a URL's path.
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

/// The [`NameRule`] of kinds whose names begin with a letter, such as services.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    masked(name, prefix, dns1035_label)
}

/// The [`NameRule`] of kinds whose names need only fit into a path, such as roles.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment_name(name) }
}

/// Something will follow the dash at the end of a prefix, so the rule does not get to see it. Upstream takes away
/// the byte before the dash as well; where that leaves a part of a character, `_` stands for it, which no rule likes.
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
