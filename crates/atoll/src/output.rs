//! Output of commands: tables for people; JSON, YAML and names for programs.

// upstream: staging/src/k8s.io/cli-runtime/pkg/printers/tabwriter.go

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use atoll_meta::text::{escaped, is_control};

use crate::style::{self, Paint};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table with more columns.
    #[value(help = None)]
    Wide,
    Json,
    Yaml,
    /// Only names, one per line.
    #[value(help = None)]
    Name,
}

#[derive(Args, Clone, Copy)]
pub struct OutputOptions {
    /// Output format: a wider table, a document, or names only
    #[arg(short, long = "output", value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
}

/// Prints to standard output. A closed pipe ends the process without an error. The text may come from
/// clusters and tenants, so control characters other than Atoll's own colours are escaped.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(style::escape_control(text).as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Prints to standard error, which may be closed.
pub fn warn(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(style::escape_control(text).as_bytes()).and_then(|()| out.flush());
}

/// Prints a line to standard output; see [`print`].
macro_rules! outln {
    ($($arguments:tt)*) => {
        $crate::output::print(&(format!($($arguments)*) + "\n"))
    };
}

/// Prints a line to standard error; see [`warn`].
macro_rules! errln {
    ($($arguments:tt)*) => {
        $crate::output::warn(&(format!($($arguments)*) + "\n"))
    };
}

pub(crate) use {errln, outln};

/// Formats JSON with kubectl's indentation.
pub fn json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Values with string keys can always be serialized.
    let _ = value.serialize(&mut serializer);
    bytes.push(b'\n');
    let text = String::from_utf8(bytes).unwrap_or_default();
    if !text.chars().any(|character| character != '\n' && is_control(character)) {
        return text;
    }
    // Outside of strings, JSON contains no control characters but newlines.
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character != '\n' && is_control(character) {
            true => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => escaped.push(character),
        }
    }
    escaped
}

pub fn yaml(value: &Value) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    // JSON is valid YAML and can escape all control characters.
    if text.chars().any(|character| character != '\n' && is_control(character)) {
        text = json(value);
    }
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// The media type of tables that the server renders for kubectl.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Headers and rows of such a table; columns with a priority are left out unless it is `wide`.
pub fn columns(answer: &Value, wide: bool) -> (Vec<String>, Vec<Vec<String>>) {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let definitions = list(&answer["columnDefinitions"]);
    let is_visible = |column: &usize| wide || definitions.get(*column).is_some_and(|it| it["priority"] == 0);
    let visible: Vec<usize> = (0..definitions.len()).filter(is_visible).collect();
    let chosen =
        |cells: Vec<String>| visible.iter().filter_map(|column| cells.get(*column).cloned()).collect();
    let text =
        |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), |cell| escaped(cell).into_owned());
    let names = definitions.iter().map(|it| it["name"].as_str().unwrap_or_default().to_uppercase()).collect();
    let rows = list(&answer["rows"]);
    let rows = rows.iter().map(|row| chosen(list(&row["cells"]).iter().map(text).collect())).collect();
    (chosen(names), rows)
}

/// Formats a table with aligned columns, three spaces apart, as kubectl does.
pub fn table(headers: &[String], rows: &[Vec<String>], paint: Paint) -> String {
    let plain = |row: &Vec<String>| row.iter().map(|cell| escaped(cell).into_owned()).collect();
    let rows: &[Vec<String>] = &rows.iter().map(plain).collect::<Vec<_>>();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(headers.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &[String], painted: &dyn Fn(&str) -> String| {
        let last = cells.len().saturating_sub(1);
        for (column, cell) in cells.iter().enumerate() {
            text.push_str(&painted(cell));
            if column < last {
                let padding = widths.get(column).copied().unwrap_or(0) + 3 - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text.push('\n');
    };
    line(headers, &|cell| paint.heading(cell));
    for row in rows {
        line(row, &|cell| paint.phase(cell));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owned(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_string()).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [owned(&["a", "Ready", "3s"]), owned(&["├── long", "Deleting", "10m"])];
        let text = table(&owned(&["NAME", "PHASE", "AGE"]), &rows, Paint::PLAIN);
        assert_eq!(text, "NAME       PHASE      AGE\na          Ready      3s\n├── long   Deleting   10m\n");
        assert_eq!(table(&owned(&["NAME"]), &[], Paint::PLAIN), "NAME\n");
    }

    #[test]
    fn columns_with_priority_are_only_wide() {
        let answer = json!({
            "columnDefinitions": [
                { "name": "Name", "priority": 0 }, { "name": "Id", "priority": 1 }, { "name": "Age", "priority": 0 },
            ],
            "rows": [{ "cells": ["web", 1, "3s"] }],
        });
        assert_eq!(columns(&answer, false), (owned(&["NAME", "AGE"]), vec![owned(&["web", "3s"])]));
        assert_eq!(columns(&answer, true), (owned(&["NAME", "ID", "AGE"]), vec![owned(&["web", "1", "3s"])]));
    }

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}\nb\u{7f}";
        let text = table(&owned(&["NAME"]), &[owned(&[hostile])], Paint::PLAIN);
        assert_eq!(text, "NAME\na\\u{1b}[2J\\u{9b}31m\\u{202e}\\nb\\u{7f}\n");
        let value = json!({ "a": hostile });
        for text in [json(&value), yaml(&value).expect("it is plain")] {
            assert!(!text.chars().any(|character| character != '\n' && is_control(character)), "{text:?}");
            assert_eq!(serde_saphyr::from_str::<Value>(&text).expect("YAML"), value);
        }
        assert_eq!(serde_json::from_str::<Value>(&json(&value)).expect("JSON"), value);
    }

    #[test]
    fn documents_end_with_a_newline() {
        let value = json!({ "b": [1], "a": "x" });
        assert_eq!(json(&value), "{\n    \"a\": \"x\",\n    \"b\": [\n        1\n    ]\n}\n");
        let text = yaml(&value).expect("it is plain");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).expect("YAML"), value);
        assert!(text.ends_with('\n'), "{text:?}");
    }
}
