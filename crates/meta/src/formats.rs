//! Formats of strings that schemas and expressions check: dates, times, durations and base64.

// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/date.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/default.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/duration.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/time.go

use crate::time;

/// Whether the text is an existing day in the form `2006-01-02`.
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    plain && time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// Upstream's date-time, which is laxer than RFC 3339: text after another `t` is ignored.
pub fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && is_time(time),
        _ => false,
    }
}

/// Whether the text is `15:04:05`, any character, digits, and a zone.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((clock, mut rest)) = bytes.split_at_checked(8) else { return false };
    let plain = clock.iter().enumerate().all(|(index, byte)| match index {
        2 | 5 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !plain
        || &clock[..2] > b"23".as_slice()
        || &clock[3..5] > b"59".as_slice()
        || &clock[6..] > b"59".as_slice()
    {
        return false;
    }
    if is_zone(rest) {
        return true;
    }
    // The decimal point can be any character except a newline.
    let Some(point) = text[8..].chars().next().filter(|character| *character != '\n') else { return false };
    rest = &rest[point.len_utf8()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && is_zone(&rest[digits..])
}

fn is_zone(zone: &[u8]) -> bool {
    match zone {
        b"z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// Units and their names; the last name of each may be the start of a longer word.
const UNITS: &[(i64, &[&str])] = &[
    (1, &["ns", "nano"]),
    (1_000, &["us", "µs", "micro"]),
    (1_000_000, &["ms", "milli"]),
    (1_000_000_000, &["s", "sec"]),
    (60_000_000_000, &["m", "min"]),
    (3_600_000_000_000, &["h", "hr", "hour"]),
    (86_400_000_000_000, &["d", "day"]),
    (604_800_000_000_000, &["w", "wk", "week"]),
];

/// Parses a duration in nanoseconds: one of Go's, or numbers with unit names anywhere in the text. Unknown
/// names count as nothing, and sums that are too large wrap around, as upstream.
pub fn parse_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = time::parse_duration(text) {
        return Some(nanos);
    }
    let mut total = None;
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let from = &rest[start..];
        let length = from.find(|character: char| !character.is_ascii_digit()).unwrap_or(from.len());
        let after = from[length..].trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let is_letter = |character: char| character.is_ascii_alphabetic() || character == 'µ';
        let word = after.find(|character: char| !is_letter(character)).unwrap_or(after.len());
        if word == 0 {
            rest = &from[length..];
            continue;
        }
        let number: i64 = from[..length].parse().ok()?;
        let name = after[..word].to_lowercase();
        let is_name = |names: &[&str]| {
            names.contains(&name.as_str()) || names.last().is_some_and(|last| name.starts_with(last))
        };
        if let Some((unit, _)) = UNITS.iter().find(|(_, names)| is_name(names)) {
            total = Some(total.unwrap_or(0i64).wrapping_add(number.wrapping_mul(*unit)));
        }
        rest = &after[word..];
    }
    total
}

/// Whether the text is base64 with padding and without line breaks, of at least four characters.
pub fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    !data.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - data.len() <= 2
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from k8s.io/kube-openapi/pkg/validation/strfmt.
    #[test]
    fn durations_are_read_as_upstream_reads_them() {
        const HOUR: i64 = 3_600_000_000_000;
        let cases = [
            ("1h30m", Some(HOUR + HOUR / 2)),
            ("3 days", Some(72 * HOUR)),
            ("3 Days and 2 hours", Some(74 * HOUR)),
            ("1 fortnight", None),
            ("1 fortnight 1 wk", Some(168 * HOUR)),
            ("2 weekends", Some(336 * HOUR)),
            ("5 wks", None),
            ("5 HR", Some(5 * HOUR)),
            ("12", None),
            ("1 2h", Some(2 * HOUR)),
            ("", None),
            ("99999999999999999999 s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn base64_needs_padding() {
        for text in ["YQ==", "YWI=", "YWJj", "YR==", "YWJjYQ=="] {
            assert!(is_base64(text), "{text}");
        }
        for text in ["", "=", "====", "Y===", "YQ", "YQ=", "YQ==\n", "YQ-=", "YQ==YQ=="] {
            assert!(!is_base64(text), "{text}");
        }
    }
}
