//! Timestamps as Kubernetes formats them, from and to seconds since 1970. Callers supply the current time.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go

mod duration;
mod parse;

use std::fmt;

pub use duration::{explain_duration, format_duration, human_duration, parse_duration};
pub use parse::{TimeError, parse, parse_micro};

const DAY: i64 = 86_400;
/// The first second of the year 1, which is Go's zero time and is written as null.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

impl Timestamp {
    /// Creates a timestamp.
    pub fn new(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    /// Whether this is Go's zero time.
    pub fn is_zero(self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    /// Formats as `metav1.Time`, see [`format()`].
    pub fn to_time(self) -> String {
        format(self.seconds)
    }

    /// Formats as `metav1.MicroTime`, see [`format_micro`].
    pub fn to_micro_time(self) -> String {
        format_micro(self.seconds, self.nanos)
    }
}

/// The form that a timestamp of an object has after it was decoded and encoded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Canonical {
    Same,
    Changed(String),
    /// Go's zero time, which is encoded as `null`.
    Zero,
}

/// Returns the form that `metav1.Time` gives a string.
///
/// # Errors
///
/// Returns an error if Go cannot parse the string either.
pub fn canonical(text: &str) -> Result<Canonical, TimeError> {
    let at = parse(text)?;
    Ok(canonical_form(text, at, "2006-01-02T15:04:05Z".len(), Timestamp::to_time))
}

/// Returns the form that `metav1.MicroTime` gives a string.
///
/// # Errors
///
/// Returns an error if Go cannot parse the string either.
pub fn canonical_micro(text: &str) -> Result<Canonical, TimeError> {
    let at = parse_micro(text)?;
    Ok(canonical_form(text, at, "2006-01-02T15:04:05.000000Z".len(), Timestamp::to_micro_time))
}

fn canonical_form(text: &str, at: Timestamp, length: usize, write: fn(Timestamp) -> String) -> Canonical {
    if at.is_zero() {
        return Canonical::Zero;
    }
    // Most timestamps are already canonical, so nothing is allocated.
    let has_plain_fraction = matches!(text.as_bytes().get(19..21), None | Some([b'.', b'0'..=b'9']));
    if text.len() == length && text.ends_with('Z') && has_plain_fraction {
        return Canonical::Same;
    }
    Canonical::Changed(write(at))
}

/// Formats a `metav1.Time`: `2026-11-15T08:07:21Z`.
pub fn format(seconds: i64) -> String {
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        return format!("{}Z", Civil(seconds));
    }
    // Every write formats times, and the formatting machinery takes ten times as long.
    let second = seconds.rem_euclid(DAY);
    let mut text = String::with_capacity("2026-11-15T08:07:21Z".len());
    push_digits(&mut text, year / 100);
    for (number, separator) in [
        (year % 100, '-'),
        (month, '-'),
        (day, 'T'),
        (second / 3600, ':'),
        (second / 60 % 60, ':'),
        (second % 60, 'Z'),
    ] {
        push_digits(&mut text, number);
        text.push(separator);
    }
    text
}

/// Appends two digits.
fn push_digits(text: &mut String, number: i64) {
    for digit in [number / 10 % 10, number % 10] {
        text.push(char::from(b'0' + digit as u8));
    }
}

/// Formats a `metav1.MicroTime`, with exactly six decimal places: `2026-11-15T08:07:21.000042Z`.
pub fn format_micro(seconds: i64, nanos: u32) -> String {
    format!("{}.{:06}Z", Civil(seconds), nanos / 1000)
}

/// Formats a time of HTTP and of RFC 1123, without the zone: `Sun, 15 Nov 2026 08:07:21`.
pub fn format_rfc1123(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let pick = |names: &[&'static str], place: i64| {
        usize::try_from(place).ok().and_then(|place| names.get(place).copied()).unwrap_or_default()
    };
    let (weekday, month) = (pick(&DAYS, days.rem_euclid(7)), pick(&MONTHS, month - 1));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02}")
}

/// Formats a time in RFC 3339 with the offset of a zone: `2026-11-15T09:07:21+01:00`.
pub fn format_in_zone(seconds: i64, offset: i64) -> String {
    let text = format(seconds + offset);
    if offset == 0 {
        return text;
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
    format!("{}{sign}{hours:02}:{minutes:02}", text.trim_end_matches('Z'))
}

/// Seconds, displayed as date and time without a zone.
struct Civil(i64);

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        if year < 0 {
            f.write_str("-")?;
        }
        write!(
            f,
            "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            year.unsigned_abs(),
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// Returns the date of a day since 1970. Years start in March, so that the leap day comes last and the months
/// have a regular pattern; eras are the 400 years after which the calendar repeats.
pub fn date_of(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_month)
}

/// The inverse of [`date_of`].
pub fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests;
