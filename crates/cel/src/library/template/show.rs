//! Values as clauses show them.

use std::fmt::Write;

use atoll_meta::quote::quote;

use super::{Clause, number};
use crate::standard::write_double;
use crate::time::{format_duration, format_timestamp};
use crate::value::{List, Map, Value};

/// Shows a value, or says why it cannot.
pub(super) fn show(out: &mut String, clause: Clause, value: &Value<'_>) -> Result<(), String> {
    // Writing to a String cannot fail.
    let _ = match (clause, value) {
        (Clause::Text, _) => return show_text(out, value),
        (Clause::Decimal, Value::Int(number)) => write!(out, "{number}"),
        (Clause::Decimal, Value::Uint(number)) => write!(out, "{number}"),
        (Clause::Fixed(precision), _) => {
            let number = as_double(value).ok_or_else(|| clause.refusal(value.type_name()))?;
            out.write_str(&number::fixed(number, precision))
        }
        (Clause::Scientific(precision), _) => {
            let number = as_double(value).ok_or_else(|| clause.refusal(value.type_name()))?;
            out.write_str(&number::scientific(number, precision))
        }
        (Clause::Binary, Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        (Clause::Binary, Value::Uint(number)) => write!(out, "{number:b}"),
        (Clause::Binary, Value::Bool(value)) => write!(out, "{}", u8::from(*value)),
        (Clause::Octal, Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        (Clause::Octal, Value::Uint(number)) => write!(out, "{number:o}"),
        (Clause::Hexadecimal { upper }, _) => {
            let mut shown = hexadecimal(value).ok_or_else(|| clause.refusal(value.type_name()))?;
            if upper {
                shown.make_ascii_uppercase();
            }
            out.write_str(&shown)
        }
        _ => return Err(clause.refusal(value.type_name())),
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// A double, or one of the texts that stand for what cannot be written as one.
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

/// A value as `string()` shows it, if it is not made of others.
fn plain(value: &Value<'_>) -> Option<String> {
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

fn show_text(out: &mut String, value: &Value<'_>) -> Result<(), String> {
    match value {
        Value::Null => out.push_str("null"),
        Value::List(list) => show_list(out, list)?,
        Value::Map(map) => show_map(out, map)?,
        Value::Bytes(bytes) => out.push_str(text_of(bytes)?),
        _ => match plain(value) {
            Some(text) => out.push_str(&text),
            None => return Err(Clause::Text.refusal(value.type_name())),
        },
    }
    Ok(())
}

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| {
        "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string".to_owned()
    })
}

fn show_list(out: &mut String, list: &List<'_>) -> Result<(), String> {
    out.push('[');
    for (place, item) in list.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        show_literal(out, &item.map_err(|error| error.to_string())?)?;
    }
    out.push(']');
    Ok(())
}

fn show_map(out: &mut String, map: &Map<'_>) -> Result<(), String> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys() {
        if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
            return Err(format!("no formatting function for map key of type {}", key.type_name()));
        }
        let mut name = String::new();
        show_literal(&mut name, &key)?;
        let value = map.find(&key).map_err(|error| error.to_string())?;
        let mut shown = String::new();
        show_literal(&mut shown, &value.ok_or_else(|| format!("could not find key: {}", quote(&name)))?)?;
        entries.push((name, shown));
    }
    entries.sort_by(|one, two| one.0.cmp(&two.0));
    out.push('{');
    for (place, (name, shown)) in entries.iter().enumerate() {
        let _ = write!(out, "{}{name}:{shown}", if place > 0 { ", " } else { "" });
    }
    out.push('}');
    Ok(())
}

/// A value in a list or a map: as an expression would have it.
fn show_literal(out: &mut String, value: &Value<'_>) -> Result<(), String> {
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
            return show_text(out, value);
        }
        _ => return Err(format!("no formatting function for {}", value.type_name())),
    };
    Ok(())
}
