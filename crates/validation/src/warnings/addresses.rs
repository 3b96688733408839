//! Warnings about IP addresses and ranges that are not in canonical form.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go

use std::net::IpAddr;

use atoll_meta::quote::quote;

use crate::addresses::{canonical, parse, parse_range};
use crate::field_value::FieldValue;

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some())
}

pub fn address(field: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let text = field.text();
    let Some(found) = parse(text) else { return };
    let strict = text.parse::<IpAddr>();
    if strict.is_err() || is_mapped(found) {
        let (value, better) = (quote(text), quote(&canonical(found)));
        warnings.push(format!("{}: non-standard IP address {value} is invalid: use {better}", field.path));
    } else if found.is_ipv6() && found.to_string() != text {
        let (value, better) = (quote(text), quote(&found.to_string()));
        warnings.push(format!(
            "{}: IPv6 address {value} should be in RFC 5952 canonical format ({better})",
            field.path
        ));
    }
}

pub fn range(field: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let text = field.text();
    let Some(found) = parse_range(text) else { return };
    let (written, bits) = text.split_once('/').unwrap_or_default();
    let Some(address) = parse(written) else { return };
    let value = quote(text);
    let network = found.text();
    let mut warned = false;
    if address != found.network {
        let length = if address.is_ipv4() || is_mapped(address) { 32 } else { 128 };
        let single = quote(&format!("{}/{length}", canonical(address)));
        warnings.push(format!(
            "{}: CIDR value {value} is ambiguous in this context (should be {} or {single}?)",
            field.path,
            quote(&network)
        ));
        warned = true;
    }
    let padded = bits.len() > 1 && bits.starts_with('0');
    if written.parse::<IpAddr>().is_err() || padded || is_mapped(address) {
        warnings.push(format!(
            "{}: non-standard CIDR value {value} is invalid: use {}",
            field.path,
            quote(&network)
        ));
        warned = true;
    }
    if !warned && address.is_ipv6() && network != text {
        warnings.push(format!(
            "{}: IPv6 CIDR value {value} should be in RFC 5952 canonical format ({})",
            field.path,
            quote(&network)
        ));
    }
}
