//! `cel.lib.optional`: values that may be absent. `or` and `orValue` look at their argument only if they need it, so the
//! evaluator knows them itself, like `.?` and `[?]`.

use super::arguments::{any, list};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{List, Map, Value};

pub static LIBRARY: Library = Library {
    name: "cel.lib.optional",
    functions: &[
        Function {
            name: "optional.of",
            overloads: &[Overload::new("optional_of", "(V) -> optional(V)", |arguments| {
                Ok(Value::optional(Some(any(arguments, 0)?.clone())))
            })],
        },
        Function {
            name: "optional.ofNonZeroValue",
            overloads: &[Overload::new("optional_ofNonZeroValue", "(V) -> optional(V)", |arguments| {
                let value = any(arguments, 0)?;
                Ok(Value::optional((!is_zero(value)).then(|| value.clone())))
            })],
        },
        Function {
            name: "optional.none",
            overloads: &[Overload::new("optional_none", "() -> optional(V)", |_| Ok(Value::optional(None)))],
        },
        Function { name: "value", overloads: &[Overload::new("optional_value", "optional(V).() -> V", value)] },
        Function {
            name: "hasValue",
            overloads: &[Overload::new("optional_hasValue", "optional(V).() -> bool", has_value)],
        },
        Function { name: "first", overloads: &[Overload::new("list_first", "list(V).() -> optional(V)", first)] },
        Function { name: "last", overloads: &[Overload::new("list_last", "list(V).() -> optional(V)", last)] },
        Function {
            name: "optional.unwrap",
            overloads: &[Overload::new("optional_unwrap", "(list(optional(V))) -> list(V)", unwrap)],
        },
        Function {
            name: "unwrapOpt",
            overloads: &[Overload::new("optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap)],
        },
    ],
    types: &["optional_type"],
};

/// Whether a value counts as none. Lists and maps of an object never do, even if they are empty.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Timestamp(time) => time.is_zero(),
        Value::Duration(nanos) => *nanos == 0,
        Value::List(list @ (List::Owned(_) | List::Plain(_))) => list.is_empty(),
        Value::Map(map @ (Map::Owned(_) | Map::Plain(_))) => map.is_empty(),
        _ => false,
    }
}

fn value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match any(arguments, 0)? {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::NoSuchOverload),
    }
}

fn has_value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match any(arguments, 0)? {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn first<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    list(arguments, 0)?.get(0).transpose().map(Value::optional)
}

fn last<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let items = list(arguments, 0)?;
    items.get(items.len().wrapping_sub(1)).transpose().map(Value::optional)
}

fn unwrap<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut present = Vec::new();
    for item in list(arguments, 0)?.iter() {
        match item? {
            Value::Optional(Some(value)) => present.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(Error::new(format!("value {} is not optional", other.type_name()))),
        }
    }
    Ok(Value::from(present))
}
