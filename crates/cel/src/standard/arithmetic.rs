//! `+`, `-`, `*`, `/`, `%`, with overflow checks.

// upstream: github.com/google/cel-go/common/types/int.go
// upstream: github.com/google/cel-go/common/types/overflow.go

use atoll_meta::time::Timestamp;

use crate::error::Error;
use crate::library::Overload;
use crate::time::SECOND;
use crate::value::{Value, merged};

pub static ADD: &[Overload] = &[
    Overload::new("add_bytes", "(bytes, bytes) -> bytes", add).unguarded(),
    Overload::new("add_double", "(double, double) -> double", add).unguarded(),
    Overload::new("add_duration_duration", "(duration, duration) -> duration", add).unguarded(),
    Overload::new("add_duration_timestamp", "(duration, timestamp) -> timestamp", add).unguarded(),
    Overload::new("add_timestamp_duration", "(timestamp, duration) -> timestamp", add).unguarded(),
    Overload::new("add_int64", "(int, int) -> int", add).unguarded(),
    Overload::new("add_list", "(list(A), list(A)) -> list(A)", add).unguarded(),
    Overload::new("add_string", "(string, string) -> string", add).unguarded(),
    Overload::new("add_uint64", "(uint, uint) -> uint", add).unguarded(),
];

pub static SUBTRACT: &[Overload] = &[
    Overload::new("subtract_double", "(double, double) -> double", subtract).unguarded(),
    Overload::new("subtract_duration_duration", "(duration, duration) -> duration", subtract).unguarded(),
    Overload::new("subtract_int64", "(int, int) -> int", subtract).unguarded(),
    Overload::new("subtract_timestamp_duration", "(timestamp, duration) -> timestamp", subtract).unguarded(),
    Overload::new("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", subtract).unguarded(),
    Overload::new("subtract_uint64", "(uint, uint) -> uint", subtract).unguarded(),
];

pub static MULTIPLY: &[Overload] = &[
    Overload::new("multiply_double", "(double, double) -> double", multiply).unguarded(),
    Overload::new("multiply_int64", "(int, int) -> int", multiply).unguarded(),
    Overload::new("multiply_uint64", "(uint, uint) -> uint", multiply).unguarded(),
];

pub static DIVIDE: &[Overload] = &[
    Overload::new("divide_double", "(double, double) -> double", divide).unguarded(),
    Overload::new("divide_int64", "(int, int) -> int", divide).unguarded(),
    Overload::new("divide_uint64", "(uint, uint) -> uint", divide).unguarded(),
];

pub static MODULO: &[Overload] = &[
    Overload::new("modulo_int64", "(int, int) -> int", modulo).unguarded(),
    Overload::new("modulo_uint64", "(uint, uint) -> uint", modulo).unguarded(),
];

pub static NEGATE: &[Overload] = &[
    Overload::new("negate_double", "(double) -> double", negate).unguarded(),
    Overload::new("negate_int64", "(int) -> int", negate).unguarded(),
];

const INT: Error = Error::Failed(std::borrow::Cow::Borrowed("integer overflow"));
const UINT: Error = Error::Failed(std::borrow::Cow::Borrowed("unsigned integer overflow"));
const DURATION: Error = Error::Failed(std::borrow::Cow::Borrowed("duration overflow"));
const TIMESTAMP: Error = Error::Failed(std::borrow::Cow::Borrowed("timestamp overflow"));

/// Range of timestamps in seconds.
pub const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Returns the error for a left operand without this operator.
fn unknown(function: &'static str) -> Error {
    Error::new(format!("no such overload: {function}"))
}

/// Adds nanoseconds to a timestamp.
fn later(at: Timestamp, nanos: i128) -> Result<Value<'static>, Error> {
    let second = i128::from(SECOND);
    let total = i128::from(at.seconds) * second + i128::from(at.nanos) + nanos;
    let seconds = i64::try_from(total.div_euclid(second)).map_err(|_| TIMESTAMP)?;
    if !SECONDS.contains(&seconds) {
        return Err(TIMESTAMP);
    }
    Ok(Value::Timestamp(Timestamp::new(seconds, total.rem_euclid(second) as u32)))
}

pub fn add<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(one), Value::Int(two)] => Value::Int(one.checked_add(*two).ok_or(INT)?),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one.checked_add(*two).ok_or(UINT)?),
        [Value::Double(one), Value::Double(two)] => Value::Double(one + two),
        [Value::String(one), Value::String(two)] => Value::from([&**one, &**two].concat()),
        [Value::Bytes(one), Value::Bytes(two)] => Value::Bytes([&one[..], &two[..]].concat().into()),
        [Value::Duration(one), Value::Duration(two)] => {
            Value::Duration(one.checked_add(*two).ok_or(DURATION)?)
        }
        [Value::Timestamp(at), Value::Duration(nanos)] | [Value::Duration(nanos), Value::Timestamp(at)] => {
            later(*at, i128::from(*nanos))?
        }
        [Value::List(one), Value::List(two)] => Value::List(merged(one, two)?),
        [
            Value::Null
            | Value::Bool(_)
            | Value::Map(_)
            | Value::Type(_)
            | Value::Optional(_)
            | Value::Opaque(_),
            _,
        ] => {
            return Err(unknown("_+_"));
        }
        _ => return Err(Error::NoSuchOverload),
    })
}

fn subtract<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(one), Value::Int(two)] => Value::Int(one.checked_sub(*two).ok_or(INT)?),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one.checked_sub(*two).ok_or(UINT)?),
        [Value::Double(one), Value::Double(two)] => Value::Double(one - two),
        [Value::Duration(one), Value::Duration(two)] => {
            Value::Duration(one.checked_sub(*two).ok_or(DURATION)?)
        }
        [Value::Timestamp(at), Value::Duration(nanos)] => later(*at, -i128::from(*nanos))?,
        [Value::Timestamp(one), Value::Timestamp(two)] => {
            let seconds = i128::from(one.seconds) - i128::from(two.seconds);
            let nanos = seconds * i128::from(SECOND) + i128::from(one.nanos) - i128::from(two.nanos);
            Value::Duration(i64::try_from(nanos).map_err(|_| DURATION)?)
        }
        [Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _] => {
            return Err(Error::NoSuchOverload);
        }
        _ => return Err(unknown("_-_")),
    })
}

fn multiply<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(one), Value::Int(two)] => Value::Int(one.checked_mul(*two).ok_or(INT)?),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one.checked_mul(*two).ok_or(UINT)?),
        [Value::Double(one), Value::Double(two)] => Value::Double(one * two),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(Error::NoSuchOverload),
        _ => return Err(unknown("_*_")),
    })
}

fn divide<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Error::new("division by zero"));
        }
        [Value::Int(one), Value::Int(two)] => Value::Int(one.checked_div(*two).ok_or(INT)?),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one / two),
        [Value::Double(one), Value::Double(two)] => Value::Double(one / two),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => return Err(Error::NoSuchOverload),
        _ => return Err(unknown("_/_")),
    })
}

fn modulo<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Error::new("modulus by zero"));
        }
        [Value::Int(one), Value::Int(two)] => Value::Int(one.checked_rem(*two).ok_or(INT)?),
        [Value::Uint(one), Value::Uint(two)] => Value::Uint(one % two),
        [Value::Int(_) | Value::Uint(_), _] => return Err(Error::NoSuchOverload),
        _ => return Err(unknown("_%_")),
    })
}

fn negate<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Int(it)] => Value::Int(it.checked_neg().ok_or(INT)?),
        [Value::Double(it)] => Value::Double(-it),
        [Value::Duration(it)] => Value::Duration(it.checked_neg().ok_or(DURATION)?),
        [Value::Bool(it)] => Value::Bool(!it),
        _ => return Err(Error::NoSuchOverload),
    })
}
