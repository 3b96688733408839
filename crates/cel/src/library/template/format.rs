//! Formatting of values by clauses.

// upstream: github.com/google/cel-go/ext/formatting.go

use std::fmt::Write;

use atoll_meta::quote::quote;

use super::{Clause, number};
use crate::standard::write_double;
use crate::time::{format_duration, format_timestamp};
use crate::value::{List, Map, Value};

/// Formats a value, or returns the error.
pub(super) fn format(out: &mut String, clause: Clause, value: &Value<'_>) -> Result<(), String> {
    // Writing to a String cannot fail.
    let _ = match (clause, value) {
        (Clause::Text, _) => return format_text(out, value),
        (Clause::Decimal, Value::Int(number)) => write!(out, "{number}"),
        (Clause::Decimal, Value::Uint(number)) => write!(out, "{number}"),
        (Clause::Fixed(precision), _) => {
            let number = as_double(value).ok_or_else(|| clause.error_for(value.type_name()))?;
            out.write_str(&number::fixed(number, precision))
        }
        (Clause::Scientific(precision), _) => {
            let number = as_double(value).ok_or_else(|| clause.error_for(value.type_name()))?;
            out.write_str(&number::scientific(number, precision))
        }
        (Clause::Binary, Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        (Clause::Binary, Value::Uint(number)) => write!(out, "{number:b}"),
        (Clause::Binary, Value::Bool(value)) => write!(out, "{}", u8::from(*value)),
        (Clause::Octal, Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        (Clause::Octal, Value::Uint(number)) => write!(out, "{number:o}"),
        (Clause::Hexadecimal { upper }, _) => {
            let mut formatted = hexadecimal(value).ok_or_else(|| clause.error_for(value.type_name()))?;
            if upper {
                formatted.make_ascii_uppercase();
            }
            out.write_str(&formatted)
        }
        _ => return Err(clause.error_for(value.type_name())),
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// Returns a double, also from the strings for NaN and the infinities.
fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn hexadecimal(value: &Value<'_>) -> Option<String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(match value {
        Value::String(text) => bytes(text.as_bytes()),
        Value::Bytes(value) => bytes(value),
        Value::Int(number) => format!("{}{:x}", sign(*number), number.unsigned_abs()),
        Value::Uint(number) => format!("{number:x}"),
        _ => return None,
    })
}

/// Returns the string form of a scalar value, as `string()` does.
fn scalar_text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => write_double(*number),
        Value::String(text) => (**text).to_owned(),
        Value::Timestamp(time) => format_timestamp(*time),
        Value::Duration(nanos) => format_duration(*nanos),
        Value::Type(name) => (**name).to_owned(),
        _ => return None,
    })
}

fn format_text(out: &mut String, value: &Value<'_>) -> Result<(), String> {
    match value {
        Value::Null => out.push_str("null"),
        Value::List(list) => format_list(out, list)?,
        Value::Map(map) => format_map(out, map)?,
        Value::Bytes(bytes) => out.push_str(text_of(bytes)?),
        _ => match scalar_text(value) {
            Some(text) => out.push_str(&text),
            None => return Err(Clause::Text.error_for(value.type_name())),
        },
    }
    Ok(())
}

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| {
        "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string".to_owned()
    })
}

fn format_list(out: &mut String, list: &List<'_>) -> Result<(), String> {
    out.push('[');
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        format_literal(out, &item.map_err(|error| error.to_string())?)?;
    }
    out.push(']');
    Ok(())
}

fn format_map(out: &mut String, map: &Map<'_>) -> Result<(), String> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys() {
        if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
            return Err(format!("no formatting function for map key of type {}", key.type_name()));
        }
        let mut name = String::new();
        format_literal(&mut name, &key)?;
        let value = map.find(&key).map_err(|error| error.to_string())?;
        let mut formatted = String::new();
        format_literal(
            &mut formatted,
            &value.ok_or_else(|| format!("could not find key: {}", quote(&name)))?,
        )?;
        entries.push((name, formatted));
    }
    entries.sort_by(|one, two| one.0.cmp(&two.0));
    out.push('{');
    for (index, (name, formatted)) in entries.iter().enumerate() {
        let _ = write!(out, "{}{name}:{formatted}", if index > 0 { ", " } else { "" });
    }
    out.push('}');
    Ok(())
}

/// Formats a value within a list or a map.
fn format_literal(out: &mut String, value: &Value<'_>) -> Result<(), String> {
    let _ = match value {
        Value::String(text) => out.write_str(&quote(text)),
        Value::Bytes(bytes) => write!(out, "b{}", quote(text_of(bytes)?)),
        Value::Double(number) if number.is_nan() => out.write_str("\"NaN\""),
        Value::Double(f64::INFINITY) => out.write_str("\"+Inf\""),
        Value::Double(f64::NEG_INFINITY) => out.write_str("\"-Inf\""),
        Value::Double(number) => write!(out, "{number:.6}"),
        Value::Timestamp(time) => write!(out, "timestamp({})", quote(&format_timestamp(*time))),
        Value::Duration(nanos) => write!(out, "duration({})", quote(&format_duration(*nanos))),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_) => {
            return format_text(out, value);
        }
        _ => return Err(format!("no formatting function for {}", value.type_name())),
    };
    Ok(())
}
