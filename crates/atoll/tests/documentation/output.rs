//! Compares the output of a command with the output that a page shows.

use std::sync::LazyLock;

use regex::Regex;

/// Stands for any number of lines, or for any text within a line.
const ELLIPSIS: &str = "…";

/// Values that differ from run to run.
static VARIABLE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\b", "<time>"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
        (r"\b\d+\.\d+\.\d+\.\d+(:\d+)?\b", "<address>"),
        (r"\b\d+(\.\d+)?( s|ms|s|m|h|d)(\d+(s|m|h))*\b", "<age>"),
        (r"\s+", " "),
    ];
    patterns.map(|(pattern, name)| (Regex::new(pattern).unwrap(), name)).into()
});

pub fn matches(expected: &[String], actual: &[String]) -> bool {
    let normalize = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| normalize(line)).filter(|line| !line.is_empty()).collect()
    };
    matches_lines(&normalize(expected), &normalize(actual))
}

fn matches_lines(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first == ELLIPSIS => {
            (0..=actual.len()).any(|skipped| matches_lines(rest, &actual[skipped..]))
        }
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, following)| matches_line(first, line) && matches_lines(rest, following)),
    }
}

fn matches_line(expected: &str, actual: &str) -> bool {
    let parts: Vec<String> = expected.split(ELLIPSIS).map(regex::escape).collect();
    Regex::new(&format!("^{}$", parts.join(".*"))).unwrap().is_match(actual)
}

fn normalize(line: &str) -> String {
    let mut line = line.to_owned();
    for (pattern, name) in VARIABLE.iter() {
        line = pattern.replace_all(&line, *name).into_owned();
    }
    line.trim().to_owned()
}

#[test]
fn only_variable_values_and_ellipses_match_other_text() {
    let cases = [
        ("web   3/3  2m10s", "web 3/3 7s", true),
        ("web 3/3 7s", "web 0/3 7s", false),
        ("at https://127.0.0.1:6443.", "at https://127.0.0.1:40121.", true),
        ("until 2027-11-16T02:20:12Z", "until 2026-01-01T00:00:00Z", true),
        ("Saved … objects", "Saved 12 objects", true),
        ("Saved … objects", "Saved nothing", false),
        ("first\n…\nlast", "first\nsecond\nthird\nlast", true),
        ("first\n…\nlast", "first\nsecond", false),
        ("first", "first\nsecond", false),
    ];
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (expected, actual, result) in cases {
        assert_eq!(matches(&lines(expected), &lines(actual)), result, "{expected:?} and {actual:?}");
    }
}
