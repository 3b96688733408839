use atoll_meta::time::{format, parse};

use super::*;

fn zones(name: &str) -> Option<Arc<Zone>> {
    let rule = match name {
        "" | "UTC" => "UTC0",
        "America/New_York" => "EST5EDT,M3.2.0,M11.1.0",
        "Asia/Kolkata" => "IST-5:30",
        // A zone where daylight saving started at midnight.
        "America/Sao_Paulo" => "<-03>3<-02>,M10.3.0/0,M2.3.0/0",
        _ => return None,
    };
    Zone::from_posix_tz(rule).map(Arc::new)
}

fn next(schedule: &str, after: &str) -> String {
    let schedule = Schedule::parse(schedule, &zones).unwrap();
    match schedule.next(parse(after).unwrap().seconds) {
        NEVER => "never".into(),
        time => format(time),
    }
}

#[test]
fn next_times() {
    for (schedule, after, expected) in [
        ("* * * * *", "2026-11-15T08:00:00Z", "2026-11-15T08:01:00Z"),
        ("* * * * *", "2026-11-15T08:00:30Z", "2026-11-15T08:01:00Z"),
        ("0/15 * * * *", "2026-11-15T08:00:00Z", "2026-11-15T08:15:00Z"),
        ("0/15 * * * *", "2026-11-15T08:45:01Z", "2026-11-15T09:00:00Z"),
        ("20-35/15 * * * *", "2026-11-15T08:45:00Z", "2026-11-15T09:20:00Z"),
        ("20-35/15 * * * *", "2026-12-31T23:46:00Z", "2027-01-01T00:20:00Z"),
        ("*/5 8-18 * * mon-fri", "2026-11-13T18:55:00Z", "2026-11-16T08:00:00Z"),
        ("0 0 1 jan *", "2026-11-15T08:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 * Feb Mon", "2026-11-15T08:00:00Z", "2027-02-01T00:00:00Z"),
        ("0 0 13 * fri", "2026-11-15T08:00:00Z", "2026-11-20T00:00:00Z"),
        ("0 0 13 * *", "2026-11-15T08:00:00Z", "2026-12-13T00:00:00Z"),
        ("0 0 */2 * fri", "2026-11-15T08:00:00Z", "2026-11-17T00:00:00Z"),
        ("0 0 29 2 *", "2026-11-15T08:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 31 2 *", "2026-11-15T08:00:00Z", "never"),
        ("59 23 31 12 ?", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
        ("0 0 * * 1,3", "2026-11-15T08:00:00Z", "2026-11-16T00:00:00Z"),
        ("@hourly", "2026-11-15T08:00:00Z", "2026-11-15T09:00:00Z"),
        ("@daily", "2026-11-15T08:00:00Z", "2026-11-16T00:00:00Z"),
        ("@midnight", "2026-11-15T08:00:00Z", "2026-11-16T00:00:00Z"),
        ("@weekly", "2026-11-15T08:00:00Z", "2026-11-22T00:00:00Z"),
        ("@monthly", "2026-11-15T08:00:00Z", "2026-12-01T00:00:00Z"),
        ("@yearly", "2026-11-15T08:00:00Z", "2027-01-01T00:00:00Z"),
        ("@annually", "2026-11-15T08:00:00Z", "2027-01-01T00:00:00Z"),
        ("@every 90m", "2026-11-15T08:00:07Z", "2026-11-15T09:30:07Z"),
        ("@every 1ms", "2026-11-15T08:00:00Z", "2026-11-15T08:00:01Z"),
        ("@every 1.5h2s", "2026-11-15T08:00:00Z", "2026-11-15T09:30:02Z"),
    ] {
        assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
    }
}

#[test]
fn schedules_use_their_time_zone() {
    for (schedule, after, expected) in [
        ("TZ=America/New_York 0 0 * * *", "2026-11-15T08:00:00Z", "2026-11-16T05:00:00Z"),
        ("CRON_TZ=America/New_York 0 0 * * *", "2026-07-15T08:00:00Z", "2026-07-16T04:00:00Z"),
        ("TZ=Asia/Kolkata 14 14 * * *", "2026-07-15T08:44:00Z", "2026-07-16T08:44:00Z"),
        ("TZ=Asia/Kolkata 14 14 * * *", "2026-07-15T08:43:59Z", "2026-07-15T08:44:00Z"),
        // The hour from two to three does not exist.
        ("TZ=America/New_York 30 2 8 3 *", "2026-03-01T00:00:00Z", "2027-03-08T07:30:00Z"),
        ("TZ=America/New_York 0 * * * *", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"),
        ("TZ=America/New_York 0 3 * * *", "2026-03-08T05:00:00Z", "2026-03-08T07:00:00Z"),
        // The hour from one to two exists twice.
        ("TZ=America/New_York 0 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z"),
        ("TZ=America/New_York 0 1 * * *", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
        ("TZ=America/New_York 0 * * * *", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
        // Midnight does not exist.
        ("TZ=America/Sao_Paulo 0 9 18 10 *", "2026-10-10T00:00:00Z", "2026-10-18T11:00:00Z"),
        ("TZ=America/Sao_Paulo 0 9 19 10 *", "2026-10-17T00:00:00Z", "2026-10-19T11:00:00Z"),
    ] {
        assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
    }
}

#[test]
fn invalid_schedules_are_refused() {
    for (schedule, expected) in [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
        ("* * * foo *", "failed to parse int from foo: strconv.Atoi: parsing \"foo\": invalid syntax"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        ("TZ=Mars * * * * *", "provided bad location Mars: unknown time zone Mars"),
        ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
    ] {
        assert_eq!(Schedule::parse(schedule, &zones), Err(expected.to_owned()), "{schedule}");
    }
}
