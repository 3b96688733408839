//! Formats of digits, and base64.

// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/default.go

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is a UUID, with or without dashes, of a given version and, if `variant` is set, of the
/// RFC 4122 variant.
pub(super) fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0
            && let Some((b'-', after)) = rest.split_first()
        {
            rest = after;
        }
        let Some((part, after)) = rest.split_at_checked(length) else { return false };
        if !part.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        if index == 2 && version.is_some_and(|version| part[0] != version) {
            return false;
        }
        if index == 3 && variant && !matches!(part[0].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b') {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// The text without spaces and dashes.
fn bare(text: &str) -> String {
    text.chars().filter(|character| !matches!(character, '\t' | '\n' | '\u{c}' | '\r' | ' ' | '-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = bare(text);
    let bytes = text.as_bytes();
    if bytes.len() != 10 || !digits(&text[..text.floor_char_boundary(9)]) {
        return false;
    }
    let last = match bytes[9] {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(&bytes[..9]).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let text = bare(text);
    if text.len() != 13 || !digits(&text) {
        return false;
    }
    let bytes = text.as_bytes();
    let sum: u32 = bytes[..12]
        .iter()
        .zip([1, 3].iter().cycle())
        .map(|(digit, factor)| factor * u32::from(digit - b'0'))
        .sum();
    u32::from(bytes[12] - b'0') == (10 - sum % 10) % 10
}

pub(super) fn is_credit_card(text: &str) -> bool {
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    let number =
        |length: usize| text.get(..length).and_then(|text| text.parse::<u32>().ok()).unwrap_or_default();
    let (one, two, three, four) = (number(1), number(2), number(3), number(4));
    let known = match text.len() {
        13 => one == 4,
        14 => matches!(three, 300..=305) || matches!(two, 36 | 38),
        15 => matches!(two, 34 | 37) || matches!(four, 2131 | 1800),
        16 => one == 4 || matches!(two, 51..=55) || four == 6011 || two == 65 || two == 35,
        _ => false,
    };
    let sum: u32 = text
        .bytes()
        .rev()
        .zip([1, 2].iter().cycle())
        .map(|(digit, factor)| {
            let product = u32::from(digit - b'0') * factor;
            if product >= 10 { product % 10 + 1 } else { product }
        })
        .sum();
    known && sum.is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    let separator = |byte: u8| matches!(byte, b'-' | b' ');
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => separator(*byte),
            _ => byte.is_ascii_digit(),
        })
}

/// `rgb(0, 128, 255)`.
pub(super) fn is_rgb(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let space = |character: char| matches!(character, '\t' | '\n' | '\u{c}' | '\r' | ' ');
    let mut parts = 0;
    for part in inner.split(',') {
        let part = part.trim_matches(space);
        let plain = !part.is_empty() && digits(part) && (part == "0" || !part.starts_with('0'));
        if !plain || part.len() > 3 || part.parse::<u16>().is_ok_and(|number| number > 255) {
            return false;
        }
        parts += 1;
    }
    parts == 3
}
