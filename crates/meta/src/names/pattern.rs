//! Patterns of the rules, matched by hand because they are simple and run for every object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go

/// Matches `[first][rest]*`.
pub(super) fn starts_and_continues(
    value: &str,
    first: impl Fn(u8) -> bool,
    rest: impl Fn(u8) -> bool,
) -> bool {
    match value.as_bytes() {
        [] => false,
        [head, tail @ ..] => first(*head) && tail.iter().all(|byte| rest(*byte)),
    }
}

/// Matches `[good]+`.
pub(super) fn is_all(value: &str, good: impl Fn(u8) -> bool) -> bool {
    !value.is_empty() && value.bytes().all(good)
}

/// Matches `[outer]([inner]*[outer])?`.
fn is_enclosed(value: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [single] => outer(*single),
        [first, middle @ .., last] => outer(*first) && outer(*last) && middle.iter().all(|byte| inner(*byte)),
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

pub(super) fn is_dns1123_label(value: &str) -> bool {
    is_enclosed(value, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

pub(super) fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

pub(super) fn is_label_with_underscore(value: &str) -> bool {
    let inner = |byte| is_lower_alphanumeric(byte) || matches!(byte, b'-' | b'_');
    is_enclosed(value.strip_prefix('_').unwrap_or(value), is_lower_alphanumeric, inner)
}

pub(super) fn is_dns1035_label(value: &str) -> bool {
    is_dns1123_label(value) && value.as_bytes()[0].is_ascii_lowercase()
}

/// Matches the name part of a label key, and a non-empty label value.
pub(super) fn is_label_name(value: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_alphanumeric();
    is_enclosed(value, outer, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
