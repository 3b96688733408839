//! Conversions between types.

// upstream: github.com/google/cel-go/common/types/string.go
// upstream: github.com/google/cel-go/common/types/double.go

use atoll_meta::time::Timestamp;

use super::arithmetic::SECONDS;
use crate::error::Error;
use crate::library::Overload;
use crate::time;
use crate::value::Value;

pub static TYPE: &[Overload] = &[Overload::new("type", "(A) -> type(A)", type_of).unguarded()];
pub static DYN: &[Overload] = &[Overload::new("to_dyn", "(A) -> dyn", same).unguarded()];
pub static BOOL: &[Overload] = &[
    Overload::new("bool_to_bool", "(bool) -> bool", same),
    Overload::new("string_to_bool", "(string) -> bool", to_bool),
];
pub static BYTES: &[Overload] = &[
    Overload::new("bytes_to_bytes", "(bytes) -> bytes", same),
    Overload::new("string_to_bytes", "(string) -> bytes", to_bytes),
];
pub static DOUBLE: &[Overload] = &[
    Overload::new("double_to_double", "(double) -> double", same),
    Overload::new("int64_to_double", "(int) -> double", to_double),
    Overload::new("string_to_double", "(string) -> double", to_double),
    Overload::new("uint64_to_double", "(uint) -> double", to_double),
];
pub static DURATION: &[Overload] = &[
    Overload::new("duration_to_duration", "(duration) -> duration", same),
    Overload::new("int64_to_duration", "(int) -> duration", duration),
    Overload::new("string_to_duration", "(string) -> duration", duration),
];
pub static INT: &[Overload] = &[
    Overload::new("int64_to_int64", "(int) -> int", same),
    Overload::new("double_to_int64", "(double) -> int", to_int),
    Overload::new("duration_to_int64", "(duration) -> int", to_int),
    Overload::new("string_to_int64", "(string) -> int", to_int),
    Overload::new("timestamp_to_int64", "(timestamp) -> int", to_int),
    Overload::new("uint64_to_int64", "(uint) -> int", to_int),
];
pub static STRING: &[Overload] = &[
    Overload::new("string_to_string", "(string) -> string", same),
    Overload::new("bool_to_string", "(bool) -> string", to_string),
    Overload::new("bytes_to_string", "(bytes) -> string", to_string),
    Overload::new("double_to_string", "(double) -> string", to_string),
    Overload::new("duration_to_string", "(duration) -> string", to_string),
    Overload::new("int64_to_string", "(int) -> string", to_string),
    Overload::new("timestamp_to_string", "(timestamp) -> string", to_string),
    Overload::new("uint64_to_string", "(uint) -> string", to_string),
];
pub static TIMESTAMP: &[Overload] = &[
    Overload::new("timestamp_to_timestamp", "(timestamp) -> timestamp", same),
    Overload::new("int64_to_timestamp", "(int) -> timestamp", timestamp),
    Overload::new("string_to_timestamp", "(string) -> timestamp", timestamp),
];
pub static UINT: &[Overload] = &[
    Overload::new("uint64_to_uint64", "(uint) -> uint", same),
    Overload::new("double_to_uint64", "(double) -> uint", to_uint),
    Overload::new("int64_to_uint64", "(int) -> uint", to_uint),
    Overload::new("string_to_uint64", "(string) -> uint", to_uint),
];

fn conversion_error(value: &Value<'_>, to: &str) -> Error {
    Error::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn first<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Value<'a>, Error> {
    arguments.first().ok_or(Error::NoSuchOverload)
}

fn same<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    first(arguments).cloned()
}

fn type_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Type(first(arguments)?.type_name().into()))
}

fn to_bool<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = first(arguments)?;
    match value.as_str() {
        Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(Value::Bool(true)),
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(Value::Bool(false)),
        _ => Err(conversion_error(value, "bool")),
    }
}

fn to_bytes<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match first(arguments)? {
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        other => Err(conversion_error(other, "bytes")),
    }
}

/// Parses a number as Go's `strconv.ParseFloat`.
fn read_double(text: &str) -> Option<f64> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let word = bare.to_ascii_lowercase();
    let wordy = matches!(&*word, "inf" | "infinity" | "nan");
    if !wordy && !bare.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    if word == "nan" && bare.len() != text.len() {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (wordy || number.is_finite()).then_some(number)
}

fn to_double<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Double(match first(arguments)? {
        Value::Int(it) => *it as f64,
        Value::Uint(it) => *it as f64,
        Value::String(text) => read_double(text).ok_or_else(|| conversion_error(&arguments[0], "double"))?,
        other => return Err(conversion_error(other, "double")),
    }))
}

/// Parses a duration.
pub fn to_duration<'a>(value: &Value<'_>) -> Result<Value<'a>, Error> {
    match value {
        Value::String(text) => time::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| conversion_error(value, "google.protobuf.Duration")),
        other => Err(conversion_error(other, "google.protobuf.Duration")),
    }
}

fn duration<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    to_duration(first(arguments)?)
}

/// Converts a string or seconds to a timestamp.
pub fn to_timestamp<'a>(value: &Value<'_>) -> Result<Value<'a>, Error> {
    let at = match value {
        Value::String(text) => {
            atoll_meta::time::parse(text).map_err(|_| conversion_error(value, "google.protobuf.Timestamp"))?
        }
        Value::Int(seconds) => Timestamp::new(*seconds, 0),
        other => return Err(conversion_error(other, "google.protobuf.Timestamp")),
    };
    match SECONDS.contains(&at.seconds) {
        true => Ok(Value::Timestamp(at)),
        false => Err(Error::new("timestamp overflow")),
    }
}

fn timestamp<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    to_timestamp(first(arguments)?)
}

fn to_int<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let overflow = || Error::new("integer overflow");
    let value = first(arguments)?;
    Ok(Value::Int(match value {
        // The bounds themselves are rejected, because as doubles they may represent larger numbers.
        Value::Double(it) if *it > i64::MIN as f64 && *it < i64::MAX as f64 => *it as i64,
        Value::Double(_) => return Err(overflow()),
        Value::Duration(nanos) => *nanos,
        Value::Timestamp(at) => at.seconds,
        Value::Uint(it) => i64::try_from(*it).map_err(|_| overflow())?,
        Value::String(text) if text.starts_with("+-") => return Err(conversion_error(value, "int")),
        Value::String(text) => text.parse().map_err(|_| conversion_error(value, "int"))?,
        other => return Err(conversion_error(other, "int")),
    }))
}

fn to_uint<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let overflow = || Error::new("unsigned integer overflow");
    let value = first(arguments)?;
    Ok(Value::Uint(match value {
        Value::Double(it) if *it >= 0.0 && *it < u64::MAX as f64 => *it as u64,
        Value::Double(_) => return Err(overflow()),
        Value::Int(it) => u64::try_from(*it).map_err(|_| overflow())?,
        Value::String(text) if text.starts_with('+') => return Err(conversion_error(value, "uint")),
        Value::String(text) => text.parse().map_err(|_| conversion_error(value, "uint"))?,
        other => return Err(conversion_error(other, "uint")),
    }))
}

/// Formats a double as Go's `%g`.
pub fn write_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    atoll_meta::quote::print_float(number)
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::from(match first(arguments)? {
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Uint(it) => it.to_string(),
        Value::Double(it) => write_double(*it),
        Value::Duration(nanos) => time::format_duration(*nanos),
        Value::Timestamp(at) => time::format_timestamp(*at),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        other => return Err(conversion_error(other, "string")),
    }))
}
