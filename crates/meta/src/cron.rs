//! Cron expressions: `*/5 8-18 * * mon-fri`, `@daily`, `@every 90m`.
//!
//! Parsing does not need time zones; the caller computes the next time.

// upstream: github.com/robfig/cron/v3/parser.go
// upstream: github.com/robfig/cron/v3/spec.go

use crate::quote::quote;
use crate::time::explain_duration;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Fields(Fields),
    /// Interval in seconds, at least one.
    Every(i64),
}

/// The scheduled minutes, hours, days and months.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub minute: Numbers,
    pub hour: Numbers,
    pub day: Numbers,
    pub month: Numbers,
    /// Day of the week, from 0 for Sunday.
    pub weekday: Numbers,
}

/// A set of numbers below 60.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers(u64);

/// Bit that marks a field without restriction (`*`).
const STAR: u64 = 1 << 63;

impl Numbers {
    pub fn contains(self, number: i64) -> bool {
        (0..60).contains(&number) && self.0 >> number & 1 == 1
    }

    /// Whether the field was `*`, so that other fields decide.
    pub fn is_star(self) -> bool {
        self.0 & STAR != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 & !STAR == 0
    }
}

/// Limits of a field.
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

/// Predefined schedules.
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
    /// Parses a schedule, and the time zone if it starts with one. `zones` finds zones by name, including
    /// `UTC`, `Local` and the empty name.
    ///
    /// # Errors
    ///
    /// Returns upstream's message about the first mistake.
    pub fn parse<Z>(
        text: &str,
        zones: impl FnOnce(&str) -> Option<Z>,
    ) -> Result<(Schedule, Option<Z>), String> {
        if text.is_empty() {
            return Err("empty spec string".into());
        }
        if !text.starts_with("TZ=") && !text.starts_with("CRON_TZ=") {
            return Ok((Schedule::read(text)?, None));
        }
        let (zone, rest) = text
            .split_once(' ')
            .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        let zone =
            zones(name).ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
        Ok((Schedule::read(rest.trim())?, Some(zone)))
    }

    fn read(text: &str) -> Result<Schedule, String> {
        let text = WORDS.iter().find(|(word, _)| *word == text).map_or(text, |(_, meaning)| *meaning);
        if let Some(every) = text.strip_prefix("@every ") {
            let nanos =
                explain_duration(every).map_err(|why| format!("failed to parse duration {text}: {why}"))?;
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
            minute: MINUTE.numbers(minute)?,
            hour: HOUR.numbers(hour)?,
            day: DAY.numbers(day)?,
            month: MONTH.numbers(month)?,
            weekday: WEEKDAY.numbers(weekday)?,
        }))
    }
}

impl Field {
    fn numbers(&self, text: &str) -> Result<Numbers, String> {
        let mut ranges = text.split(',').filter(|range| !range.is_empty());
        ranges.try_fold(0, |bits, range| Ok(bits | self.range(range)?)).map(Numbers)
    }

    /// Returns the bits of one range of a field: `5`, `1-5`, `*`, each with an optional step.
    fn range(&self, range: &str) -> Result<u64, String> {
        let parts: Vec<&str> = range.split('/').collect();
        let bounds: Vec<&str> = parts[0].split('-').collect();
        let (low, mut high, mut star) = match bounds.as_slice() {
            ["*" | "?", ..] => (self.low, self.high, STAR),
            [low, high] => (self.number_or_name(low)?, self.number_or_name(high)?, 0),
            _ => {
                let low = self.number_or_name(bounds[0])?;
                if bounds.len() > 1 {
                    return Err(format!("too many hyphens: {range}"));
                }
                (low, low, 0)
            }
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

#[cfg(test)]
mod tests;
