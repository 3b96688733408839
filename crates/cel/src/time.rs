//! Timestamps and durations: parsing, formatting and components. A duration is a number of nanoseconds, as in
//! Go.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go
// upstream: github.com/google/cel-go/common/types/timestamp.go

pub use atoll_meta::time::parse_duration;
use atoll_meta::time::{Timestamp, date_of, day_of};

const DAY: i64 = 86_400;
pub const SECOND: i64 = 1_000_000_000;

/// Formats a timestamp as RFC 3339, with as many decimal places as needed.
pub fn format_timestamp(at: Timestamp) -> String {
    let mut text = atoll_meta::time::format(at.seconds);
    if at.nanos > 0 {
        let fraction = format!("{:09}", at.nanos);
        text.insert_str(text.len() - 1, &format!(".{}", fraction.trim_end_matches('0')));
    }
    text
}

/// Formats a duration in seconds: `1.5s`.
pub fn format_duration(nanos: i64) -> String {
    // As in Go, whole seconds and the rest are added as doubles.
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

/// Parses a string of `format: date`.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    (text.len() == 10).then(|| atoll_meta::time::parse(&format!("{text}T00:00:00Z")).ok()).flatten()
}

/// Parses a string of `format: date-time`: RFC 3339 or one of the shorter forms that upstream accepts.
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

/// Components of a timestamp in a zone.
pub struct Parts {
    pub year: i64,
    /// Starting at 1.
    pub month: i64,
    /// Starting at 1.
    pub day: i64,
    /// Starting at 0.
    pub day_of_year: i64,
    /// Starting at 0, which is Sunday.
    pub day_of_week: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl Parts {
    /// Splits a timestamp into components, at an offset in seconds east of UTC.
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
