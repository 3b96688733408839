//! The language of cron, and when it is next time: `*/5 8-18 * * mon-fri`, `@daily`, `@every 90m`.

use std::sync::Arc;

use atoll_meta::quote::quote;
use atoll_zones::{Civil, Zone};

/// A time that never was: there is no next one.
pub const NEVER: i64 = -62_135_596_800;
/// Marks that all of a field are meant.
const STAR: u64 = 1 << 63;
/// Years that are searched.
const HORIZON: i64 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Fields(Fields),
    /// Every so many seconds.
    Every(i64),
}

/// Bits of the numbers that are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    zone: Arc<Zone>,
}

/// What a field may hold.
struct Field {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { low: 0, high: 59, names: &[] };
const HOUR: Field = Field { low: 0, high: 23, names: &[] };
const DAY: Field = Field { low: 1, high: 31, names: &[] };
const MONTH: Field = Field {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field = Field { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// What short words stand for.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Schedule {
    /// Reads a schedule. `zones` finds zones by name.
    pub fn parse(text: &str, zones: &dyn Fn(&str) -> Option<Arc<Zone>>) -> Result<Schedule, String> {
        if text.is_empty() {
            return Err("empty spec string".into());
        }
        let (mut text, mut zone) = (text, Arc::new(Zone::utc()));
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let (name, rest) = text
                .split_once(' ')
                .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
            let name = name.split_once('=').map_or("", |(_, name)| name);
            zone = zones(name)
                .ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
            text = rest.trim();
        }
        if let Some((_, meaning)) = WORDS.iter().find(|(word, _)| *word == text) {
            text = meaning;
        }
        if let Some(every) = text.strip_prefix("@every ") {
            let nanos = duration(every).map_err(|why| format!("failed to parse duration {text}: {why}"))?;
            return Ok(Schedule::Every((nanos / 1_000_000_000).max(1)));
        }
        if text.starts_with('@') {
            return Err(format!("unrecognized descriptor: {text}"));
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
        };
        Ok(Schedule::Fields(Fields {
            minute: MINUTE.bits(minute)?,
            hour: HOUR.bits(hour)?,
            day: DAY.bits(day)?,
            month: MONTH.bits(month)?,
            weekday: WEEKDAY.bits(weekday)?,
            zone,
        }))
    }

    /// The first time after `time`, or [`NEVER`].
    pub fn next(&self, time: i64) -> i64 {
        match self {
            Schedule::Every(seconds) => time.saturating_add(*seconds),
            Schedule::Fields(fields) => fields.next(time).unwrap_or(NEVER),
        }
    }
}

impl Field {
    fn bits(&self, text: &str) -> Result<u64, String> {
        let ranges = text.split(',').filter(|range| !range.is_empty());
        ranges.map(|range| self.range(range)).try_fold(0, |bits, range| Ok(bits | range?))
    }

    /// One of the ranges of a field: `5`, `1-5`, `*`, each perhaps with a step.
    fn range(&self, range: &str) -> Result<u64, String> {
        let parts: Vec<&str> = range.split('/').collect();
        let bounds: Vec<&str> = parts[0].split('-').collect();
        let (low, mut high, mut star) = match bounds.as_slice() {
            ["*" | "?", ..] => (self.low, self.high, STAR),
            [low] => (self.number_or_name(low)?, self.number_or_name(low)?, 0),
            [low, high] => (self.number_or_name(low)?, self.number_or_name(high)?, 0),
            [low, ..] => {
                self.number_or_name(low)?;
                return Err(format!("too many hyphens: {range}"));
            }
            [] => (self.low, self.high, 0),
        };
        let step = match parts.as_slice() {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                if bounds.len() == 1 {
                    high = self.high;
                }
                if step > 1 {
                    star = 0;
                }
                step
            }
            _ => return Err(format!("too many slashes: {range}")),
        };
        if low < self.low {
            return Err(format!("beginning of range ({low}) below minimum ({}): {range}", self.low));
        }
        if high > self.high {
            return Err(format!("end of range ({high}) above maximum ({}): {range}", self.high));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {range}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Ok((low..=high).step_by(step).fold(star, |bits, number| bits | 1 << number))
    }

    fn number_or_name(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match (self.low..).zip(self.names).find(|(_, name)| **name == lower) {
            Some((number, _)) => Ok(number),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = text.parse::<i64>().map_err(|_| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {reason}", quote(text))
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// A duration as Go reads it, such as `1h30m`, in nanoseconds.
fn duration(text: &str) -> Result<i64, String> {
    const UNITS: &[(&str, f64)] = &[
        ("ns", 1e0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (sign, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        if digits.matches('.').count() > 1 || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text)));
        };
        total += digits.trim_end_matches('.').parse::<f64>().unwrap_or(f64::INFINITY) * factor;
        rest = next;
    }
    if total > 9_223_372_036_854_775_807.0 { Err(invalid()) } else { Ok((sign * total) as i64) }
}

fn is_in(bits: u64, number: i64) -> bool {
    bits >> number & 1 == 1
}

impl Fields {
    /// Where both the day of the month and that of the week are given, either will do.
    fn is_day(&self, civil: Civil) -> bool {
        let (day, weekday) = (is_in(self.day, civil.day), is_in(self.weekday, civil.weekday));
        match (self.day | self.weekday) & STAR != 0 {
            true => day && weekday,
            false => day || weekday,
        }
    }

    /// Goes on from field to field, the largest first, and begins again whenever one of them begins anew.
    fn next(&self, after: i64) -> Option<i64> {
        let zone = &self.zone;
        let mut time = after + 1;
        let limit = zone.civil(time).year + HORIZON;
        // Whether what is smaller than the field at hand is at its beginning.
        let mut is_round = false;
        'again: loop {
            let mut civil = zone.civil(time);
            if civil.year > limit {
                return None;
            }
            while !is_in(self.month, civil.month) {
                if !is_round {
                    is_round = true;
                    civil = Civil { day: 1, hour: 0, minute: 0, second: 0, ..civil };
                }
                time = zone.time(Civil { month: civil.month + 1, ..civil });
                civil = zone.civil(time);
                if civil.month == 1 {
                    continue 'again;
                }
            }
            while !self.is_day(civil) {
                if !is_round {
                    is_round = true;
                    civil = zone.civil(zone.time(Civil { hour: 0, minute: 0, second: 0, ..civil }));
                }
                time = zone.time(Civil { day: civil.day + 1, ..civil });
                // Where there is no midnight, the day begins before or after.
                civil = zone.civil(time);
                if civil.hour != 0 {
                    time += if civil.hour > 12 { 24 - civil.hour } else { -civil.hour } * 3600;
                    civil = zone.civil(time);
                }
                if civil.day == 1 {
                    continue 'again;
                }
            }
            while !is_in(self.hour, civil.hour) {
                if !is_round {
                    is_round = true;
                    time = zone.time(Civil { minute: 0, second: 0, ..civil });
                }
                time += 3600;
                civil = zone.civil(time);
                if civil.hour == 0 {
                    continue 'again;
                }
            }
            while !is_in(self.minute, civil.minute) {
                if !is_round {
                    is_round = true;
                    time -= time.rem_euclid(60);
                }
                time += 60;
                civil = zone.civil(time);
                if civil.minute == 0 {
                    continue 'again;
                }
            }
            if civil.second != 0 {
                is_round = true;
                time += 60 - civil.second;
                continue 'again;
            }
            return Some(time);
        }
    }
}

#[cfg(test)]
mod tests;
