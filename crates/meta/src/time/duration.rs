//! Durations as Go parses and formats them and as kubectl displays them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go
// Go standard library: src/time/time.go
// Go standard library: src/time/format.go

use super::parse::quote;

/// Formats a duration as Go does: `1h0m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    if size == 0 {
        return "0s".to_owned();
    }
    if size < SECOND {
        let (unit, name) = match size {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", with_fraction(size, unit));
    }
    let minutes = size / (60 * SECOND);
    let seconds = with_fraction(size % (60 * SECOND), SECOND);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Parses a duration in nanoseconds as Go does: `1h30m`, `-1.5s`, `0`.
pub fn parse_duration(text: &str) -> Option<i64> {
    nanoseconds(text).ok()
}

/// Parses a duration as [`parse_duration`] does.
///
/// # Errors
///
/// Returns Go's message.
pub fn explain_duration(text: &str) -> Result<i64, String> {
    nanoseconds(text).map_err(|fault| match fault {
        DurationError::Invalid => format!("time: invalid duration {}", quote(text.as_bytes())),
        DurationError::MissingUnit => format!("time: missing unit in duration {}", quote(text.as_bytes())),
        DurationError::UnknownUnit(unit) => {
            format!("time: unknown unit {} in duration {}", quote(unit.as_bytes()), quote(text.as_bytes()))
        }
    })
}

/// The reason why a string is not a duration.
enum DurationError<'a> {
    Invalid,
    MissingUnit,
    UnknownUnit(&'a str),
}

/// Absolute value of the smallest duration, which is one more than the largest.
const LIMIT: u64 = 1 << 63;

fn nanoseconds(text: &str) -> Result<i64, DurationError<'_>> {
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::Invalid);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Invalid);
        }
        let whole = if whole.is_empty() { Some(0) } else { whole.parse().ok() };
        let whole: u64 = whole.filter(|whole| *whole <= LIMIT).ok_or(DurationError::Invalid)?;
        let length = after.find(|at: char| at == '.' || at.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(length);
        let unit: u64 = match name {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(DurationError::MissingUnit),
            _ => return Err(DurationError::UnknownUnit(name)),
        };
        let part = whole.checked_mul(unit).and_then(|part| part.checked_add(part_of(unit, fraction)));
        let sum = part.and_then(|part| total.checked_add(part)).filter(|sum| *sum <= LIMIT);
        total = sum.ok_or(DurationError::Invalid)?;
        rest = after;
    }
    match is_negative {
        true => Ok((total as i64).wrapping_neg()),
        false => i64::try_from(total).map_err(|_| DurationError::Invalid),
    }
}

/// Splits off the leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns the fraction of a unit that the digits after a decimal point represent. Excess digits are ignored.
fn part_of(unit: u64, fraction: &str) -> u64 {
    let (mut number, mut scale) = (0u64, 1.0);
    for digit in fraction.bytes().map(|byte| u64::from(byte - b'0')) {
        match number.checked_mul(10).and_then(|number| number.checked_add(digit)) {
            Some(longer) if longer <= LIMIT => number = longer,
            _ => break,
        }
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Formats `size / unit` with as many decimal places as needed; `unit` is a power of ten.
fn with_fraction(size: u64, unit: u64) -> String {
    let whole = size / unit;
    let rest = size % unit;
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Formats an age as tables display it: `42s`, `5m10s`, `3h`, `2d4h`, `5y`.
pub fn human_duration(seconds: i64) -> String {
    // A clock skew of one second does not make a time invalid.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let pair = |large: i64, large_name: &str, small: i64, small_name: &str| {
        if small == 0 {
            format!("{large}{large_name}")
        } else {
            format!("{large}{large_name}{small}{small_name}")
        }
    };
    match hours {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        0..8 => pair(hours, "h", minutes % 60, "m"),
        8..48 => format!("{hours}h"),
        48..192 => pair(hours / 24, "d", hours % 24, "h"),
        192..17_520 => format!("{}d", hours / 24),
        17_520..70_080 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}
