//! Formats measurements as a table and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{BenchError, BenchResult};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    BytesPerSecond,
    Bytes,
    Seconds,
    Count,
    /// Ratio of two values of the same server.
    Ratio,
}

/// Goal for a value or for the ratio of Atoll to kube-apiserver. Reported only; a missed goal is not an
/// error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Atoll reaches at least this many times kube-apiserver's value.
    Least(f64),
    /// Atoll's value is at most kube-apiserver's value divided by this number.
    Most(f64),
    /// A limit for Atoll's value alone.
    AtLeastValue(f64),
    AtMostValue(f64),
    None,
}

#[derive(Clone, Debug)]
pub struct TableRow {
    pub what: String,
    pub unit: Unit,
    pub atoll: Option<f64>,
    pub kubernetes: Option<f64>,
    pub goal: Goal,
}

impl TableRow {
    fn ratio(&self) -> Option<f64> {
        let (atoll, kubernetes) = (self.atoll?, self.kubernetes?);
        (self.unit != Unit::Ratio && atoll > 0.0 && kubernetes > 0.0).then(|| atoll / kubernetes)
    }

    /// Whether the goal was reached, if there is a goal and the values were measured.
    fn reached(&self) -> Option<bool> {
        match self.goal {
            Goal::Least(goal) => self.ratio().map(|ratio| ratio >= goal),
            Goal::Most(goal) => self.ratio().map(|ratio| 1.0 / ratio >= goal),
            Goal::AtLeastValue(goal) => self.atoll.map(|value| value >= goal),
            Goal::AtMostValue(goal) => self.atoll.map(|value| value <= goal),
            Goal::None => None,
        }
    }

    fn goal(&self) -> String {
        match self.goal {
            Goal::Least(goal) => format!("{goal} : 1"),
            Goal::Most(goal) => format!("1 : {goal}"),
            Goal::AtLeastValue(goal) => format!(">= {}", shown(goal, self.unit)),
            Goal::AtMostValue(goal) => format!("<= {}", shown(goal, self.unit)),
            Goal::None => String::new(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": format!("{:?}", self.unit),
            "atoll": self.atoll,
            "kubernetes": self.kubernetes,
            "ratio": self.ratio(),
            "goal": self.goal(),
            "reached": self.reached(),
        })
    }
}

/// Formats the lines as a table.
pub fn table(lines: &[TableRow]) -> String {
    let mut text =
        format!("{:<40}{:>14}{:>16}{:>12}{:>14}\n", "", "Atoll", "kube-apiserver", "ratio", "goal");
    for line in lines {
        let value = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| shown(value, line.unit));
        let ratio = line.ratio().map_or_else(|| "-".into(), ratio);
        let mark = match line.reached() {
            Some(true) => "  reached",
            Some(false) => "  missed",
            None => "",
        };
        let (atoll, kubernetes) = (value(line.atoll), value(line.kubernetes));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<40}{atoll:>14}{kubernetes:>16}{ratio:>12}{:>14}{mark}",
            line.what,
            line.goal()
        );
    }
    text
}

pub fn json(lines: &[TableRow]) -> Value {
    lines.iter().map(TableRow::to_json).collect()
}

pub fn write(path: &Path, value: &Value) -> BenchResult<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| BenchError::Machine(error.to_string()))?;
    fs::write(path, text + "\n").map_err(|error| BenchError::file(path, &error))
}

/// Formats a ratio with the larger side first or last, such as `8.0 : 1` or `1 : 8.0`.
fn ratio(ratio: f64) -> String {
    if ratio >= 1.0 { format!("{ratio:.1} : 1") } else { format!("1 : {:.1}", 1.0 / ratio) }
}

fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{} /s", grouped(value)),
        Unit::Count => grouped(value.round()),
        Unit::Ratio => format!("{value:.2}"),
        Unit::BytesPerSecond if value < 1e6 => format!("{} KB/s", significant(value / 1e3)),
        Unit::BytesPerSecond => format!("{} MB/s", grouped(value / 1e6)),
        Unit::Bytes if value < 1e6 => format!("{} KiB", significant(value / 1024.0)),
        Unit::Bytes => format!("{} MiB", significant(value / (1 << 20) as f64)),
        Unit::Seconds if value < 1e-3 => format!("{} µs", significant(value * 1e6)),
        Unit::Seconds if value < 1.0 => format!("{} ms", significant(value * 1e3)),
        Unit::Seconds => format!("{} s", significant(value)),
    }
}

fn significant(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Formats a number with thousands separators, or with three digits if it is small.
fn grouped(value: f64) -> String {
    if value < 1000.0 {
        return if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value) };
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(atoll: f64, kubernetes: Option<f64>, unit: Unit, goal: Goal) -> TableRow {
        TableRow { what: "x".into(), unit, atoll: Some(atoll), kubernetes, goal }
    }

    #[test]
    fn goals_are_compared_in_the_right_direction() {
        let creates = |atoll| line(atoll, Some(2230.0), Unit::PerSecond, Goal::Least(8.0)).reached();
        assert_eq!([creates(18_000.0), creates(17_000.0)], [Some(true), Some(false)]);
        let memory = |atoll| line(atoll, Some(600.0), Unit::Bytes, Goal::Most(6.0)).reached();
        assert_eq!([memory(99.0), memory(101.0)], [Some(true), Some(false)]);
        assert_eq!(line(1.0, None, Unit::PerSecond, Goal::Least(8.0)).reached(), None);
        assert_eq!(line(500.0, None, Unit::PerSecond, Goal::AtLeastValue(500.0)).reached(), Some(true));
        assert_eq!(line(31.0, None, Unit::Seconds, Goal::AtMostValue(30.0)).reached(), Some(false));
    }

    #[test]
    fn numbers_are_formatted() {
        let cases = [
            (32_400.0, Unit::PerSecond, "32,400 /s"),
            (106.4, Unit::PerSecond, "106 /s"),
            (1_556e6, Unit::BytesPerSecond, "1,556 MB/s"),
            (2_345.0, Unit::BytesPerSecond, "2.35 KB/s"),
            (0.000_25, Unit::Seconds, "250 µs"),
            (0.0972, Unit::Seconds, "97.2 ms"),
            (2.0, Unit::Seconds, "2.00 s"),
            (1_234_567.0, Unit::Count, "1,234,567"),
            (92.0, Unit::Count, "92"),
            (1.1, Unit::Ratio, "1.10"),
            (65_536.0, Unit::Bytes, "64.0 KiB"),
            (328_204_288.0, Unit::Bytes, "313 MiB"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(shown(value, unit), expected);
        }
        assert_eq!([ratio(8.04), ratio(0.125)], ["8.0 : 1", "1 : 8.0"]);
    }
}
