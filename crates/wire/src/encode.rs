//! From JSON to a message, as upstream's own encoder writes it: fields by number, zero scalars spelled out.

use atoll_meta::{json, time};
use atoll_schema::{Field, List, Map, TypeId, TypeRef, Types};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::varint::{BYTES, FIXED64, VARINT, write_bytes, write_message, write_tag, write_varint};

/// The message of an object that has been normalised.
pub fn encode(types: &Types, id: TypeId, object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    Encoder { types }.message(id, object, &mut out);
    out
}

struct Encoder<'t> {
    types: &'t Types,
}

impl Encoder<'_> {
    fn message(&self, id: TypeId, object: &Value, out: &mut Vec<u8>) {
        let owner = &self.types[id];
        let mut fields: Vec<(u32, &Field)> =
            owner.fields.iter().filter_map(|field| Some((field.proto?.number, field))).collect();
        fields.sort_unstable_by_key(|(number, _)| *number);
        for (number, field) in fields {
            if field.inline {
                if let TypeRef::Struct(embedded) = field.kind {
                    write_message(number, out, |out| self.message(embedded, object, out));
                }
                continue;
            }
            let value = object.get(field.name).filter(|value| !value.is_null());
            match (value, field.kind) {
                (Some(value), kind) => self.field(number, kind, field, value, out),
                // What has no pointer to be nil is always written.
                (None, kind) if !field.pointer => self.zero(number, kind, out),
                (None, _) => {}
            }
        }
    }

    fn field(&self, number: u32, kind: TypeRef, field: &Field, value: &Value, out: &mut Vec<u8>) {
        match kind {
            TypeRef::List(list) if !list.message => self.elements(number, list, field, value, out),
            TypeRef::Map(map) => self.entries(number, map, field, value, out),
            kind => self.value(number, kind, field, value, out),
        }
    }

    fn elements(&self, number: u32, list: &List, field: &Field, value: &Value, out: &mut Vec<u8>) {
        for element in value.as_array().into_iter().flatten() {
            self.value(number, list.element, field, element, out);
        }
    }

    fn entries(&self, number: u32, map: &Map, field: &Field, value: &Value, out: &mut Vec<u8>) {
        // serde_json keeps keys sorted, which is the order that upstream writes.
        for (key, value) in value.as_object().into_iter().flatten() {
            write_message(number, out, |out| {
                write_bytes(1, key.as_bytes(), out);
                match value {
                    // A list that is a message is written even if it is nil, in an entry.
                    Value::Null if matches!(map.value, TypeRef::List(list) if list.message) => {
                        write_bytes(2, b"", out);
                    }
                    Value::Null => self.zero(2, map.value, out),
                    value => self.field(2, map.value, field, value, out),
                }
            });
        }
    }

    fn value(&self, number: u32, kind: TypeRef, field: &Field, value: &Value, out: &mut Vec<u8>) {
        match kind {
            TypeRef::Bool => varint(number, u64::from(value.as_bool().unwrap_or(false)), out),
            TypeRef::Int32 | TypeRef::Int64 => varint(number, integer(value).cast_unsigned(), out),
            TypeRef::Float64 => {
                write_tag(number, FIXED64, out);
                out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            TypeRef::String | TypeRef::Named(_) => {
                write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), out);
            }
            TypeRef::Bytes => {
                let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
                write_bytes(number, &bytes, out);
            }
            TypeRef::Time | TypeRef::MicroTime => write_message(number, out, |out| timestamp(value, out)),
            TypeRef::IntOrString => write_message(number, out, |out| int_or_string(value, out)),
            TypeRef::Quantity => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                write_message(number, out, |out| write_bytes(1, text.as_bytes(), out));
            }
            TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json | TypeRef::Any => {
                write_message(number, out, |out| write_bytes(1, &json::to_vec(value), out));
            }
            TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray => {
                write_message(number, out, |out| self.schema_or(kind, value, out));
            }
            TypeRef::Struct(id) => write_message(number, out, |out| self.message(id, value, out)),
            TypeRef::List(list) => {
                write_message(number, out, |out| self.elements(1, list, field, value, out))
            }
            TypeRef::Map(map) => self.entries(number, map, field, value, out),
        }
    }

    fn schema_or(&self, kind: TypeRef, value: &Value, out: &mut Vec<u8>) {
        let schema = TypeRef::Struct(self.types.json_schema());
        let write_schema = |number: u32, value: &Value, out: &mut Vec<u8>| {
            let TypeRef::Struct(id) = schema else { return };
            write_message(number, out, |out| self.message(id, value, out));
        };
        match (kind, value) {
            (TypeRef::JsonSchemaOrBool, Value::Bool(allows)) => varint(1, u64::from(*allows), out),
            (TypeRef::JsonSchemaOrBool, value) => {
                varint(1, 1, out);
                write_schema(2, value, out);
            }
            (TypeRef::JsonSchemaOrStringArray, Value::Array(texts)) => {
                for text in texts {
                    write_bytes(2, text.as_str().unwrap_or_default().as_bytes(), out);
                }
            }
            (_, Value::Array(schemas)) => {
                for value in schemas {
                    write_schema(2, value, out);
                }
            }
            (_, value) => write_schema(1, value, out),
        }
    }

    /// A field that is not a pointer and was never set.
    fn zero(&self, number: u32, kind: TypeRef, out: &mut Vec<u8>) {
        match kind {
            TypeRef::Bool | TypeRef::Int32 | TypeRef::Int64 => varint(number, 0, out),
            TypeRef::Float64 => {
                write_tag(number, FIXED64, out);
                out.extend_from_slice(&[0; 8]);
            }
            TypeRef::String | TypeRef::Named(_) | TypeRef::Time | TypeRef::MicroTime => {
                write_bytes(number, b"", out)
            }
            TypeRef::Struct(id) => write_message(number, out, |out| self.message(id, &Value::Null, out)),
            TypeRef::IntOrString => write_message(number, out, |out| int_or_string(&Value::from(0), out)),
            TypeRef::Quantity => write_message(number, out, |out| write_bytes(1, b"0", out)),
            TypeRef::JsonSchemaOrBool => write_message(number, out, |out| varint(1, 0, out)),
            TypeRef::RawExtension
            | TypeRef::FieldsV1
            | TypeRef::Json
            | TypeRef::JsonSchemaOrArray
            | TypeRef::JsonSchemaOrStringArray => {
                write_tag(number, BYTES, out);
                out.push(0);
            }
            // Slices and maps can be nil.
            TypeRef::Bytes | TypeRef::Any | TypeRef::List(_) | TypeRef::Map(_) => {}
        }
    }
}

fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    write_tag(number, VARINT, out);
    write_varint(value, out);
}

fn integer(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_f64().map(|float| float as i64)).unwrap_or(0)
}

fn timestamp(value: &Value, out: &mut Vec<u8>) {
    let text = value.as_str().unwrap_or_default();
    let Ok(moment) = time::parse(text).or_else(|_| time::parse_micro(text)) else { return };
    if moment.is_zero() {
        return;
    }
    varint(1, moment.seconds.cast_unsigned(), out);
    varint(2, u64::from(moment.nanos), out);
}

fn int_or_string(value: &Value, out: &mut Vec<u8>) {
    let (kind, number, text) = match value {
        Value::String(text) => (1, 0, text.as_str()),
        value => (0, integer(value), ""),
    };
    varint(1, kind, out);
    varint(2, number.cast_unsigned(), out);
    write_bytes(3, text.as_bytes(), out);
}
