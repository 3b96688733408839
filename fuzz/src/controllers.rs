//! Input of controllers: schedules, time zones, indexes.

use std::str::FromStr;

use atoll_controllers::catalog::ControllerSelection;
use atoll_controllers::fuzzing::{Indexes, NEVER, Schedule};
use atoll_meta::cron;
use atoll_zones::Zone;

use crate::{Accepted, text};

/// November 2026.
const NOW: i64 = 1_794_730_041;

/// A schedule that is written as lists of numbers and parsed again is equal, and the next time is after the
/// current time and within the years that are searched.
pub fn cron(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let (schedule, _) = cron::Schedule::parse(text, |_| Some(())).ok()?;
    let again =
        cron::Schedule::parse(&spelled(&schedule), |_| Some(())).expect("written schedules can be parsed");
    assert_eq!(again.0, schedule);
    let zones = |_: &str| Some(Zone::utc().into());
    let next = Schedule::parse(text, &zones).expect("the schedule was just parsed").next(NOW);
    match schedule {
        cron::Schedule::Every(seconds) => assert_eq!(next, NOW.saturating_add(seconds)),
        cron::Schedule::Fields(_) => assert!(next == NEVER || (NOW < next && next < NOW + 6 * 366 * 86_400)),
    }
    Some(())
}

fn spelled(schedule: &cron::Schedule) -> String {
    match schedule {
        cron::Schedule::Every(seconds) => format!("@every {seconds}s"),
        cron::Schedule::Fields(fields) => {
            let cron::Fields { minute, hour, day, month, weekday } = *fields;
            [minute, hour, day, month, weekday].map(listed).join(" ")
        }
    }
}

fn listed(numbers: cron::Numbers) -> String {
    match (numbers.is_star(), numbers.is_empty()) {
        (true, _) => "*".into(),
        (false, true) => ",".into(),
        (false, false) => {
            let numbers = (0..60).filter(|number| numbers.contains(*number));
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
        }
    }
}

/// In any time zone, times can be converted, and schedules find a next time or end.
pub fn zone(bytes: &[u8]) -> Accepted {
    if let Some(rule) = text(bytes) {
        Zone::from_posix_tz(rule);
    }
    let zone = Zone::read(bytes)?;
    for years in -60..60 {
        let time = NOW + years * 31_556_952;
        let civil = zone.civil(time);
        assert!(
            (1..=12).contains(&civil.month) && (1..=31).contains(&civil.day) && (0..24).contains(&civil.hour)
        );
        let _ = zone.time(civil);
    }
    let zone = std::sync::Arc::new(zone);
    for text in ["TZ=x 30 2 * * *", "TZ=x 0 0 29 2 mon", "TZ=x * * * * *"] {
        let schedule = Schedule::parse(text, &|_| Some(zone.clone())).expect("a schedule");
        let _ = schedule.next(NOW);
    }
    Some(())
}

/// Sets of indexes are parsed without panics.
pub fn indexes(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let indexes = Indexes::parse(text, 1000).and(&Indexes::default());
    let _ = (indexes.total(), indexes.is_empty(), indexes.has(7), indexes.first_missing(5, 100));
    let _ = indexes.in_common(&Indexes::of([1, 2, 999]));
    (!indexes.is_empty()).then_some(())
}

/// A list of controllers is parsed or rejected.
pub fn list(bytes: &[u8]) -> Accepted {
    ControllerSelection::from_str(text(bytes)?).ok().map(|_| ())
}
