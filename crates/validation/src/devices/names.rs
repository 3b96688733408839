//! Names of pools, attributes, capacities and shares.

// upstream: pkg/apis/resource/validation/validation.go
// upstream: github.com/google/uuid/uuid.go

use atoll_meta::field::BadValue;
use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, names};

use crate::csi_names;
use crate::field_value::{Errors, FieldValue};

pub(super) use crate::csi_names::driver;

const MAX_POOL_LENGTH: usize = 253;
const MAX_IDENTIFIER_LENGTH: usize = 32;

pub(super) fn label(errors: &mut Errors, field: &FieldValue<'_>) {
    field.rules(errors, names::dns1123_label(field.text()));
}

pub(super) fn node(errors: &mut Errors, field: &FieldValue<'_>) {
    field.rules(errors, names::name_is_dns_subdomain(field.text(), false));
}

/// Checks the key of a taint or the type of a condition.
pub(super) fn qualified_label(errors: &mut Errors, field: &FieldValue<'_>) {
    field.rules(errors, names::qualified_name(field.text()));
}

pub(super) fn pool(errors: &mut Errors, field: &FieldValue<'_>) {
    if field.is_empty() {
        errors.push(field.required(""));
        return;
    }
    if field.len() > MAX_POOL_LENGTH {
        errors.push(FieldError::too_long(&field.path, MAX_POOL_LENGTH));
    }
    for part in field.text().split('/') {
        field.part_rules(errors, part, names::dns1123_subdomain(part));
    }
}

/// Checks a qualified name of an attribute or capacity: an identifier, optionally after a domain and a slash.
pub(super) fn qualified(errors: &mut Errors, name: &str, path: &FieldPath) {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(only), None, _) => identifier(errors, only, path),
        (Some(domain), Some(name), None) => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "the domain must not be empty"));
            } else {
                csi_names::driver_name(errors, domain, path);
            }
            if name.is_empty() {
                errors.push(FieldError::invalid(path, "", "the name must not be empty"));
            } else {
                identifier(errors, name, path);
            }
        }
        // Upstream does not check names with more slashes.
        _ => {}
    }
}

pub(super) fn fully_qualified(errors: &mut Errors, field: &FieldValue<'_>) {
    qualified(errors, field.text(), &field.path);
    if !field.text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(field.invalid_as(field.named(), detail));
    }
}

fn identifier(errors: &mut Errors, name: &str, path: &FieldPath) {
    if name.len() > MAX_IDENTIFIER_LENGTH {
        errors.push(FieldError::too_long(path, MAX_IDENTIFIER_LENGTH));
    }
    let broken = names::c_identifier(name);
    errors.extend(broken.into_iter().map(|rule| FieldError::invalid(path, name, rule)));
}

/// Checks a share ID: a UUID in lower case with hyphens.
pub(super) fn share(errors: &mut Errors, field: &FieldValue<'_>) {
    const FORM: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let text = field.text();
    if let Err(fault) = is_uuid(text) {
        errors.push(field.invalid_as(text, format!("error validating uid: {fault}")));
    } else if text.len() != 36 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        errors.push(field.invalid_as(text, FORM));
    }
}

/// Checks that this is a UUID in any of the forms that Go's parser accepts.
fn is_uuid(text: &str) -> Result<(), String> {
    const URN: &str = "urn:uuid:";
    let bytes = text.as_bytes();
    let (head, tail) = bytes.split_at(bytes.len().min(URN.len()));
    let hyphened = match bytes.len() {
        36 => bytes,
        45 if head.eq_ignore_ascii_case(URN.as_bytes()) => tail,
        45 => return Err(format!("invalid urn prefix: {}", quote(&String::from_utf8_lossy(head)))),
        38 if bytes.starts_with(b"{") && bytes.ends_with(b"}") => &bytes[1..37],
        38 => return Err("invalid bracketed UUID format".to_owned()),
        32 if bytes.iter().all(u8::is_ascii_hexdigit) => return Ok(()),
        32 => return Err("invalid UUID format".to_owned()),
        length => return Err(format!("invalid UUID length: {length}")),
    };
    let right = hyphened.iter().enumerate().all(|(field, byte)| match field {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    if right { Ok(()) } else { Err("invalid UUID format".to_owned()) }
}

/// Returns a key as paths show it: without its middle if it is too long.
pub(super) fn shortened(key: &str, longest: usize) -> String {
    const DOTS: &str = "...";
    if key.len() <= longest {
        return key.to_owned();
    }
    let rest = longest - DOTS.len();
    let (head, tail) = (&key.as_bytes()[..rest.div_ceil(2)], &key.as_bytes()[key.len() - rest / 2..]);
    format!("{}{DOTS}{}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail))
}

/// The identity of a device, or of a share of one.
pub(super) type DeviceIdentity<'a> = [&'a str; 4];

pub(super) fn identity<'a>(device: &FieldValue<'a>) -> DeviceIdentity<'a> {
    ["driver", "pool", "device", "shareID"].map(|part| device.text_of(part))
}

pub(super) fn render_identity(identity: DeviceIdentity<'_>) -> BadValue {
    let [driver, pool, device, share] = identity.map(BadValue::named_text);
    BadValue::Rendered(format!(
        "{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{device},\"ShareID\":{share}}}"
    ))
}

#[cfg(test)]
mod tests {
    use atoll_meta::FieldPath;
    use serde_json::Value;

    use super::*;
    use crate::cases::lines;

    #[test]
    fn shares() {
        let plain = "12345678-9abc-def0-1234-56789abcdef0";
        for (text, expected) in [
            (plain, None),
            ("x", Some("invalid UUID length: 1")),
            ("12345678-9abc-def0-1234-56789abcdefg", Some("invalid UUID format")),
            ("12345678+9abc-def0-1234-56789abcdef0", Some("invalid UUID format")),
            ("123456789abcdef0123456789abcdefg", Some("invalid UUID format")),
            ("[12345678-9abc-def0-1234-56789abcdef0]", Some("invalid bracketed UUID format")),
            ("urn;uuid:12345678-9abc-def0-1234-56789abcdef0", Some("invalid urn prefix: \"urn;uuid:\"")),
            ("12345678-9ABC-DEF0-1234-56789ABCDEF0", Some("uid must be in RFC 4122")),
            ("123456789abcdef0123456789abcdef0", Some("uid must be in RFC 4122")),
        ] {
            let (value, mut errors) = (Value::from(text), Errors::new());
            share(&mut errors, &FieldValue { value: &value, path: FieldPath::new("shareID") });
            match expected {
                None => assert!(errors.is_empty(), "{text}: {errors:?}"),
                Some(part) => assert!(lines(&errors)[0].contains(part), "{text}: {errors:?}"),
            }
        }
    }

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened("abc", 16), "abc");
        assert_eq!(shortened("abcdefghijklmnopqrstuvwxyz", 16), "abcdefg...uvwxyz");
    }
}
