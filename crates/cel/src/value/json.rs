//! Conversion between JSON and values.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go

use std::sync::Arc;

use atoll_meta::formats;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Value};
use crate::error::Error;
use crate::shape::{Shape, ShapeKind};
use crate::time;

impl<'a> Value<'a> {
    /// Converts JSON by its shape. A mismatch is an error.
    pub fn from_json(json: &'a Json, shape: &'a Shape) -> Result<Value<'a>, Error> {
        if let ShapeKind::Any = shape.kind {
            return Ok(Value::plain(json));
        }
        if json.is_null() {
            return match shape.nullable {
                true => Ok(Value::Null),
                false => Err(Error::new("invalid data, got null for schema with nullable=false")),
            };
        }
        Ok(match &shape.kind {
            ShapeKind::Any => Value::plain(json),
            ShapeKind::Unknown => Value::Unknown(json),
            ShapeKind::IntOrString => match (json.as_str(), json.as_i64()) {
                (Some(text), _) => Value::from(text),
                (None, Some(number)) => Value::Int(number),
                _ => {
                    let message =
                        "invalid data, expected XIntOrString value to be either a string or integer";
                    return Err(Error::new(message));
                }
            },
            ShapeKind::Bool => Value::Bool(json.as_bool().ok_or_else(|| type_error("bool", json))?),
            ShapeKind::Int => Value::Int(json.as_i64().ok_or_else(|| type_error("int", json))?),
            ShapeKind::Double => Value::Double(json.as_f64().ok_or_else(|| type_error("float", json))?),
            ShapeKind::List(items, kind) => match json {
                Json::Array(array) => Value::List(List::Json(array, items, kind)),
                _ => {
                    return Err(Error::new(
                        "invalid data, expected an array for the provided schema with type=array",
                    ));
                }
            },
            ShapeKind::Map(_) | ShapeKind::Object(_) => match json {
                Json::Object(members) => Value::Map(Map::Json(members, shape)),
                _ => {
                    return Err(Error::new(
                        "invalid data, expected a map for the provided schema with type=object",
                    ));
                }
            },
            text_kind => {
                let text = json.as_str().ok_or_else(|| type_error("string", json))?;
                let wrong = |what: &str| Error::new(format!("Invalid {what} {text}"));
                match text_kind {
                    ShapeKind::Duration => {
                        Value::Duration(formats::parse_duration(text).ok_or_else(|| wrong("duration"))?)
                    }
                    ShapeKind::Date => Value::Timestamp(
                        time::parse_date(text).ok_or_else(|| wrong("date formatted string"))?,
                    ),
                    ShapeKind::DateTime => Value::Timestamp(
                        time::parse_date_time(text).ok_or_else(|| wrong("date-time formatted string"))?,
                    ),
                    ShapeKind::Bytes => Value::Bytes(
                        STANDARD.decode(text).map_err(|_| wrong("byte formatted string"))?.into(),
                    ),
                    _ => Value::from(text),
                }
            }
        })
    }

    /// Converts JSON without a shape: integers are ints, other numbers doubles.
    pub fn plain(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(it) => Value::Bool(*it),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Int(number),
                (None, Some(number)) => Value::Uint(number),
                _ => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::from(text.as_str()),
            Json::Array(items) => Value::List(List::Plain(items)),
            Json::Object(members) => Value::Map(Map::Plain(members)),
        }
    }

    /// Converts to JSON, for messages and tests. `None` for types that JSON does not have.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(it) => (*it).into(),
            Value::Int(it) => (*it).into(),
            Value::Uint(it) => (*it).into(),
            Value::Double(it) => serde_json::Number::from_f64(*it).map(Json::Number)?,
            Value::String(text) => (**text).into(),
            Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
            Value::Timestamp(at) => time::format_timestamp(*at).into(),
            Value::Duration(nanos) => time::format_duration(*nanos).into(),
            Value::List(list) => {
                let items = list.iter().map(|item| item.ok()?.to_json());
                Json::Array(items.collect::<Option<_>>()?)
            }
            Value::Map(map) => {
                let mut members = serde_json::Map::new();
                for key in map.keys() {
                    let name = match &key {
                        Value::String(name) => name.to_string(),
                        other => other.to_json()?.to_string(),
                    };
                    members.insert(name, map.find(&key).ok()??.to_json()?);
                }
                Json::Object(members)
            }
            Value::Unknown(json) => (*json).clone(),
            Value::Type(name) => (**name).into(),
            Value::Optional(_) | Value::Opaque(_) => return None,
        })
    }

    /// Creates a string that does not borrow.
    pub fn shared_text(text: &str) -> Value<'a> {
        Value::String(super::Text::Shared(Arc::from(text)))
    }
}

/// Returns the error for JSON of the wrong type, with Go's names for types.
fn type_error(expected: &str, json: &Json) -> Error {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    Error::new(format!("invalid data, expected {expected}, got {found}"))
}
