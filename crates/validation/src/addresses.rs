//! IP addresses and CIDR ranges: the values that upstream's parsers accept, and the legacy forms that they
//! accept only in existing objects.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/errors.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use atoll_meta::quote::quote;
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};

/// Parses an address, which may have leading zeros.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
        b'.' => sloppy_v4(text).map(IpAddr::V4),
        _ => sloppy_v6(text).map(IpAddr::V6),
    }
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = digits.then(|| without_zeros(part).parse().ok()).flatten()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn sloppy_v6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let parts: Vec<String> = text
        .split(':')
        .map(|part| match sloppy_v4(part) {
            Some(address) => address.to_string(),
            None if part.is_empty() => String::new(),
            None => without_zeros(part).to_owned(),
        })
        .collect();
    parts.join(":").parse().ok()
}

fn without_zeros(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    }
}

/// Formats an address as Go does: an IPv4-mapped IPv6 address is written as an IPv4 address.
pub(crate) fn canonical(address: IpAddr) -> String {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or_else(|| six.to_string(), |four| four.to_string()),
        IpAddr::V4(four) => four.to_string(),
    }
}

pub(crate) fn is_v6(text: &str) -> bool {
    matches!(parse(text), Some(IpAddr::V6(six)) if six.to_ipv4_mapped().is_none())
}

/// Checks an address in a field that accepts legacy forms. Values of the old object always pass.
pub(crate) fn legacy(errors: &mut Errors, field: &FieldValue<'_>, old: &[&str]) {
    if !old.contains(&field.text()) {
        strict(errors, field);
    }
}

fn strict(errors: &mut Errors, field: &FieldValue<'_>) -> Option<IpAddr> {
    let text = field.text();
    let Some(address) = parse(text) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(field.invalid_as(text, detail));
        return None;
    };
    match text.parse::<IpAddr>() {
        Err(_) => errors.push(field.invalid_as(text, "must not have leading 0s")),
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_some() => {
            errors.push(field.invalid_as(text, "must not be an IPv4-mapped IPv6 address"));
        }
        Ok(_) => return Some(address),
    }
    None
}

/// Checks that an address is valid and in canonical form.
pub(crate) fn address(errors: &mut Errors, field: &FieldValue<'_>) {
    if let Some(address) = strict(errors, field) {
        not_canonical(errors, field, &canonical(address));
    }
}

/// Validates the name of an IPAddress, which is the address itself.
pub fn address_name(name: &str, _: bool) -> Vec<String> {
    let value = Value::from(name);
    let mut errors = Errors::new();
    address(&mut errors, &FieldValue::root(&value));
    errors.iter().map(|error| error.detail().to_owned()).collect()
}

fn not_canonical(errors: &mut Errors, field: &FieldValue<'_>, canonical: &str) {
    if field.text() != canonical {
        let detail = format!("must be in canonical form ({})", quote(canonical));
        errors.push(field.invalid_as(field.text(), detail));
    }
}

/// A CIDR range: its first address and the length of its prefix.
pub(crate) struct Range {
    pub network: IpAddr,
    pub bits: u32,
}

impl Range {
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4() && masked(address, self.bits) == self.network
    }

    pub fn text(&self) -> String {
        // Go formats an IPv4-mapped IPv6 network as an IPv4 network with the remaining prefix length.
        let mapped = matches!(self.network, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
        let bits = if mapped { self.bits.saturating_sub(96) } else { self.bits };
        format!("{}/{bits}", canonical(self.network))
    }
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            Ipv4Addr::from(u32::from(four) & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into()
        }
        IpAddr::V6(six) => {
            Ipv6Addr::from(u128::from(six) & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into()
        }
    }
}

/// Parses a range, which may have leading zeros.
pub(crate) fn parse_range(text: &str) -> Option<Range> {
    let (address, bits) = text.split_once('/')?;
    let address = parse(address)?;
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = digits.then(|| without_zeros(bits).parse::<u32>().ok()).flatten()?;
    let limit = if address.is_ipv4() { 32 } else { 128 };
    (bits <= limit).then(|| Range { network: masked(address, bits), bits })
}

/// Checks a range in a field that accepts legacy forms. Values of the old object always pass.
pub(crate) fn legacy_range(errors: &mut Errors, field: &FieldValue<'_>, text: &str, old: &[&str]) {
    if !old.contains(&text) {
        strict_range(errors, field, text);
    }
}

fn strict_range(errors: &mut Errors, field: &FieldValue<'_>, text: &str) -> Option<Range> {
    let Some(range) = parse_range(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(field.invalid_as(text, detail));
        return None;
    };
    let (address, bits) = text.split_once('/').unwrap_or_default();
    let detail = match address.parse::<IpAddr>() {
        Ok(_) if bits.len() > 1 && bits.starts_with('0') => "must not have leading 0s in IP or prefix length",
        Err(_) => "must not have leading 0s in IP or prefix length",
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_some() => "must not have an IPv4-mapped IPv6 address",
        Ok(address) if address != range.network => "must not have bits set beyond the prefix length",
        Ok(_) => return Some(range),
    };
    errors.push(field.invalid_as(text, detail));
    None
}

/// Checks that a range is valid and in canonical form.
pub(crate) fn range(errors: &mut Errors, field: &FieldValue<'_>) {
    if let Some(range) = strict_range(errors, field, field.text()) {
        not_canonical(errors, field, &range.text());
    }
}

/// Checks the address of an interface with its prefix length, in canonical form.
pub(crate) fn interface(errors: &mut Errors, field: &FieldValue<'_>) {
    let text = field.text();
    let parts = parse_range(text).zip(text.split_once('/').and_then(|(address, _)| parse(address)));
    let Some((range, address)) = parts else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        errors.push(field.invalid_as(text, detail));
        return;
    };
    let is_within_v6 = address.to_canonical().is_ipv4() && range.bits > 32;
    let bits = if is_within_v6 { range.bits - 96 } else { range.bits };
    not_canonical(errors, field, &format!("{}/{bits}", canonical(address)));
}

/// Checks that an address can be an endpoint: not unspecified, loopback, link-local or link-local multicast.
pub(crate) fn endpoint(errors: &mut Errors, field: &FieldValue<'_>) {
    let text = field.text();
    let Some(address) = parse(text) else {
        errors.push(field.invalid_as(text, "must be a valid IP address"));
        return;
    };
    let address = address.to_canonical();
    let (link_local, multicast) = match address {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] & 0xff0f == 0xff02),
    };
    let found = [
        (address.is_unspecified(), format!("may not be unspecified ({text})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    errors.extend(found.into_iter().filter(|(is, _)| *is).map(|(_, detail)| field.invalid_as(text, detail)));
}
