//! Schedules and time zones of CronJobs.

// upstream: pkg/apis/batch/validation/validation.go
// upstream: github.com/robfig/cron/v3/parser.go

use atoll_meta::cron::Schedule;

/// Names of the zones in Go's embedded time zone database.
const TIME_ZONES: &str = include_str!("../../data/time_zones.txt");

/// Checks a schedule.
///
/// # Errors
///
/// Returns upstream's message about the first mistake.
pub(super) fn parse(text: &str) -> Result<(), String> {
    let is_zone = |name: &str| matches!(name, "" | "UTC" | "Local") || is_time_zone(name);
    Schedule::parse(text, |name| is_zone(name).then_some(())).map(|_| ())
}

fn is_time_zone(name: &str) -> bool {
    TIME_ZONES.lines().any(|zone| zone == name)
}

/// Returns upstream's messages about the name of a time zone.
pub(super) fn time_zone(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {name}");
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+'))
    };
    if !name.split('/').all(is_part) {
        return vec![unknown()];
    }
    let mut details = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        details.push(detail.to_owned());
    }
    if !matches!(name, "UTC" | "Local") && !is_time_zone(name) {
        details.push(unknown());
    }
    details
}
