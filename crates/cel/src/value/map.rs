//! Maps and objects: borrowed JSON or computed values.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go
// upstream: github.com/google/cel-go/common/types/map.go

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Text, Value};
use crate::error::Error;
use crate::shape::{Object, Shape, ShapeKind, escape, unescape};

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// JSON, with its shape.
    Json(&'a serde_json::Map<String, serde_json::Value>, &'a Shape),
    /// JSON without a shape.
    Plain(&'a serde_json::Map<String, serde_json::Value>),
    /// Computed values.
    Owned(Arc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// A key of a computed map.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// A bool.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A uint.
    Uint(u64),
    /// A string.
    String(Text<'a>),
}

impl Key<'_> {
    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Key::Bool(it) => (0, i128::from(*it), ""),
            Key::Int(it) => (1, i128::from(*it), ""),
            Key::Uint(it) => (1, i128::from(*it), ""),
            Key::String(it) => (2, 0, it),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<'a> Key<'a> {
    /// Converts a value to a key, if possible. An integral double equals the int.
    pub fn of(value: &Value<'a>) -> Option<Key<'a>> {
        Some(match value {
            Value::Bool(it) => Key::Bool(*it),
            Value::Int(it) => Key::Int(*it),
            Value::Uint(it) => Key::Uint(*it),
            Value::String(it) => Key::String(it.clone()),
            _ => return None,
        })
    }

    fn lookup(value: &Value<'a>) -> Option<Key<'a>> {
        match value {
            Value::Double(it) if it.fract() == 0.0 && *it >= -9.2e18 && *it <= 9.2e18 => {
                Some(Key::Int(*it as i64))
            }
            Value::Double(it) if it.fract() == 0.0 && *it > 0.0 && *it < 1.8e19 => {
                Some(Key::Uint(*it as u64))
            }
            other => Key::of(other),
        }
    }

    /// Converts the key to a value.
    pub fn value(&self) -> Value<'a> {
        match self {
            Key::Bool(it) => Value::Bool(*it),
            Key::Int(it) => Value::Int(*it),
            Key::Uint(it) => Value::Uint(*it),
            Key::String(it) => Value::String(it.clone()),
        }
    }
}

impl<'a> Map<'a> {
    /// Creates a map. The last of several entries with the same key wins.
    pub fn owned(entries: Vec<(Key<'a>, Value<'a>)>) -> Map<'a> {
        Map::Owned(Arc::new(entries.into_iter().collect()))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(members, _) | Map::Plain(members) => members.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key. A key of an object that is not a string is an error.
    pub fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
        match self {
            Map::Json(..) => match key {
                Value::String(name) => self.member(name),
                _ => Err(Error::NoSuchOverload),
            },
            Map::Plain(_) => match key {
                Value::String(name) => self.member(name),
                _ => Ok(None),
            },
            Map::Owned(entries) => Ok(Key::lookup(key).and_then(|key| entries.get(&key).cloned())),
        }
    }

    /// Returns the value of a name as expressions write it.
    pub fn member(&self, name: &str) -> Result<Option<Value<'a>>, Error> {
        match self {
            Map::Plain(members) => Ok(members.get(name).map(Value::plain)),
            Map::Owned(entries) => Ok(entries.get(&Key::String(Text::Shared(name.into()))).cloned()),
            Map::Json(members, shape) => match &shape.kind {
                ShapeKind::Map(values) => {
                    members.get(name).map(|member| Value::from_json(member, values)).transpose()
                }
                ShapeKind::Object(object) if object.has_properties => {
                    let Some(name) = unescape(name) else { return Ok(None) };
                    match members.get(&*name) {
                        None | Some(serde_json::Value::Null) => Ok(None),
                        Some(member) => match object.fields.get(&*name) {
                            Some(shape) => Value::from_json(member, shape).map(Some),
                            None => Ok(None),
                        },
                    }
                }
                _ => Ok(None),
            },
        }
    }

    /// Returns all keys that expressions can access.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Plain(members) => members.keys().map(|name| Value::from(name.as_str())).collect(),
            Map::Owned(entries) => entries.keys().map(Key::value).collect(),
            Map::Json(members, shape) => match &shape.kind {
                ShapeKind::Map(_) => members.keys().map(|name| Value::from(name.as_str())).collect(),
                ShapeKind::Object(object) => members
                    .keys()
                    .filter(|name| object.fields.contains_key(*name))
                    .map(|name| escaped_name(object, name))
                    .collect(),
                _ => Vec::new(),
            },
        }
    }
}

/// Returns the name of a member as expressions see it.
fn escaped_name<'a>(object: &Object, name: &'a str) -> Value<'a> {
    match object.has_properties.then(|| escape(name)).flatten() {
        Some(std::borrow::Cow::Owned(escaped)) => Value::from(escaped),
        _ => Value::from(name),
    }
}
