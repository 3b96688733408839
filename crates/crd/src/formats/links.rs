//! URIs as Go's `url.ParseRequestURI` accepts them.

// Go standard library: src/net/url/url.go

use std::net::Ipv6Addr;

pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !path.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match path.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !is_authority(scheme, authority) {
                return false;
            }
            path
        }
        None => path,
    };
    are_escapes(path, |_| true)
}

/// Splits off the scheme before the first colon. `None` if the scheme is empty.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(character);
    is_host(scheme, host) && user.is_none_or(|user| user.chars().all(allowed) && are_escapes(user, |_| true))
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => {
            let Some(end) = host.rfind(']') else { return false };
            let (name, port) = (&host[1..end], &host[end + 1..]);
            // A zone follows an escaped percent sign.
            let (address, zone) =
                name.split_once("%25").map_or((name, None), |(address, zone)| (address, Some(zone)));
            let is_address = address.parse::<Ipv6Addr>().is_ok();
            let is_zone = zone.is_none_or(|zone| {
                let zone_byte = |byte: u8| byte == b' ' || byte == b'%' || is_host_byte(byte);
                !zone.is_empty()
                    && are_escapes(zone, zone_byte)
                    && zone.bytes().all(|byte| byte == b'%' || byte >= 0x80 || is_host_byte(byte))
            });
            is_port(port) && is_address && is_zone
        }
        Some(_) => false,
        None => {
            if let Some(first) = host.find(':') {
                let strict = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
                let colon = if strict { first } else { host.rfind(':').unwrap_or(first) };
                if !is_port(&host[colon..]) {
                    return false;
                }
            }
            host.bytes().all(|byte| byte == b'%' || byte >= 0x80 || is_host_byte(byte))
                && are_escapes(host, |byte| byte >= 0x80 || byte == b'%')
        }
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

/// Whether each percent sign is followed by two hex digits of an allowed byte.
fn are_escapes(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let plain = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match plain.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if allowed(byte) => rest = &rest[at + 3..],
            _ => return false,
        }
    }
    true
}
