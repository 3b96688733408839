//! `<`, `<=`, `>`, `>=`.

// upstream: github.com/google/cel-go/common/types/compare.go

use std::cmp::Ordering;

use crate::error::Error;
use crate::library::Overload;
use crate::value::Value;

/// Declares the same fourteen pairs of types for each operator.
macro_rules! overloads {
    ($prefix:literal, $call:ident) => {
        &[
            Overload::new(concat!($prefix, "_bool"), "(bool, bool) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_int64"), "(int, int) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_int64_double"), "(int, double) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_int64_uint64"), "(int, uint) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_uint64"), "(uint, uint) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_uint64_double"), "(uint, double) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_uint64_int64"), "(uint, int) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_double"), "(double, double) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_double_int64"), "(double, int) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_double_uint64"), "(double, uint) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_string"), "(string, string) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_bytes"), "(bytes, bytes) -> bool", $call).unguarded(),
            Overload::new(concat!($prefix, "_timestamp"), "(timestamp, timestamp) -> bool", $call)
                .unguarded(),
            Overload::new(concat!($prefix, "_duration"), "(duration, duration) -> bool", $call).unguarded(),
        ]
    };
}

pub static LESS: &[Overload] = overloads!("less", less);
pub static LESS_EQUALS: &[Overload] = overloads!("less_equals", less_equals);
pub static GREATER: &[Overload] = overloads!("greater", greater);
pub static GREATER_EQUALS: &[Overload] = overloads!("greater_equals", greater_equals);

/// Compares two values of ordered types.
fn compare(arguments: &[Value<'_>], function: &'static str) -> Result<Ordering, Error> {
    match arguments {
        [
            Value::Null
            | Value::List(_)
            | Value::Map(_)
            | Value::Type(_)
            | Value::Optional(_)
            | Value::Opaque(_)
            | Value::Unknown(_),
            _,
        ] => Err(Error::new(format!("no such overload: {function}"))),
        [one, two] => one.compare(two),
        _ => Err(Error::NoSuchOverload),
    }
}

fn less<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(arguments, "_<_").map(|order| Value::Bool(order.is_lt()))
}

fn less_equals<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(arguments, "_<=_").map(|order| Value::Bool(order.is_le()))
}

fn greater<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(arguments, "_>_").map(|order| Value::Bool(order.is_gt()))
}

fn greater_equals<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    compare(arguments, "_>=_").map(|order| Value::Bool(order.is_ge()))
}
