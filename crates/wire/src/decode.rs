//! Decoding of protobuf messages to JSON.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go
// upstream: staging/src/k8s.io/api/core/v1/generated.pb.go

use atoll_meta::{json, time};
use atoll_schema::{Field, List, Map, TypeId, TypeRef, Types};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Object, Value};

use crate::WireError;
use crate::envelope::{MAGIC, open};
use crate::varint::{Payload, Reader};

/// Maximum nesting depth. Types are recursive only through schemas, which do not nest deeper in practice.
const MAX_DEPTH: usize = 256;

/// Decodes a message of a type to JSON. Zero values in the message are kept: pass the result through
/// [`atoll_schema::normalise`] for Go's form.
pub fn decode(types: &Types, id: TypeId, message: &[u8]) -> Result<Value, WireError> {
    let mut object = Object::new();
    Decoder { types }.message(id, message, &mut object, 0)?;
    Ok(Value::Object(object))
}

struct Decoder<'t> {
    types: &'t Types,
}

impl Decoder<'_> {
    fn message(
        &self,
        id: TypeId,
        message: &[u8],
        object: &mut Object<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        if depth > MAX_DEPTH {
            return Err(WireError::TooDeep);
        }
        let owner = &self.types[id];
        let mut reader = Reader::new(message);
        // Fields are almost always in order: the next one is the same as the last one, or the one after it.
        let mut position = 0;
        while let Some((number, payload)) = reader.field()? {
            let Some(found) = find(&owner.fields, number, position) else { continue };
            position = found;
            let field = &owner.fields[found];
            if field.inline {
                let TypeRef::Struct(embedded) = field.kind else { continue };
                let Payload::Bytes(bytes) = payload else {
                    return Err(wrong_wire_type(owner.name, field, payload));
                };
                self.message(embedded, bytes, object, depth + 1)?;
                continue;
            }
            self.field(owner.name, field, payload, object, depth)?;
        }
        Ok(())
    }

    fn field(
        &self,
        owner: &'static str,
        field: &Field,
        payload: Payload<'_>,
        object: &mut Object<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        match field.kind {
            TypeRef::List(list) if !list.message => {
                let entry = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(elements) = entry else { return Ok(()) };
                self.element(owner, field, list, payload, elements, depth)
            }
            TypeRef::Map(map) => {
                let entry = object.entry(field.name).or_insert_with(|| Value::Object(Object::new()));
                let Value::Object(entries) = entry else { return Ok(()) };
                let Payload::Bytes(bytes) = payload else {
                    return Err(wrong_wire_type(owner, field, payload));
                };
                let (key, value) = self.entry(owner, field, map, bytes, depth)?;
                entries.insert(key, value);
                Ok(())
            }
            kind => {
                let value = self.value(owner, field, kind, payload, depth)?;
                object.insert(field.name.to_string(), value);
                Ok(())
            }
        }
    }

    /// Decodes one element of a repeated field, or several packed ones.
    fn element(
        &self,
        owner: &'static str,
        field: &Field,
        list: &List,
        payload: Payload<'_>,
        elements: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        let packable = matches!(list.element, TypeRef::Int32 | TypeRef::Int64 | TypeRef::Bool);
        if let (true, Payload::Bytes(packed)) = (packable, payload) {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                let number = Payload::Varint(reader.varint()?);
                elements.push(self.value(owner, field, list.element, number, depth)?);
            }
            return Ok(());
        }
        elements.push(self.value(owner, field, list.element, payload, depth)?);
        Ok(())
    }

    fn entry(
        &self,
        owner: &'static str,
        field: &Field,
        map: &Map,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), WireError> {
        let (mut key, mut value) = (String::new(), None);
        let mut list = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.field()? {
            match (number, payload) {
                (1, Payload::Bytes(text)) => key = lossy(text),
                (2, payload) => match map.value {
                    TypeRef::List(inner) if !inner.message => {
                        self.element(owner, field, inner, payload, &mut list, depth)?;
                    }
                    kind => value = Some(self.value(owner, field, kind, payload, depth)?),
                },
                _ => {}
            }
        }
        let absent = || match map.value {
            // Absent bytes are empty here, not nil.
            TypeRef::Bytes => Value::String(String::new()),
            kind if list.is_empty() => self.types.zero(kind),
            _ => Value::Array(list),
        };
        Ok((key, value.unwrap_or_else(absent)))
    }

    fn value(
        &self,
        owner: &'static str,
        field: &Field,
        kind: TypeRef,
        payload: Payload<'_>,
        depth: usize,
    ) -> Result<Value, WireError> {
        let value = match (kind, payload) {
            (TypeRef::Bool, Payload::Varint(number)) => Value::Bool(number != 0),
            (TypeRef::Int32, Payload::Varint(number)) => Value::from(number as i32),
            (TypeRef::Int64, Payload::Varint(number)) => Value::from(number.cast_signed()),
            (TypeRef::Float64, Payload::Fixed64(bits)) => float(f64::from_bits(bits)),
            (TypeRef::String | TypeRef::Named(_), Payload::Bytes(text)) => Value::String(lossy(text)),
            (TypeRef::Bytes, Payload::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
            (TypeRef::Time, Payload::Bytes(bytes)) => timestamp(bytes, false)?,
            (TypeRef::MicroTime, Payload::Bytes(bytes)) => timestamp(bytes, true)?,
            (TypeRef::IntOrString, Payload::Bytes(bytes)) => int_or_string(bytes)?,
            (TypeRef::Quantity, Payload::Bytes(bytes)) => Value::String(only_text(bytes)?),
            (TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json, Payload::Bytes(bytes)) => {
                self.embedded(bytes, depth)?
            }
            (TypeRef::JsonSchemaOrArray, Payload::Bytes(bytes)) => {
                self.schema_or(bytes, Alternative::Array, depth)?
            }
            (TypeRef::JsonSchemaOrBool, Payload::Bytes(bytes)) => {
                self.schema_or(bytes, Alternative::Bool, depth)?
            }
            (TypeRef::JsonSchemaOrStringArray, Payload::Bytes(bytes)) => {
                self.schema_or(bytes, Alternative::Strings, depth)?
            }
            (TypeRef::Struct(id), Payload::Bytes(bytes)) => {
                let mut object = Object::new();
                self.message(id, bytes, &mut object, depth + 1)?;
                Value::Object(object)
            }
            // A named list or map type may be a message of its own.
            (TypeRef::List(list), Payload::Bytes(bytes)) => {
                let mut elements = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((number, payload)) = reader.field()? {
                    if number == 1 {
                        self.element(owner, field, list, payload, &mut elements, depth)?;
                    }
                }
                Value::Array(elements)
            }
            _ => return Err(wrong_wire_type(owner, field, payload)),
        };
        Ok(value)
    }

    /// Decodes JSON inside a message, or a nested envelope, as clients with typed objects send it.
    fn embedded(&self, bytes: &[u8], depth: usize) -> Result<Value, WireError> {
        let raw = only_bytes(bytes)?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(MAGIC) {
            let envelope = open(raw)?;
            let (group, version) =
                envelope.api_version.rsplit_once('/').unwrap_or(("", &envelope.api_version));
            let mut object = Object::new();
            if let Some(id) = self.types.by_kind(group, version, &envelope.kind) {
                self.message(id, envelope.raw, &mut object, depth + 1)?;
            }
            object.insert("apiVersion".into(), envelope.api_version.as_str().into());
            object.insert("kind".into(), envelope.kind.as_str().into());
            return Ok(Value::Object(object));
        }
        json::parse(raw).map(|parsed| parsed.value).map_err(|error| WireError::Json(error.to_string()))
    }

    fn schema_or(&self, bytes: &[u8], alternative: Alternative, depth: usize) -> Result<Value, WireError> {
        let schema = |bytes: &[u8]| {
            let mut object = Object::new();
            self.message(self.types.json_schema(), bytes, &mut object, depth + 1)?;
            Ok(Value::Object(object))
        };
        let (mut found, mut allows, mut many) = (None, false, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.field()? {
            match (alternative, number, payload) {
                (Alternative::Bool, 1, Payload::Varint(flag)) => allows = flag != 0,
                (Alternative::Bool, 2, Payload::Bytes(bytes)) => found = Some(schema(bytes)?),
                (Alternative::Array, 1, Payload::Bytes(bytes)) => found = Some(schema(bytes)?),
                (Alternative::Array, 2, Payload::Bytes(bytes)) => many.push(schema(bytes)?),
                (Alternative::Strings, 1, Payload::Bytes(bytes)) => found = Some(schema(bytes)?),
                (Alternative::Strings, 2, Payload::Bytes(text)) => many.push(Value::String(lossy(text))),
                _ => {}
            }
        }
        Ok(match (found, alternative) {
            (Some(schema), _) => schema,
            (None, Alternative::Bool) => Value::Bool(allows),
            (None, _) if many.is_empty() => Value::Null,
            (None, _) => Value::Array(many),
        })
    }
}

#[derive(Clone, Copy)]
enum Alternative {
    Array,
    Bool,
    Strings,
}

fn find(fields: &[Field], number: u64, from: usize) -> Option<usize> {
    let is_it = |field: &Field| field.proto.is_some_and(|proto| u64::from(proto.number) == number);
    let ahead = fields.get(from..).into_iter().flatten().position(is_it).map(|position| from + position);
    ahead.or_else(|| fields.iter().position(is_it))
}

fn wrong_wire_type(owner: &'static str, field: &Field, payload: Payload<'_>) -> WireError {
    WireError::WrongWireType { owner, field: field.go_name, wire: payload.wire() }
}

fn float(number: f64) -> Value {
    // An integral number is written without a decimal point, as in Go.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// Decodes a timestamp. An empty message is an unset one.
fn timestamp(bytes: &[u8], micro: bool) -> Result<Value, WireError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.field()? {
        match (number, payload) {
            (1, Payload::Varint(number)) => seconds = number.cast_signed(),
            (2, Payload::Varint(number)) => nanos = number as u32,
            _ => {}
        }
    }
    Ok(Value::String(if micro { time::format_micro(seconds, nanos) } else { time::format(seconds) }))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, payload)) = reader.field()? {
        match (field, payload) {
            (1, Payload::Varint(kind)) => is_text = kind == 1,
            (2, Payload::Varint(value)) => number = value as i32,
            (3, Payload::Bytes(value)) => text = lossy(value),
            _ => {}
        }
    }
    Ok(if is_text { Value::String(text) } else { Value::from(number) })
}

/// Returns the bytes in field 1 of a message with no other field.
fn only_bytes(message: &[u8]) -> Result<&[u8], WireError> {
    let mut found: &[u8] = &[];
    let mut reader = Reader::new(message);
    while let Some((number, payload)) = reader.field()? {
        if let (1, Payload::Bytes(bytes)) = (number, payload) {
            found = bytes;
        }
    }
    Ok(found)
}

fn only_text(message: &[u8]) -> Result<String, WireError> {
    only_bytes(message).map(lossy)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
