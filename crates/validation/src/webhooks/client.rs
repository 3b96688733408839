//! The location of a webhook: a URL or a Service.

// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go
// Go standard library: src/net/url/url.go

use atoll_meta::names;
use atoll_meta::quote::quote;

use crate::field_value::{Errors, FieldValue};

const FORM: &str = "; desired format: https://host[/path]";

/// Parts of a URL that are validated.
#[derive(Default)]
struct Parts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

pub(crate) fn url(errors: &mut Errors, field: &FieldValue<'_>) {
    let parts = match parse(field.text()) {
        Ok(parts) => parts,
        Err(reason) => {
            let rendered = quote(field.text());
            errors.push(field.required(format!("url must be a valid URL: parse {rendered}: {reason}{FORM}")));
            return;
        }
    };
    let scheme = parts.scheme.to_ascii_lowercase();
    if scheme != "https" {
        errors.push(field.invalid_as(scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    if parts.host.is_empty() {
        errors.push(field.invalid_as("", format!("host must be specified{FORM}")));
    }
    if let Some(user) = parts.user {
        errors.push(field.invalid_as(user, "user information is not permitted in the URL"));
    }
    if !parts.fragment.is_empty() {
        errors.push(field.invalid_as(parts.fragment, "fragments are not permitted in the URL"));
    }
    if !parts.query.is_empty() {
        errors.push(field.invalid_as(parts.query, "query parameters are not permitted in the URL"));
    }
}

/// Parses a URL as Go does, as far as validation needs it.
fn parse(text: &str) -> Result<Parts<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) = scheme(rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // Opaque, as in `mailto:ann`.
            return Ok(Parts { scheme, query, fragment, ..Parts::default() });
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
            rest.split_at(rest.find('/').unwrap_or(rest.len()))
        }
        _ => ("", rest),
    };
    escapes(path)?;
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if let Some(bad) = host.chars().find(|c| " \"<>\\^`{|}".contains(*c)) {
        return Err(format!("invalid character {} in host name", quote(&bad.to_string())));
    }
    if let Some((_, port)) =
        host.rsplit_once(':').filter(|(name, _)| !name.contains('[') || name.ends_with(']'))
        && !port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("invalid port {} after host", quote(&format!(":{port}"))));
    }
    Ok(Parts { scheme, user, host, query, fragment })
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn escapes(path: &str) -> Result<(), String> {
    for (index, _) in path.match_indices('%') {
        let escape = path.get(index..index + 3).unwrap_or(&path[index..]);
        if escape.len() < 3 || !escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {}", quote(escape)));
        }
    }
    Ok(())
}

pub(crate) fn service(errors: &mut Errors, field: &FieldValue<'_>) {
    // Upstream confuses the two paths.
    if field.text_of("namespace").is_empty() {
        errors.push(field.get("name").required(""));
    }
    if field.text_of("name").is_empty() {
        errors.push(field.get("namespace").required(""));
    }
    named_service_port(errors, field);
}

/// Checks the name and the port of a Service reference.
pub(crate) fn named_service_port(errors: &mut Errors, field: &FieldValue<'_>) {
    let (port, path) = (field.get("port"), field.get("path"));
    let number = port.number().unwrap_or_default();
    let broken = names::port_number(number);
    if !broken.is_empty() {
        errors.push(port.invalid_as(number, format!("port is not valid: {}", broken.join(", "))));
    }
    match path.text() {
        "" | "/" => return,
        "//" => {
            errors.push(path.invalid("segment[0] may not be empty"));
            return;
        }
        _ => {}
    }
    if !path.text().starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // Upstream removes one byte, even inside a multi-byte character.
    let rest = path.text().get(1..).unwrap_or("\u{fffd}");
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        for rule in names::dns1123_subdomain(step) {
            errors.push(path.invalid(format!("segment[{index}]: {rule}")));
        }
    }
}
