//! Points in time and spans of it: reading, writing, taking apart. A span is a number of nanoseconds, as in Go.

pub use atoll_meta::time::parse_duration;
use atoll_meta::time::{Timestamp, date_of, day_of};

const DAY: i64 = 86_400;
pub const SECOND: i64 = 1_000_000_000;

/// A timestamp as RFC 3339 has it, with as many digits after the point as it needs.
pub fn format_timestamp(at: Timestamp) -> String {
    let mut text = atoll_meta::time::format(at.seconds);
    if at.nanos > 0 {
        let fraction = format!("{:09}", at.nanos);
        text.insert_str(text.len() - 1, &format!(".{}", fraction.trim_end_matches('0')));
    }
    text
}

/// A span as seconds: `1.5s`.
pub fn format_duration(nanos: i64) -> String {
    // As Go does: whole seconds and the rest become one double.
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

/// Reads a string of `format: duration`: as Go does, or numbers with words such as `3 days`.
pub fn parse_schema_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let (mut total, mut rest, mut found) = (0i64, text, false);
    while let Some(start) = rest.find(|at: char| at.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.len() - rest.trim_start_matches(|at: char| at.is_ascii_digit()).len();
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters =
            rest.len() - rest.trim_start_matches(|at: char| at.is_ascii_alphabetic() || at == 'µ').len();
        let unit = match &rest[..letters] {
            "ns" | "nano" => 1,
            "us" | "µs" | "micro" => 1_000,
            "ms" | "milli" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
            "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600 * SECOND,
            "d" | "day" | "days" => DAY * SECOND,
            "w" | "wk" | "wks" | "week" | "weeks" => 7 * DAY * SECOND,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(number.checked_mul(unit)?)?;
        found = true;
    }
    found.then_some(total)
}

/// Reads a string of `format: date`.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    (text.len() == 10).then(|| atoll_meta::time::parse(&format!("{text}T00:00:00Z")).ok()).flatten()
}

/// Reads a string of `format: date-time`: RFC 3339 or one of the shorter forms that upstream takes.
pub fn parse_date_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Some(Timestamp::new(0, 0));
    }
    let zoned = |text: &str| atoll_meta::time::parse(text).ok();
    if let Some(at) = zoned(text) {
        return Some(at);
    }
    let bare = text.strip_suffix('Z').unwrap_or(text);
    match bare.len() {
        // 2006-01-02T15:04, and 2006-01-02 15:04:05 or 2006-01-02T15:04:05.
        16 => zoned(&format!("{bare}:00Z")),
        _ if text.ends_with('Z') => None,
        _ => zoned(&format!("{}Z", bare.replacen(' ', "T", 1))),
    }
}

/// The parts of a timestamp in a zone.
pub struct Parts {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// From 0.
    pub day_of_year: i64,
    /// From 0, which is Sunday.
    pub day_of_week: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl Parts {
    /// Takes apart a timestamp so many seconds east of UTC.
    pub fn of(at: Timestamp, offset: i64) -> Parts {
        let seconds = at.seconds + offset;
        let days = seconds.div_euclid(DAY);
        let (year, month, day) = date_of(days);
        let within = seconds.rem_euclid(DAY);
        Parts {
            year,
            month,
            day,
            day_of_year: days - day_of(year, 1, 1),
            day_of_week: (days + 4).rem_euclid(7),
            hour: within / 3600,
            minute: within / 60 % 60,
            second: within % 60,
        }
    }
}
