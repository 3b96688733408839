//! Rules for names that contain a domain. They return field errors, because they may apply to a part of the
//! value.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go

use super::{dns1123_label, dns1123_subdomain, pattern, pattern_error, qualified_name};
use crate::field::{FieldError, FieldPath};

/// Checks a domain with at least three segments.
pub fn fully_qualified_name(path: &FieldPath, name: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let errors = dns1123_subdomain(name);
    if !errors.is_empty() {
        return vec![FieldError::invalid(path, name, errors.join(","))];
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    Vec::new()
}

/// Checks a domain with at least two segments and an optional trailing dot.
pub fn fully_qualified_domain_name(path: &FieldPath, name: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let errors = dns1123_subdomain(name);
    if !errors.is_empty() {
        return vec![FieldError::invalid(path, name, errors.join(","))];
    }
    if name.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    for label in name.split('.') {
        let errors = dns1123_label(label);
        if !errors.is_empty() {
            return vec![FieldError::invalid(path, label, errors.join(","))];
        }
    }
    Vec::new()
}

/// Checks a domain and a path such as `acme.io/foo`.
pub fn domain_prefixed_path(path: &FieldPath, value: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let (host, rest) = match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => (host, rest),
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![FieldError::invalid(path, value, detail)];
        }
    };
    let mut errors: Vec<FieldError> =
        dns1123_subdomain(host).into_iter().map(|error| FieldError::invalid(path, host, error)).collect();
    if !pattern::is_all(rest, is_http_path_byte) {
        let detail = pattern_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(FieldError::invalid(path, rest, detail));
    }
    errors
}

fn is_http_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)
}

/// Checks a domain and a name such as `acme.io/foo`.
pub fn domain_prefixed_key(path: &FieldPath, key: &str) -> Vec<FieldError> {
    if key.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let errors = qualified_name(key);
    if !errors.is_empty() {
        return errors.into_iter().map(|error| FieldError::invalid(path, key, error)).collect();
    }
    if !key.contains('/') {
        let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(path, key, detail)];
    }
    Vec::new()
}
