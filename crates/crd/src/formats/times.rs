//! Dates, times and durations.

// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/date.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/time.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/duration.go

use atoll_meta::time;

/// Whether the text is an existing day in the form `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    plain && time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// Upstream's date-time, which is laxer than RFC 3339: text after another `t` is ignored.
pub(super) fn is_date_time(text: &str) -> bool {
    if text.len() < 4 {
        return false;
    }
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

/// Go's durations, and numbers with unit names anywhere in the text.
pub(super) fn is_duration(text: &str) -> bool {
    time::parse_duration(text).is_some() || has_units(text)
}

/// Unit names; the last of each may be the start of a longer word.
const UNITS: &[&[&str]] = &[
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

fn has_units(text: &str) -> bool {
    let mut found = false;
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
        if from[..length].parse::<i64>().is_err() {
            return false;
        }
        let unit = after[..word].to_lowercase();
        found |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str()) || names.last().is_some_and(|last| unit.starts_with(last))
        });
        rest = &after[word..];
    }
    found
}
