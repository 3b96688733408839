//! Optional values.

// upstream: github.com/google/cel-go/cel/library.go
// upstream: github.com/google/cel-go/common/types/optional.go

use super::special;
use crate::error::Error;
use crate::library::Overload;
use crate::value::{List, Map, Value};

pub static OF: &[Overload] = &[Overload::new("optional_of", "(V) -> optional(V)", of)];
pub static OF_NON_ZERO: &[Overload] =
    &[Overload::new("optional_ofNonZeroValue", "(V) -> optional(V)", of_non_zero)];
pub static NONE: &[Overload] = &[Overload::new("optional_none", "() -> optional(V)", none)];
pub static UNWRAP: &[Overload] =
    &[Overload::new("optional_unwrap", "(list(optional(V))) -> list(V)", unwrap)];
pub static UNWRAP_METHOD: &[Overload] =
    &[Overload::new("optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap)];
pub static VALUE: &[Overload] = &[Overload::new("optional_value", "optional_type(V).() -> V", value)];
pub static HAS_VALUE: &[Overload] =
    &[Overload::new("optional_hasValue", "optional_type(V).() -> bool", has_value)];
pub static OR: &[Overload] =
    &[Overload::new("optional_or_optional", "optional_type(V).(optional_type(V)) -> optional(V)", special)];
pub static OR_VALUE: &[Overload] =
    &[Overload::new("optional_orValue_value", "optional_type(V).(V) -> V", special)];
pub static FIRST: &[Overload] = &[Overload::new("list_first", "list(V).() -> optional(V)", first)];
pub static LAST: &[Overload] = &[Overload::new("list_last", "list(V).() -> optional(V)", last)];

fn of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::optional(arguments.first().cloned()))
}

fn of_non_zero<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let zero = match arguments.first() {
        None | Some(Value::Null) => true,
        Some(Value::Bool(it)) => !it,
        Some(Value::Int(it)) => *it == 0,
        Some(Value::Uint(it)) => *it == 0,
        Some(Value::Double(it)) => *it == 0.0,
        Some(Value::Duration(it)) => *it == 0,
        Some(Value::Timestamp(it)) => it.is_zero(),
        // Upstream never considers lists and maps with a schema as zero values, even if they are empty.
        Some(Value::List(List::Json(..) | List::Merged(..)) | Value::Map(Map::Json(..))) => false,
        Some(sized @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))) => {
            sized.size() == Some(0)
        }
        Some(_) => false,
    };
    Ok(Value::optional(arguments.first().filter(|_| !zero).cloned()))
}

fn none<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::optional(None))
}

fn value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::NoSuchOverload),
    }
}

fn has_value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn unwrap<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = arguments else { return Err(Error::NoSuchOverload) };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(Error::new(format!("value {} is not optional", other.display()))),
        }
    }
    Ok(Value::from(values))
}

fn end<'a>(arguments: &[Value<'a>], index: fn(usize) -> usize) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = arguments else { return Err(Error::NoSuchOverload) };
    match list.len() {
        0 => Ok(Value::optional(None)),
        length => Ok(Value::optional(list.get(index(length)).transpose()?)),
    }
}

fn first<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    end(arguments, |_| 0)
}

fn last<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    end(arguments, |length| length - 1)
}
