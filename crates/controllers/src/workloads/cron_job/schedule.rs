//! Computes the next time of a schedule in a time zone.

// upstream: github.com/robfig/cron/v3/spec.go

use std::sync::Arc;

use atoll_meta::cron::{self, Fields};
use atoll_zones::{Civil, Zone};

/// Go's zero time: the schedule has no next time.
pub const NEVER: i64 = -62_135_596_800;
/// Number of years that are searched.
const HORIZON: i64 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    times: cron::Schedule,
    zone: Arc<Zone>,
}

impl Schedule {
    /// Parses a schedule. `zones` finds zones by name.
    pub fn parse(text: &str, zones: &dyn Fn(&str) -> Option<Arc<Zone>>) -> Result<Schedule, String> {
        let (times, zone) = cron::Schedule::parse(text, zones)?;
        Ok(Schedule { times, zone: zone.unwrap_or_default() })
    }

    /// Returns the first scheduled time after `time`, or [`NEVER`].
    pub fn next(&self, time: i64) -> i64 {
        match &self.times {
            cron::Schedule::Every(seconds) => time.saturating_add(*seconds),
            cron::Schedule::Fields(fields) => {
                LocalSchedule { fields, zone: &self.zone }.next(time).unwrap_or(NEVER)
            }
        }
    }
}

struct LocalSchedule<'a> {
    fields: &'a Fields,
    zone: &'a Zone,
}

impl LocalSchedule<'_> {
    /// If both the day of the month and the day of the week are restricted, either may match.
    fn is_day(&self, civil: Civil) -> bool {
        let Fields { day, weekday, .. } = self.fields;
        let is_star = day.is_star() || weekday.is_star();
        let (day, weekday) = (day.contains(civil.day), weekday.contains(civil.weekday));
        match is_star {
            true => day && weekday,
            false => day || weekday,
        }
    }

    /// Advances field by field, the largest first, and restarts whenever a field wraps around.
    fn next(&self, after: i64) -> Option<i64> {
        let zone = self.zone;
        let mut time = after + 1;
        let limit = zone.civil(time).year + HORIZON;
        // Whether the smaller fields were already reset to their minimum.
        let mut is_reset = false;
        'again: loop {
            let mut civil = zone.civil(time);
            if civil.year > limit {
                return None;
            }
            while !self.fields.month.contains(civil.month) {
                if !is_reset {
                    is_reset = true;
                    civil = Civil { day: 1, hour: 0, minute: 0, second: 0, ..civil };
                }
                time = zone.time(Civil { month: civil.month + 1, ..civil });
                civil = zone.civil(time);
                if civil.month == 1 {
                    continue 'again;
                }
            }
            while !self.is_day(civil) {
                if !is_reset {
                    is_reset = true;
                    civil = zone.civil(zone.time(Civil { hour: 0, minute: 0, second: 0, ..civil }));
                }
                time = zone.time(Civil { day: civil.day + 1, ..civil });
                // Where midnight does not exist because of daylight saving, the day starts at another hour.
                civil = zone.civil(time);
                if civil.hour != 0 {
                    time += if civil.hour > 12 { 24 - civil.hour } else { -civil.hour } * 3600;
                    civil = zone.civil(time);
                }
                if civil.day == 1 {
                    continue 'again;
                }
            }
            while !self.fields.hour.contains(civil.hour) {
                if !is_reset {
                    is_reset = true;
                    time = zone.time(Civil { minute: 0, second: 0, ..civil });
                }
                time += 3600;
                civil = zone.civil(time);
                if civil.hour == 0 {
                    continue 'again;
                }
            }
            while !self.fields.minute.contains(civil.minute) {
                if !is_reset {
                    is_reset = true;
                    time -= time.rem_euclid(60);
                }
                time += 60;
                civil = zone.civil(time);
                if civil.minute == 0 {
                    continue 'again;
                }
            }
            if civil.second != 0 {
                is_reset = true;
                time += 60 - civil.second;
                continue 'again;
            }
            return Some(time);
        }
    }
}

#[cfg(test)]
mod tests;
