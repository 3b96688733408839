//! Values as Go formats them in messages.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
// Go standard library: src/fmt/print.go

use std::fmt::Write as _;

use atoll_meta::quote::print_float;
use serde_json::{Map, Number, Value};

/// The kind of a value in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Integer,
    Float,
    String,
    List,
    Map,
}

impl Kind {
    pub fn of(value: &Value) -> Kind {
        match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Number(number) if number.is_i64() => Kind::Integer,
            Value::Number(_) => Kind::Float,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::List,
            Value::Object(_) => Kind::Map,
        }
    }

    /// Returns Go's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "%!s(<nil>)",
            Kind::Bool => "bool",
            Kind::Integer => "int64",
            Kind::Float => "float64",
            Kind::String => "string",
            Kind::List => "[]interface {}",
            Kind::Map => "map[string]interface {}",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    /// `%v`
    Value,
    /// `%s`, which reports values that are not strings.
    Text,
}

/// Formats a map as `%v`.
pub fn map_text(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_map(&mut out, map, Verb::Value);
    out
}

/// Formats a list as `%v`.
pub(super) fn list_text(list: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, list, Verb::Value);
    out
}

/// Formats a value as `%s`.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Null => out.push_str(Kind::Null.name()),
        value => write_value(&mut out, value, Verb::Text),
    }
    out
}

fn write_value(out: &mut String, value: &Value, verb: Verb) {
    let scalar = match value {
        Value::Null => return out.push_str("<nil>"),
        Value::String(text) => return out.push_str(text),
        Value::Array(list) => return write_list(out, list, verb),
        Value::Object(map) => return write_map(out, map, verb),
        Value::Bool(set) => set.to_string(),
        Value::Number(number) => number_text(number),
    };
    match verb {
        Verb::Value => out.push_str(&scalar),
        // Writing to a String cannot fail.
        Verb::Text => {
            let _ = write!(out, "%!s({}={scalar})", Kind::of(value).name());
        }
    }
}

fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) => print_float(float),
        _ => number.to_string(),
    }
}

fn write_map(out: &mut String, map: &Map<String, Value>, verb: Verb) {
    out.push_str("map[");
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        write_value(out, value, verb);
    }
    out.push(']');
}

fn write_list(out: &mut String, list: &[Value], verb: Verb) {
    out.push('[');
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write_value(out, value, verb);
    }
    out.push(']');
}
