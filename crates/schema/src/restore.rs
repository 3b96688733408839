//! Go's conversion of untyped values to a struct, field by field, which is the last step of strategic merge
//! patches.
//!
//! It is more lenient than decoding JSON (`1.0` is an integer, one that is too large loses its upper bits),
//! stops at the first error in the order of the struct's fields, and has its own messages.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/converter.go

use serde_json::{Map, Value};

use crate::normalise::{Normaliser, normalise, untyped};
use crate::types::{TypeId, TypeRef, Types};

/// Changes `value` as converting it to the struct and encoding it again would. Returns the strict errors, or
/// the error of the conversion; `value` is then partially changed.
pub fn restore(types: &Types, id: TypeId, value: &mut Value) -> Result<Vec<String>, String> {
    let mut restore = Restore { types, path: String::new(), unknown: Vec::new() };
    restore.value(TypeRef::Struct(id), value)?;
    let mut unknown = restore.unknown;
    unknown.sort_unstable();
    normalise(types, id, value).map_err(|error| error.to_string())?;
    Ok(unknown)
}

struct Restore<'t> {
    types: &'t Types,
    /// Current path. Map keys are omitted, as in Go.
    path: String,
    unknown: Vec<String>,
}

impl Restore<'_> {
    /// Converts a value that is not null.
    fn value(&mut self, kind: TypeRef, value: &mut Value) -> Result<(), String> {
        match (kind, &mut *value) {
            (TypeRef::String | TypeRef::Named(_), Value::String(_)) | (TypeRef::Bool, Value::Bool(_)) => {
                Ok(())
            }
            // Go can convert a number to a character, so its message is different here.
            (TypeRef::String | TypeRef::Named(_), Value::Number(number)) if number.is_i64() => {
                Err(format!("cannot convert int64 to {}", kind.go_name(self.types)))
            }
            (TypeRef::String | TypeRef::Named(_), _) => Err("unrecognized type: string".to_owned()),
            (TypeRef::Float64, Value::Number(_)) => Ok(()),
            (TypeRef::Int32, Value::Number(_)) => {
                let number = integer(value, "int32")?;
                *value = Value::from(number as i32);
                Ok(())
            }
            (TypeRef::Int64, Value::Number(_)) => {
                let number = integer(value, "int64")?;
                *value = Value::from(number);
                Ok(())
            }
            (TypeRef::Bool | TypeRef::Float64 | TypeRef::Int32 | TypeRef::Int64, _) => {
                Err(format!("unrecognized type: {}", kind.go_name(self.types)))
            }
            (TypeRef::Struct(id), Value::Object(object)) => self.structure(id, object),
            (TypeRef::Struct(_), other) => Err(format!("cannot restore struct from: {}", kind_of(other))),
            (TypeRef::Map(map), Value::Object(members)) => {
                members.values_mut().try_for_each(|member| self.unless_null(map.value, member))
            }
            (TypeRef::Map(_), other) => Err(format!("cannot restore map from {}", kind_of(other))),
            (TypeRef::List(list), Value::Array(elements)) => {
                let length = self.path.len();
                for (index, element) in elements.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.unless_null(list.element, element)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (TypeRef::Bytes, Value::String(_)) => self
                .custom_unmarshal(kind, value)
                .map_err(|error| format!("error decoding from json: {error}")),
            (TypeRef::Bytes, Value::Array(elements)) => elements.iter_mut().try_for_each(byte),
            (TypeRef::List(_) | TypeRef::Bytes, other) => {
                Err(format!("cannot restore slice from {}", kind_of(other)))
            }
            _ => {
                // Custom unmarshalers get JSON, in which an integral float is an integer.
                untyped(value);
                self.custom_unmarshal(kind, value)
            }
        }
    }

    fn unless_null(&mut self, kind: TypeRef, value: &mut Value) -> Result<(), String> {
        if value.is_null() { Ok(()) } else { self.value(kind, value) }
    }

    fn structure(&mut self, id: TypeId, object: &mut Map<String, Value>) -> Result<(), String> {
        self.fields(id, object)?;
        let owner = &self.types[id];
        for name in object.keys().filter(|name| owner.slot(name).is_none()) {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.unknown.push(format!("unknown field \"{}{dot}{name}\"", self.path));
        }
        Ok(())
    }

    fn fields(&mut self, id: TypeId, object: &mut Map<String, Value>) -> Result<(), String> {
        let types = self.types;
        for field in &types[id].fields {
            if let (true, TypeRef::Struct(embedded)) = (field.inline, field.kind) {
                self.fields(embedded, object)?;
                continue;
            }
            let Some(value) = object.get_mut(field.name).filter(|value| !value.is_null()) else { continue };
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(field.name);
            self.value(field.kind, value)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    /// Runs a custom unmarshaler.
    fn custom_unmarshal(&self, kind: TypeRef, value: &Value) -> Result<(), String> {
        // Only errors matter here: the value is normalised together with the rest.
        match Normaliser::single_value(self.types, kind, &mut value.clone()) {
            Some(mismatch) => Err(mismatch.to_string()),
            None => Ok(()),
        }
    }
}

/// Returns a number without a fraction. Numbers that are out of range become the smallest integer, as on
/// amd64.
fn integer(value: &Value, expected: &str) -> Result<i64, String> {
    match (value.as_i64(), value.as_f64()) {
        (Some(number), _) => Ok(number),
        (None, Some(number)) if number.fract() == 0.0 => {
            let fits = (i64::MIN as f64..i64::MAX as f64).contains(&number);
            Ok(if fits { number as i64 } else { i64::MIN })
        }
        _ => Err(format!("cannot convert float64 to {expected}")),
    }
}

fn byte(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Null => {}
        Value::Number(_) => *value = Value::from(integer(value, "uint8")? as u8),
        _ => return Err("unrecognized type: uint8".to_owned()),
    }
    Ok(())
}

/// Returns Go's name for this kind of value.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
