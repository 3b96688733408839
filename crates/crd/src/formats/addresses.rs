//! Host names, IP and MAC addresses.

// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/default.go

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use crate::pattern::Pattern;

static LETTER: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^\p{L}$"));
static LETTER_OR_SYMBOL: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^[\p{L}\p{S}]$"));

fn is_letter(character: char) -> bool {
    let in_unicode = || LETTER.is_match(character.encode_utf8(&mut [0; 4]));
    if character.is_ascii() { character.is_ascii_alphabetic() } else { in_unicode() }
}

/// Whether the character is a letter, digit or symbol of any language.
fn is_sign(character: char) -> bool {
    let in_unicode = || LETTER_OR_SYMBOL.is_match(character.encode_utf8(&mut [0; 4]));
    if character.is_ascii() {
        character.is_ascii_alphanumeric() || "$+<=>^`|~".contains(character)
    } else {
        in_unicode()
    }
}

/// One label with at most one dash after its first character, or several labels of which the last has only
/// letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|part| part.len() > 63) {
        return false;
    }
    let Some((names, last)) = text.rsplit_once('.') else {
        let mut characters = text.chars();
        let first = characters.next().is_some_and(is_sign);
        let rest = characters.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_sign);
    };
    let is_name = |name: &str| {
        let ends = name.chars().next().is_some_and(is_sign) && name.chars().next_back().is_some_and(is_sign);
        ends && name.chars().all(|character| character == '-' || is_sign(character))
    };
    last.chars().count() >= 2 && last.chars().all(is_letter) && names.split('.').all(is_name)
}

/// Parses an IPv4 address with leading zeros.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = part.trim_start_matches('0');
        *octet = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Parses an IPv6 address that may end in an IPv4 address with leading zeros.
fn sloppy_ipv6(text: &str) -> Option<Ipv6Addr> {
    let Some((head, tail)) = text.rsplit_once(':').filter(|(_, tail)| tail.contains('.')) else {
        return text.parse().ok();
    };
    format!("{head}:{}", sloppy_ipv4(tail)?).parse().ok()
}

pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (sloppy_ipv4(text).is_some() || sloppy_ipv6(text).is_some())
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, mask)) = text.split_once('/') else { return false };
    if mask.is_empty() || mask.len() > 8 || !mask.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let Ok(mask) = mask.parse::<u32>() else { return false };
    (sloppy_ipv4(address).is_some() && mask <= 32) || (sloppy_ipv6(address).is_some() && mask <= 128)
}

/// Six, eight or twenty bytes with separators, or pairs of bytes separated by dots.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 14 {
        return false;
    }
    let (separator, width, count) = match (bytes[2], bytes[4]) {
        (separator @ (b':' | b'-'), _) => (separator, 2, (bytes.len() + 1) / 3),
        (_, b'.') => (b'.', 4, 2 * (bytes.len() + 1) / 5),
        _ => return false,
    };
    (bytes.len() + 1).is_multiple_of(width + 1)
        && matches!(count, 6 | 8 | 20)
        && bytes.iter().enumerate().all(|(index, byte)| {
            if index % (width + 1) == width { *byte == separator } else { byte.is_ascii_hexdigit() }
        })
}
