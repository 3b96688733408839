//! Yearly rules of a zone in POSIX format: `CET-1CEST,M3.5.0,M10.5.0/3`.

use atoll_meta::time::{date_of, day_of};

use super::{DAY, OffsetPeriod};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    standard: i64,
    daylight_saving: Option<DaylightSaving>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DaylightSaving {
    offset: i64,
    start: TransitionTime,
    end: TransitionTime,
}

/// A time of the year, by the local time before the transition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TransitionTime {
    day: Day,
    seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Day {
    /// A weekday in a week of a month; week five is the last.
    Weekday { month: i64, week: i64, weekday: i64 },
    /// Day of the year from 1, without the leap day.
    Julian(i64),
    /// Day of the year from 0, with the leap day.
    OfYear(i64),
}

impl Rule {
    pub fn parse(text: &str) -> Option<Rule> {
        let (offset, rest) = offset(skip_name(text)?)?;
        let standard = -offset;
        if rest.is_empty() {
            return Some(Rule { standard, daylight_saving: None });
        }
        let rest = skip_name(rest)?;
        let (ahead, rest) = match rest.starts_with(',') || rest.is_empty() {
            true => (standard + 3600, rest),
            false => offset_east(rest)?,
        };
        let rest = if rest.is_empty() { ",M3.2.0,M11.1.0" } else { rest };
        let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
        let daylight_saving = DaylightSaving {
            offset: ahead,
            start: TransitionTime::parse(start)?,
            end: TransitionTime::parse(end)?,
        };
        Some(Rule { standard, daylight_saving: Some(daylight_saving) })
    }

    pub(super) fn offset_period(&self, time: i64) -> OffsetPeriod {
        let Some(daylight_saving) = &self.daylight_saving else {
            return OffsetPeriod { offset: self.standard, since: i64::MIN, until: i64::MAX };
        };
        let (year, ..) = date_of((time + self.standard).div_euclid(DAY));
        let mut changes: Vec<(i64, i64)> = (year - 1..=year + 1)
            .flat_map(|year| {
                [
                    (daylight_saving.start.in_year(year) - self.standard, daylight_saving.offset),
                    (daylight_saving.end.in_year(year) - daylight_saving.offset, self.standard),
                ]
            })
            .collect();
        changes.sort_unstable();
        let place = changes.partition_point(|(since, _)| *since <= time);
        let (since, offset) = if place == 0 { (i64::MIN, self.standard) } else { changes[place - 1] };
        OffsetPeriod { offset, since, until: changes.get(place).map_or(i64::MAX, |(until, _)| *until) }
    }
}

/// Skips the name of a zone, and returns the rest.
fn skip_name(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
    (end >= 3).then(|| &text[end..])
}

/// Parses hours, minutes and seconds, as seconds.
fn offset(text: &str) -> Option<(i64, &str)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != ':').unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    let mut seconds = 0;
    let mut parts = number.split(':');
    for unit in [3600, 60, 1] {
        let Some(part) = parts.next() else { break };
        seconds += unit * part.parse::<i64>().ok().filter(|part| *part < 200)?;
    }
    Some((sign * seconds, rest))
}

/// Parses an offset east of UTC: POSIX rules contain the offset west of UTC.
fn offset_east(text: &str) -> Option<(i64, &str)> {
    offset(text).map(|(seconds, rest)| (-seconds, rest))
}

impl TransitionTime {
    fn parse(text: &str) -> Option<TransitionTime> {
        let (day, seconds) = match text.split_once('/') {
            None => (text, 2 * 3600),
            Some((day, time)) => (day, offset(time)?.0),
        };
        let day = if let Some(rest) = day.strip_prefix('M') {
            let mut numbers = rest.split('.').map(|number| number.parse::<i64>().ok());
            let mut next = || numbers.next().flatten();
            Day::Weekday { month: next()?, week: next()?, weekday: next()? }
        } else if let Some(number) = day.strip_prefix('J') {
            Day::Julian(number.parse().ok()?)
        } else {
            Day::OfYear(day.parse().ok()?)
        };
        Some(TransitionTime { day, seconds })
    }

    /// Returns the time in a year, in seconds of the local clock.
    fn in_year(&self, year: i64) -> i64 {
        let new_year = day_of(year, 1, 1);
        let day = match self.day {
            Day::OfYear(day) => new_year + day,
            Day::Julian(day) => {
                let is_leap = day_of(year + 1, 1, 1) - new_year == 366;
                new_year + day - 1 + i64::from(is_leap && day >= 60)
            }
            Day::Weekday { month, week, weekday } => {
                let first = day_of(year, month, 1);
                let ahead = (weekday - (first + 4)).rem_euclid(7);
                let day = first + ahead + (week - 1) * 7;
                let end = if month == 12 { day_of(year + 1, 1, 1) } else { day_of(year, month + 1, 1) };
                if day >= end { day - 7 } else { day }
            }
        };
        day * DAY + self.seconds
    }
}
