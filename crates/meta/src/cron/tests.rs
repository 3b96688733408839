//! Parsing of schedules, with upstream's messages.

use super::*;

fn parse(text: &str) -> Result<(Schedule, Option<String>), String> {
    Schedule::parse(text, |name| matches!(name, "" | "UTC" | "Asia/Kolkata").then(|| name.to_owned()))
}

fn listed(numbers: Numbers) -> Vec<i64> {
    (0..60).filter(|number| numbers.contains(*number)).collect()
}

#[test]
fn fields_are_lists_of_ranges() {
    for (field, expected) in [
        ("5", vec![5]),
        ("1-3", vec![1, 2, 3]),
        ("10,,20,", vec![10, 20]),
        (",", vec![]),
        ("20-35/15", vec![20, 35]),
        ("50/4", vec![50, 54, 58]),
        ("*/20", vec![0, 20, 40]),
        ("?/30", vec![0, 30]),
        ("*-x/30", vec![0, 30]),
        ("7/9223372036854775807", vec![7]),
        ("+8", vec![8]),
    ] {
        let (schedule, zone) = parse(&format!("{field} * * * *")).unwrap();
        let Schedule::Fields(fields) = schedule else { panic!("{field} is every so often") };
        assert_eq!(listed(fields.minute), expected, "{field}");
        assert_eq!(fields.minute.is_empty(), expected.is_empty(), "{field}");
        assert!(!fields.minute.is_star() && fields.hour.is_star(), "{field}");
        assert_eq!(zone, None, "{field}");
    }
}

#[test]
fn all_are_meant_by_a_star_unless_it_has_a_step() {
    for (day, expected) in
        [("*", true), ("?", true), ("*/1", true), ("1,*", true), ("*/2", false), ("1-31", false)]
    {
        let Ok((Schedule::Fields(fields), _)) = parse(&format!("0 0 {day} * *")) else {
            panic!("{day} cannot be read")
        };
        assert_eq!(fields.day.is_star(), expected, "{day}");
    }
}

#[test]
fn names_and_words_stand_for_numbers() {
    for (text, same) in [
        ("0 0 1 JAN-mar sun,Mon-fri", "0 0 1 1-3 0,1-5"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "@yearly"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * sun"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "@daily"),
        ("@hourly", "0 * * * ?"),
        (" 1\t2  3 4 5\n", "1 2 3 4 5"),
    ] {
        assert_eq!(parse(text).unwrap(), parse(same).unwrap(), "{text}");
    }
}

#[test]
fn intervals_are_whole_seconds() {
    for (text, seconds) in [
        ("@every 1h30m", 5400),
        ("@every 1.9s", 1),
        ("@every 1ms", 1),
        ("@every -5m", 1),
        ("@every 0", 1),
        ("@every 2562047h47m16.854775807s", 9_223_372_036),
    ] {
        assert_eq!(parse(text), Ok((Schedule::Every(seconds), None)), "{text}");
    }
}

#[test]
fn zones_come_first() {
    for (text, zone) in
        [("TZ=UTC @daily", "UTC"), ("CRON_TZ=Asia/Kolkata @daily", "Asia/Kolkata"), ("TZ= @daily", "")]
    {
        assert_eq!(
            parse(text),
            parse("@daily").map(|(schedule, _)| (schedule, Some(zone.to_owned()))),
            "{text}"
        );
    }
}

#[test]
fn invalid_schedules_are_rejected() {
    for (schedule, expected) in [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("x-2-3 * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        (
            "9223372036854775808 * * * *",
            "failed to parse int from 9223372036854775808: strconv.Atoi: parsing \"9223372036854775808\": value out of range",
        ),
        ("TZ= ", "expected exactly 5 fields, found 0: []"),
        ("TZ=Mars", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Mars x", "provided bad location Mars: unknown time zone Mars"),
        ("@every", "unrecognized descriptor: @every"),
        (
            "@every 1µ",
            r#"failed to parse duration @every 1µ: time: unknown unit "\xc2\xb5" in duration "1\xc2\xb5""#,
        ),
        (
            "@every 9223372036.854775808s",
            "failed to parse duration @every 9223372036.854775808s: time: invalid duration \"9223372036.854775808s\"",
        ),
    ] {
        assert_eq!(parse(schedule), Err(expected.to_owned()), "{schedule}");
    }
}
