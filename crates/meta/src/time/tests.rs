//! Timestamps and durations.

use super::*;

#[test]
fn reads_times_as_go_does() {
    for (text, expected) in TIMES {
        let parsed = parse(text).map(|time| (time.seconds, time.nanos)).map_err(|error| error.to_string());
        assert_eq!(
            parsed.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|error| *error),
            "{text:?}"
        );
    }
}

#[test]
fn reads_micro_times_as_go_does() {
    for (text, expected) in MICRO_TIMES {
        let parsed =
            parse_micro(text).map(|time| (time.seconds, time.nanos)).map_err(|error| error.to_string());
        assert_eq!(
            parsed.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|error| *error),
            "{text:?}"
        );
    }
}

#[test]
fn writes_times() {
    for (seconds, time, micro_time) in FORMATTED {
        assert_eq!(format(*seconds), *time);
        assert_eq!(format_micro(*seconds, 123_456_789), *micro_time);
    }
}

#[test]
fn every_day_of_the_calendar_round_trips() {
    let mut expected = (0, 1, 1);
    for day in day_of(0, 1, 1)..=day_of(2400, 12, 31) {
        assert_eq!(date_of(day), expected);
        assert_eq!(day_of(expected.0, expected.1, expected.2), day);
        expected = match expected {
            (year, 12, 31) => (year + 1, 1, 1),
            (year, month, day) if day == days_in(year, month) => (year, month + 1, 1),
            (year, month, day) => (year, month, day + 1),
        };
    }
}

#[test]
fn first_second_is_the_zero_time() {
    assert!(parse("0001-01-01T00:00:00Z").unwrap().is_zero());
    assert!(!parse("0001-01-01T00:00:01Z").unwrap().is_zero());
    assert!(!parse("1970-01-01T00:00:00Z").unwrap().is_zero());
}

/// Recorded from Go: the encoding of a decoded `metav1.Time` and `metav1.MicroTime`, or the error.
#[test]
fn objects_have_canonical_times() {
    let encoded = |canonical: Result<Canonical, TimeError>, text: &str| match canonical {
        Ok(Canonical::Same) => text.to_owned(),
        Ok(Canonical::Changed(written)) => written,
        Ok(Canonical::Zero) => "null".to_owned(),
        Err(error) => {
            let error = error.to_string();
            error.rsplit_once(": ").map_or(String::new(), |(_, reason)| reason.to_owned())
        }
    };
    let range = |part: &str| format!("{part} out of range");
    let cannot = |rest: &str, part: &str| format!("cannot parse \"{rest}\" as \"{part}\"");
    let cases = [
        ("2026-11-15T08:07:21Z", "2026-11-15T08:07:21Z".into(), cannot("Z", ".000000")),
        ("2026-11-15T8:07:21Z", "2026-11-15T08:07:21Z".into(), cannot("Z", ".000000")),
        ("2026-11-15T08:07:21,5Z", "2026-11-15T08:07:21Z".into(), cannot(",5Z", ".000000")),
        ("2026-11-15T08:07:21.000042Z", "2026-11-15T08:07:21Z".into(), "2026-11-15T08:07:21.000042Z".into()),
        ("2026-11-15T08:07:21,000042Z", "2026-11-15T08:07:21Z".into(), "2026-11-15T08:07:21.000042Z".into()),
        ("2026-11-15T08:07:21.+00042Z", cannot(".+00042Z", "Z07:00"), "2026-11-15T08:07:21.000042Z".into()),
        ("2026-11-15T08:07:21.-00042Z", cannot(".-00042Z", "Z07:00"), range("fractional second")),
        ("2026-11-15T08:07:21.-00000Z", cannot(".-00000Z", "Z07:00"), "2026-11-15T08:07:21.000000Z".into()),
        (
            "2026-11-15T08:07:21.000042+24:60",
            "2026-11-14T07:07:21Z".into(),
            "2026-11-14T07:07:21.000042Z".into(),
        ),
        (
            "2026-11-15T08:07:21.000042+25:61",
            range("time zone offset minute"),
            range("time zone offset minute"),
        ),
        ("2026-11-15T08:07:21.000042+25:6x", range("time zone offset hour"), range("time zone offset hour")),
        ("2026-11-15T08:07:21.000042x25:00", range("time zone offset hour"), range("time zone offset hour")),
        ("2026-11-15T08:07:21+2x:61", cannot("+2x:61", "Z07:00"), cannot("+2x:61", ".000000")),
        ("2026-11-15T08:07:21+00:61", range("time zone offset minute"), cannot("+00:61", ".000000")),
        ("0001-01-01T00:00:00.0000001Z", "0001-01-01T00:00:00Z".into(), cannot("1Z", "Z07:00")),
        ("0001-01-01T00:00:00.000000Z", "null".into(), "null".into()),
        ("0000-01-01T00:00:00+23:00", "-0001-12-31T01:00:00Z".into(), cannot("+23:00", ".000000")),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z".into(), cannot("-01:00", ".000000")),
    ];
    for (text, time, micro_time) in cases {
        assert_eq!(encoded(canonical(text), text), time, "{text}");
        assert_eq!(encoded(canonical_micro(text), text), micro_time, "{text} with microseconds");
    }
    assert_eq!(canonical("2026-11-15T08:07:21Z"), Ok(Canonical::Same));
    assert_eq!(canonical_micro("2026-11-15T08:07:21.000042Z"), Ok(Canonical::Same));
}

#[test]
fn times_are_written_with_weekdays_and_zones() {
    assert_eq!(format_rfc1123(1794730041), "Sun, 15 Nov 2026 08:07:21");
    assert_eq!(format_rfc1123(-1), "Wed, 31 Dec 1969 23:59:59");
    assert_eq!(format_in_zone(1794730041, 0), "2026-11-15T08:07:21Z");
    assert_eq!(format_in_zone(1794730041, 5 * 3600 + 1800), "2026-11-15T13:37:21+05:30");
    assert_eq!(format_in_zone(1794730041, -3600), "2026-11-15T07:07:21-01:00");
}

#[test]
fn timestamps_are_ordered_and_print() {
    let early = Timestamp::new(1, 5_000);
    assert!(early < Timestamp::new(1, 6_000) && early < Timestamp::new(2, 0));
    assert_eq!(early.to_time(), "1970-01-01T00:00:01Z");
    assert_eq!(early.to_micro_time(), "1970-01-01T00:00:01.000005Z");
}

#[test]
fn durations_print_as_go_prints_them() {
    for (nanos, expected) in DURATIONS {
        assert_eq!(format_duration(*nanos), *expected);
    }
}

#[test]
fn durations_are_read_as_go_reads_them() {
    for (text, expected) in DURATION_TEXTS {
        assert_eq!(explain_duration(text), expected.map_err(str::to_owned), "{text}");
        assert_eq!(parse_duration(text), expected.ok(), "{text}");
    }
}

#[test]
fn ages_print_as_kubectl_prints_them() {
    for (seconds, expected) in AGES {
        assert_eq!(human_duration(*seconds), *expected, "{seconds} seconds");
    }
}

/// Result of parsing: seconds and nanoseconds, or the error. All tables here were recorded from Go.
type Expected = Result<(i64, u32), &'static str>;
#[rustfmt::skip]
const TIMES: &[(&str, Expected)] = &[
    ("2026-11-15T08:07:21Z", Ok((1794730041, 0))),
    ("2026-11-15T08:07:21+00:00", Ok((1794730041, 0))),
    ("2026-11-15T08:07:21-07:00", Ok((1794755241, 0))),
    ("2026-11-15T08:07:21+05:30", Ok((1794710241, 0))),
    ("2026-11-15T08:07:21.5Z", Ok((1794730041, 500000000))),
    ("2026-11-15T08:07:21.123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:07:21.123456789Z", Ok((1794730041, 123456789))),
    ("2026-11-15T08:07:21.1234567891Z", Ok((1794730041, 123456789))),
    ("2026-11-15T08:07:21,123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:07:21.Z", Err(r#"parsing time "2026-11-15T08:07:21.Z" as "2006-01-02T15:04:05Z07:00": cannot parse ".Z" as "Z07:00""#)),
    ("2026-11-15T08:07:21.12345Z", Ok((1794730041, 123450000))),
    ("2026-11-15T08:07:21.1234567Z", Ok((1794730041, 123456700))),
    ("2026-11-15T08:07:21.12345xZ", Err(r#"parsing time "2026-11-15T08:07:21.12345xZ" as "2006-01-02T15:04:05Z07:00": cannot parse "xZ" as "Z07:00""#)),
    ("2026-11-15T8:07:21Z", Ok((1794730041, 0))),
    ("2026-11-15T8:07:21.123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:7:21Z", Err(r#"parsing time "2026-11-15T08:7:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "7:21Z" as "04""#)),
    ("2026-11-15T08:07:1Z", Err(r#"parsing time "2026-11-15T08:07:1Z" as "2006-01-02T15:04:05Z07:00": cannot parse "1Z" as "05""#)),
    ("2026-1-15T08:07:21Z", Err(r#"parsing time "2026-1-15T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "1-15T08:07:21Z" as "01""#)),
    ("2026-11-5T08:07:21Z", Err(r#"parsing time "2026-11-5T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "5T08:07:21Z" as "02""#)),
    ("226-11-15T08:07:21Z", Err(r#"parsing time "226-11-15T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "226-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15 08:07:21Z", Err(r#"parsing time "2026-11-15 08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 08:07:21Z" as "T""#)),
    ("2026-11-15t08:07:21Z", Err(r#"parsing time "2026-11-15t08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "t08:07:21Z" as "T""#)),
    ("2026-11-15T08:07:21z", Err(r#"parsing time "2026-11-15T08:07:21z" as "2006-01-02T15:04:05Z07:00": cannot parse "z" as "Z07:00""#)),
    ("2026-11-15T08:07:21", Err(r#"parsing time "2026-11-15T08:07:21" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#)),
    ("2026-11-15T08:07Z", Err(r#"parsing time "2026-11-15T08:07Z" as "2006-01-02T15:04:05Z07:00": cannot parse "Z" as ":""#)),
    ("2026-11-15", Err(r#"parsing time "2026-11-15" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#)),
    ("2026", Err(r#"parsing time "2026" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "-""#)),
    ("", Err(r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#)),
    ("x", Err(r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#)),
    ("null", Err(r#"parsing time "null" as "2006-01-02T15:04:05Z07:00": cannot parse "null" as "2006""#)),
    ("2026-13-15T08:07:21Z", Err(r#"parsing time "2026-13-15T08:07:21Z": month out of range"#)),
    ("2026-00-15T08:07:21Z", Err(r#"parsing time "2026-00-15T08:07:21Z": month out of range"#)),
    ("2026-11-00T08:07:21Z", Err(r#"parsing time "2026-11-00T08:07:21Z": day out of range"#)),
    ("2026-11-31T08:07:21Z", Err(r#"parsing time "2026-11-31T08:07:21Z": day out of range"#)),
    ("2026-02-29T08:07:21Z", Err(r#"parsing time "2026-02-29T08:07:21Z": day out of range"#)),
    ("2024-02-29T08:07:21Z", Ok((1709194041, 0))),
    ("2100-02-29T00:00:00Z", Err(r#"parsing time "2100-02-29T00:00:00Z": day out of range"#)),
    ("2000-02-29T00:00:00Z", Ok((951782400, 0))),
    ("2026-11-32T08:07:21Z", Err(r#"parsing time "2026-11-32T08:07:21Z": day out of range"#)),
    ("2026-11-15T24:07:21Z", Err(r#"parsing time "2026-11-15T24:07:21Z": hour out of range"#)),
    ("2026-11-15T08:60:21Z", Err(r#"parsing time "2026-11-15T08:60:21Z": minute out of range"#)),
    ("2026-11-15T08:07:60Z", Err(r#"parsing time "2026-11-15T08:07:60Z": second out of range"#)),
    ("2026-11-15T08:07:61Z", Err(r#"parsing time "2026-11-15T08:07:61Z": second out of range"#)),
    ("2026-11-15T08:07:21+24:00", Ok((1794643641, 0))),
    ("2026-11-15T08:07:21+25:00", Err(r#"parsing time "2026-11-15T08:07:21+25:00": time zone offset hour out of range"#)),
    ("2026-11-15T08:07:21+23:60", Ok((1794643641, 0))),
    ("2026-11-15T08:07:21+23:61", Err(r#"parsing time "2026-11-15T08:07:21+23:61": time zone offset minute out of range"#)),
    ("2026-11-15T08:07:21+0100", Err(r#"parsing time "2026-11-15T08:07:21+0100" as "2006-01-02T15:04:05Z07:00": cannot parse "+0100" as "Z07:00""#)),
    ("2026-11-15T08:07:21+01", Err(r#"parsing time "2026-11-15T08:07:21+01" as "2006-01-02T15:04:05Z07:00": cannot parse "+01" as "Z07:00""#)),
    ("2026-11-15T08:07:21x01:00", Err(r#"parsing time "2026-11-15T08:07:21x01:00" as "2006-01-02T15:04:05Z07:00": cannot parse "x01:00" as "Z07:00""#)),
    ("2026-11-15T08:07:21+0x:00", Err(r#"parsing time "2026-11-15T08:07:21+0x:00" as "2006-01-02T15:04:05Z07:00": cannot parse "+0x:00" as "Z07:00""#)),
    ("2026-11-15T08:07:21Zx", Err(r#"parsing time "2026-11-15T08:07:21Zx": extra text: "x""#)),
    ("2026-11-15T08:07:21ZZ", Err(r#"parsing time "2026-11-15T08:07:21ZZ": extra text: "Z""#)),
    ("0001-01-01T00:00:00Z", Ok((-62135596800, 0))),
    ("0000-01-01T00:00:00Z", Ok((-62167219200, 0))),
    ("9999-12-31T23:59:59Z", Ok((253402300799, 0))),
    ("1969-12-31T23:59:59Z", Ok((-1, 0))),
    ("2026-11-15T08:07:21Z\n", Err(r#"parsing time "2026-11-15T08:07:21Z\x0a": extra text: "\x0a""#)),
    ("\u{e9}026-11-15T08:07:21Z", Err(r#"parsing time "\xc3\xa9026-11-15T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9026-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15T08:07:21\u{e9}", Err(r#"parsing time "2026-11-15T08:07:21\xc3\xa9" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9" as "Z07:00""#)),
    ("20260-11-15T08:07:21Z", Err(r#"parsing time "20260-11-15T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "0-11-15T08:07:21Z" as "-""#)),
    ("-026-11-15T08:07:21Z", Err(r#"parsing time "-026-11-15T08:07:21Z" as "2006-01-02T15:04:05Z07:00": cannot parse "-026-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15T08:07:21.123456+01:00", Ok((1794726441, 123456000))),
    (r#"""#, Err(r#"parsing time "\"" as "2006-01-02T15:04:05Z07:00": cannot parse "\"" as "2006""#)),
    (r#"\"#, Err(r#"parsing time "\\" as "2006-01-02T15:04:05Z07:00": cannot parse "\\" as "2006""#)),
];

#[rustfmt::skip]
const MICRO_TIMES: &[(&str, Expected)] = &[
    ("2026-11-15T08:07:21Z", Err(r#"parsing time "2026-11-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-15T08:07:21+00:00", Err(r#"parsing time "2026-11-15T08:07:21+00:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+00:00" as ".000000""#)),
    ("2026-11-15T08:07:21-07:00", Err(r#"parsing time "2026-11-15T08:07:21-07:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "-07:00" as ".000000""#)),
    ("2026-11-15T08:07:21+05:30", Err(r#"parsing time "2026-11-15T08:07:21+05:30" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+05:30" as ".000000""#)),
    ("2026-11-15T08:07:21.5Z", Err(r#"parsing time "2026-11-15T08:07:21.5Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".5Z" as ".000000""#)),
    ("2026-11-15T08:07:21.123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:07:21.123456789Z", Err(r#"parsing time "2026-11-15T08:07:21.123456789Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "789Z" as "Z07:00""#)),
    ("2026-11-15T08:07:21.1234567891Z", Err(r#"parsing time "2026-11-15T08:07:21.1234567891Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "7891Z" as "Z07:00""#)),
    ("2026-11-15T08:07:21,123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:07:21.Z", Err(r#"parsing time "2026-11-15T08:07:21.Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".Z" as ".000000""#)),
    ("2026-11-15T08:07:21.12345Z", Err(r#"parsing time "2026-11-15T08:07:21.12345Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".12345Z" as ".000000""#)),
    ("2026-11-15T08:07:21.1234567Z", Err(r#"parsing time "2026-11-15T08:07:21.1234567Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "7Z" as "Z07:00""#)),
    ("2026-11-15T08:07:21.12345xZ", Err(r#"parsing time "2026-11-15T08:07:21.12345xZ" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".12345xZ" as ".000000""#)),
    ("2026-11-15T8:07:21Z", Err(r#"parsing time "2026-11-15T8:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-15T8:07:21.123456Z", Ok((1794730041, 123456000))),
    ("2026-11-15T08:7:21Z", Err(r#"parsing time "2026-11-15T08:7:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "7:21Z" as "04""#)),
    ("2026-11-15T08:07:1Z", Err(r#"parsing time "2026-11-15T08:07:1Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "1Z" as "05""#)),
    ("2026-1-15T08:07:21Z", Err(r#"parsing time "2026-1-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "1-15T08:07:21Z" as "01""#)),
    ("2026-11-5T08:07:21Z", Err(r#"parsing time "2026-11-5T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "5T08:07:21Z" as "02""#)),
    ("226-11-15T08:07:21Z", Err(r#"parsing time "226-11-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "226-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15 08:07:21Z", Err(r#"parsing time "2026-11-15 08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse " 08:07:21Z" as "T""#)),
    ("2026-11-15t08:07:21Z", Err(r#"parsing time "2026-11-15t08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "t08:07:21Z" as "T""#)),
    ("2026-11-15T08:07:21z", Err(r#"parsing time "2026-11-15T08:07:21z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "z" as ".000000""#)),
    ("2026-11-15T08:07:21", Err(r#"parsing time "2026-11-15T08:07:21" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as ".000000""#)),
    ("2026-11-15T08:07Z", Err(r#"parsing time "2026-11-15T08:07Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ":""#)),
    ("2026-11-15", Err(r#"parsing time "2026-11-15" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "T""#)),
    ("2026", Err(r#"parsing time "2026" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "-""#)),
    ("", Err(r#"parsing time "" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "" as "2006""#)),
    ("x", Err(r#"parsing time "x" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x" as "2006""#)),
    ("null", Err(r#"parsing time "null" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "null" as "2006""#)),
    ("2026-13-15T08:07:21Z", Err(r#"parsing time "2026-13-15T08:07:21Z": month out of range"#)),
    ("2026-00-15T08:07:21Z", Err(r#"parsing time "2026-00-15T08:07:21Z": month out of range"#)),
    ("2026-11-00T08:07:21Z", Err(r#"parsing time "2026-11-00T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-31T08:07:21Z", Err(r#"parsing time "2026-11-31T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-02-29T08:07:21Z", Err(r#"parsing time "2026-02-29T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2024-02-29T08:07:21Z", Err(r#"parsing time "2024-02-29T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2100-02-29T00:00:00Z", Err(r#"parsing time "2100-02-29T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2000-02-29T00:00:00Z", Err(r#"parsing time "2000-02-29T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-32T08:07:21Z", Err(r#"parsing time "2026-11-32T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-15T24:07:21Z", Err(r#"parsing time "2026-11-15T24:07:21Z": hour out of range"#)),
    ("2026-11-15T08:60:21Z", Err(r#"parsing time "2026-11-15T08:60:21Z": minute out of range"#)),
    ("2026-11-15T08:07:60Z", Err(r#"parsing time "2026-11-15T08:07:60Z": second out of range"#)),
    ("2026-11-15T08:07:61Z", Err(r#"parsing time "2026-11-15T08:07:61Z": second out of range"#)),
    ("2026-11-15T08:07:21+24:00", Err(r#"parsing time "2026-11-15T08:07:21+24:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+24:00" as ".000000""#)),
    ("2026-11-15T08:07:21+25:00", Err(r#"parsing time "2026-11-15T08:07:21+25:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+25:00" as ".000000""#)),
    ("2026-11-15T08:07:21+23:60", Err(r#"parsing time "2026-11-15T08:07:21+23:60" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+23:60" as ".000000""#)),
    ("2026-11-15T08:07:21+23:61", Err(r#"parsing time "2026-11-15T08:07:21+23:61" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+23:61" as ".000000""#)),
    ("2026-11-15T08:07:21+0100", Err(r#"parsing time "2026-11-15T08:07:21+0100" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+0100" as ".000000""#)),
    ("2026-11-15T08:07:21+01", Err(r#"parsing time "2026-11-15T08:07:21+01" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+01" as ".000000""#)),
    ("2026-11-15T08:07:21x01:00", Err(r#"parsing time "2026-11-15T08:07:21x01:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x01:00" as ".000000""#)),
    ("2026-11-15T08:07:21+0x:00", Err(r#"parsing time "2026-11-15T08:07:21+0x:00" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "+0x:00" as ".000000""#)),
    ("2026-11-15T08:07:21Zx", Err(r#"parsing time "2026-11-15T08:07:21Zx" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Zx" as ".000000""#)),
    ("2026-11-15T08:07:21ZZ", Err(r#"parsing time "2026-11-15T08:07:21ZZ" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "ZZ" as ".000000""#)),
    ("0001-01-01T00:00:00Z", Err(r#"parsing time "0001-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("0000-01-01T00:00:00Z", Err(r#"parsing time "0000-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("9999-12-31T23:59:59Z", Err(r#"parsing time "9999-12-31T23:59:59Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("1969-12-31T23:59:59Z", Err(r#"parsing time "1969-12-31T23:59:59Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#)),
    ("2026-11-15T08:07:21Z\n", Err(r#"parsing time "2026-11-15T08:07:21Z\x0a" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z\x0a" as ".000000""#)),
    ("\u{e9}026-11-15T08:07:21Z", Err(r#"parsing time "\xc3\xa9026-11-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "\xc3\xa9026-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15T08:07:21\u{e9}", Err(r#"parsing time "2026-11-15T08:07:21\xc3\xa9" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "\xc3\xa9" as ".000000""#)),
    ("20260-11-15T08:07:21Z", Err(r#"parsing time "20260-11-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "0-11-15T08:07:21Z" as "-""#)),
    ("-026-11-15T08:07:21Z", Err(r#"parsing time "-026-11-15T08:07:21Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "-026-11-15T08:07:21Z" as "2006""#)),
    ("2026-11-15T08:07:21.123456+01:00", Ok((1794726441, 123456000))),
    (r#"""#, Err(r#"parsing time "\"" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "\"" as "2006""#)),
    (r#"\"#, Err(r#"parsing time "\\" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "\\" as "2006""#)),
];

#[rustfmt::skip]
const FORMATTED: &[(i64, &str, &str)] = &[
    (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.123456Z"),
    (-1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.123456Z"),
    (1, "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.123456Z"),
    (951782400, "2000-02-29T00:00:00Z", "2000-02-29T00:00:00.123456Z"),
    (951868800, "2000-03-01T00:00:00Z", "2000-03-01T00:00:00.123456Z"),
    (1582934400, "2020-02-29T00:00:00Z", "2020-02-29T00:00:00.123456Z"),
    (1794733641, "2026-11-15T09:07:21Z", "2026-11-15T09:07:21.123456Z"),
    (-62135596800, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.123456Z"),
    (253402300799, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.123456Z"),
    (-2208988800, "1900-01-01T00:00:00Z", "1900-01-01T00:00:00.123456Z"),
    (4107542400, "2100-03-01T00:00:00Z", "2100-03-01T00:00:00.123456Z"),
    (1709164799, "2024-02-28T23:59:59Z", "2024-02-28T23:59:59.123456Z"),
    (1709164800, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00.123456Z"),
];

#[rustfmt::skip]
const DURATIONS: &[(i64, &str)] = &[
    (0, "0s"),
    (1, "1ns"),
    (999, "999ns"),
    (1000, "1\u{b5}s"),
    (1500, "1.5\u{b5}s"),
    (999999, "999.999\u{b5}s"),
    (1000000, "1ms"),
    (1500000, "1.5ms"),
    (250000000, "250ms"),
    (1000000000, "1s"),
    (1500000000, "1.5s"),
    (61000000000, "1m1s"),
    (3600000000000, "1h0m0s"),
    (3661100000000, "1h1m1.1s"),
    (-1500000000, "-1.5s"),
    (-1, "-1ns"),
    (9223372036854775807, "2562047h47m16.854775807s"),
    (-9223372036854775808, "-2562047h47m16.854775808s"),
    (100000000000000, "27h46m40s"),
];

#[rustfmt::skip]
const AGES: &[(i64, &str)] = &[
    (-100, "<invalid>"),
    (-2, "<invalid>"),
    (-1, "0s"),
    (0, "0s"),
    (1, "1s"),
    (59, "59s"),
    (60, "60s"),
    (119, "119s"),
    (120, "2m"),
    (121, "2m1s"),
    (180, "3m"),
    (599, "9m59s"),
    (600, "10m"),
    (601, "10m"),
    (10799, "179m"),
    (10800, "3h"),
    (10860, "3h1m"),
    (28799, "7h59m"),
    (28800, "8h"),
    (172799, "47h"),
    (172800, "2d"),
    (176400, "2d1h"),
    (691199, "7d23h"),
    (691200, "8d"),
    (63071999, "729d"),
    (63072000, "2y"),
    (63158400, "2y1d"),
    (252287999, "7y364d"),
    (252288000, "8y"),
    (500000000, "15y"),
];

#[rustfmt::skip]
const DURATION_TEXTS: &[(&str, Result<i64, &str>)] = &[
    ("0", Ok(0)),
    ("-0", Ok(0)),
    ("+0", Ok(0)),
    ("1h30m", Ok(5400000000000)),
    ("-1.5s", Ok(-1500000000)),
    (".5s", Ok(500000000)),
    ("1.s", Ok(1000000000)),
    ("1.5h2s", Ok(5402000000000)),
    ("1us", Ok(1000)),
    ("1µs", Ok(1000)),
    ("1μs", Ok(1000)),
    ("9223372036854775807ns", Ok(9223372036854775807)),
    ("9223372036854775808ns", Err(r#"time: invalid duration "9223372036854775808ns""#)),
    ("-9223372036854775808ns", Ok(-9223372036854775808)),
    ("-9223372036854775809ns", Err(r#"time: invalid duration "-9223372036854775809ns""#)),
    ("2562047h47m16.854775807s", Ok(9223372036854775807)),
    ("2562047h47m16.854775808s", Err(r#"time: invalid duration "2562047h47m16.854775808s""#)),
    ("0.9223372036854775807123h", Ok(3320413933267)),
    ("0.100000000000000000000h", Ok(360000000000)),
    ("9223372036854775809x", Err(r#"time: invalid duration "9223372036854775809x""#)),
    ("99999999999999999999s", Err(r#"time: invalid duration "99999999999999999999s""#)),
    ("3000000h", Err(r#"time: invalid duration "3000000h""#)),
    ("", Err(r#"time: invalid duration """#)),
    ("-", Err(r#"time: invalid duration "-""#)),
    ("+", Err(r#"time: invalid duration "+""#)),
    ("x", Err(r#"time: invalid duration "x""#)),
    (".s", Err(r#"time: invalid duration ".s""#)),
    ("-.s", Err(r#"time: invalid duration "-.s""#)),
    ("1", Err(r#"time: missing unit in duration "1""#)),
    ("1.5", Err(r#"time: missing unit in duration "1.5""#)),
    ("1d", Err(r#"time: unknown unit "d" in duration "1d""#)),
    ("1h1", Err(r#"time: missing unit in duration "1h1""#)),
    ("1é", Err(r#"time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9""#)),
    ("1 s", Err(r#"time: unknown unit " s" in duration "1 s""#)),
    ("\"1s\"", Err(r#"time: invalid duration "\"1s\"""#)),
    ("5\n", Err(r#"time: unknown unit "\x0a" in duration "5\x0a""#)),
    ("9007199254.740993s", Ok(9007199254740993000)),
    ("0.3333333333333333333h", Ok(1200000000000)),
];
