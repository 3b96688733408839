//! Runtime values. Input is borrowed JSON, converted on access; computed values are shared.

// upstream: github.com/google/cel-go/common/types/ref/reference.go

mod equal;
mod json;
mod list;
mod map;
mod merge;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use atoll_meta::time::Timestamp;

pub use list::List;
pub use map::{Key, Map};
pub(crate) use merge::merged;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A uint.
    Uint(u64),
    /// A double.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Point in time, in UTC.
    Timestamp(Timestamp),
    /// Duration in nanoseconds.
    Duration(i64),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// Type, by its name.
    Type(Arc<str>),
    /// JSON without a schema, which can only be compared.
    Unknown(&'a serde_json::Value),
    /// Value of a library's type.
    Opaque(Arc<dyn Opaque>),
}

/// A value of a type that a library defines.
pub trait Opaque: fmt::Debug + Send + Sync + Any {
    /// Returns the name of the type.
    fn type_name(&self) -> &'static str;
    /// Whether it equals another opaque value, possibly of another type.
    fn equals(&self, other: &dyn Opaque) -> bool;
    /// Returns the size, if it has one.
    fn size(&self) -> Option<u64> {
        None
    }
}

impl dyn Opaque {
    /// Returns the concrete value, if it is of this type.
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A borrowed or shared string.
#[derive(Clone)]
pub enum Text<'a> {
    /// From JSON or from a program.
    Borrowed(&'a str),
    /// Created during evaluation.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::String(Text::Shared(text.into()))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Text::Borrowed(text))
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Owned(Arc::new(items)))
    }
}

impl<'a> Value<'a> {
    /// Wraps a library's value.
    pub fn opaque(value: impl Opaque) -> Value<'a> {
        Value::Opaque(Arc::new(value))
    }

    /// Creates an optional value.
    pub fn optional(value: Option<Value<'a>>) -> Value<'a> {
        Value::Optional(value.map(Arc::new))
    }

    /// Returns the string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if it is an int.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the list, if it is one.
    pub fn as_list(&self) -> Option<&List<'a>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the value of a library's type, if it is of that type.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Value::Opaque(value) => value.downcast(),
            _ => None,
        }
    }

    /// Returns the name of the type, as in `type(x)` and error messages.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => crate::types::OPTIONAL,
            Value::Type(_) => "type",
            Value::Unknown(_) => "unknown",
            Value::Opaque(value) => value.type_name(),
        }
    }

    /// Returns the size: characters, bytes, items or entries.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Opaque(value) => return value.size(),
            _ => return None,
        })
    }
}

impl Value<'_> {
    /// Formats the value as in error messages.
    pub fn display(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(it) => it.to_string(),
            Value::Int(it) => it.to_string(),
            Value::Uint(it) => it.to_string(),
            Value::Double(it) => crate::standard::write_double(*it),
            Value::String(text) => text.to_string(),
            Value::Timestamp(at) => crate::time::format_timestamp(*at),
            Value::Duration(nanos) => crate::time::format_duration(*nanos),
            Value::Type(name) => name.to_string(),
            other => other.to_json().map_or_else(|| other.type_name().to_owned(), |json| json.to_string()),
        }
    }
}
