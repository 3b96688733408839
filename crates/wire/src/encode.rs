//! Encoding of JSON to protobuf messages, byte for byte as upstream: fields by number, zero scalars included.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go
// upstream: staging/src/k8s.io/api/core/v1/generated.pb.go

use atoll_meta::{json, time};
use atoll_schema::{Field, List, Map, Type, TypeId, TypeRef, Types};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::envelope::write_envelope;
use crate::tape::{Kind, Tape, TapeValue};
use crate::varint::{BYTES, FIXED64, VARINT, write_bytes, write_message, write_tag, write_varint};

/// Maximum number of fields of a struct.
const MAX_FIELDS: usize = 64;

/// Encodes a normalised object.
pub fn encode(types: &Types, id: TypeId, object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    Encoder::new(types).message(id, &json::to_vec(object), &mut out);
    out
}

/// Encodes messages directly from the JSON of objects.
pub struct Encoder<'t> {
    types: &'t Types,
    tape: Tape,
}

impl<'t> Encoder<'t> {
    pub fn new(types: &'t Types) -> Self {
        Encoder { types, tape: Tape::default() }
    }

    /// Encodes an object whose normalised, compact and valid form is `json`.
    pub fn message(&mut self, id: TypeId, json: &[u8], out: &mut Vec<u8>) {
        let object = self.tape.read(json);
        Writer { types: self.types }.message(id, object, out);
    }

    /// Encodes a part of an object, by the key of its type.
    pub fn part(&mut self, key: &str, json: &[u8], out: &mut Vec<u8>) {
        if let Some(id) = self.types.by_key(key) {
            self.message(id, json, out);
        }
    }

    /// Encodes an object with an envelope by its kind. Returns false without writing anything for a kind
    /// without a type.
    pub fn enveloped(&mut self, json: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(object) = self.tape.read(json) else { return false };
        let text = |name: &[u8]| {
            let member = object.members().find(|(key, _)| key.raw() == name);
            member.and_then(|(_, value)| std::str::from_utf8(value.raw()).ok()).unwrap_or_default()
        };
        let (api_version, kind) = (text(b"apiVersion"), text(b"kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let Some(id) = self.types.by_kind(group, version, kind) else { return false };
        write_envelope(api_version, kind, out, |out| {
            Writer { types: self.types }.message(id, Some(object), out);
        });
        true
    }
}

struct Writer<'t> {
    types: &'t Types,
}

impl Writer<'_> {
    fn message(&self, id: TypeId, object: Option<TapeValue<'_>>, out: &mut Vec<u8>) {
        let owner = &self.types[id];
        let members = members(owner, object);
        for entry in &owner.numbered {
            let field = &owner.fields[usize::from(entry.field)];
            if field.inline {
                if let TypeRef::Struct(embedded) = field.kind {
                    write_message(entry.number, out, |out| self.message(embedded, object, out));
                }
                continue;
            }
            let index = entry.slot.map_or(0, |slot| members[usize::from(slot)]);
            let value = object.filter(|_| index > 0).map(|object| object.at(index));
            match value.filter(|value| value.kind() != Kind::Null) {
                Some(value) => self.field(entry.number, field.kind, field, value, out),
                // Fields that are not pointers are always written.
                None if !field.pointer => self.zero(entry.number, field.kind, out),
                None => {}
            }
        }
    }

    fn field(&self, number: u32, kind: TypeRef, field: &Field, value: TapeValue<'_>, out: &mut Vec<u8>) {
        match kind {
            TypeRef::List(list) if !list.message => self.elements(number, list, field, value, out),
            TypeRef::Map(map) => self.entries(number, map, field, value, out),
            kind => self.value(number, kind, field, value, out),
        }
    }

    fn elements(&self, number: u32, list: &List, field: &Field, value: TapeValue<'_>, out: &mut Vec<u8>) {
        for element in value.elements() {
            self.value(number, list.element, field, element, out);
        }
    }

    fn entries(&self, number: u32, map: &Map, field: &Field, value: TapeValue<'_>, out: &mut Vec<u8>) {
        // Keys are written in order, as upstream does.
        for (key, value) in value.members() {
            write_message(number, out, |out| {
                write_bytes(1, &key.text(), out);
                match value.kind() {
                    // In a map entry, a list that is a message is written even if it is nil.
                    Kind::Null if matches!(map.value, TypeRef::List(list) if list.message) => {
                        write_bytes(2, b"", out);
                    }
                    Kind::Null => self.zero(2, map.value, out),
                    _ => self.field(2, map.value, field, value, out),
                }
            });
        }
    }

    fn value(&self, number: u32, kind: TypeRef, field: &Field, value: TapeValue<'_>, out: &mut Vec<u8>) {
        match kind {
            TypeRef::Bool => varint(number, u64::from(value.is_true()), out),
            TypeRef::Int32 | TypeRef::Int64 => varint(number, value.integer().cast_unsigned(), out),
            TypeRef::Float64 => {
                write_tag(number, FIXED64, out);
                out.extend_from_slice(&value.float().to_le_bytes());
            }
            TypeRef::String | TypeRef::Named(_) => write_bytes(number, &value.text(), out),
            TypeRef::Bytes => write_bytes(number, &STANDARD.decode(value.text()).unwrap_or_default(), out),
            TypeRef::Time | TypeRef::MicroTime => write_message(number, out, |out| timestamp(value, out)),
            TypeRef::IntOrString => write_message(number, out, |out| int_or_string(Some(value), out)),
            TypeRef::Quantity => {
                let text = value.text();
                let text = if value.kind() == Kind::Text { &text } else { value.raw() };
                write_message(number, out, |out| write_bytes(1, text, out));
            }
            TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json | TypeRef::Any => {
                write_message(number, out, |out| write_json(value, out));
            }
            TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray => {
                write_message(number, out, |out| self.schema_or(kind, value, out));
            }
            TypeRef::Struct(id) => write_message(number, out, |out| self.message(id, Some(value), out)),
            TypeRef::List(list) => {
                write_message(number, out, |out| self.elements(1, list, field, value, out))
            }
            TypeRef::Map(map) => self.entries(number, map, field, value, out),
        }
    }

    fn schema_or(&self, kind: TypeRef, value: TapeValue<'_>, out: &mut Vec<u8>) {
        let write_schema = |number: u32, value: TapeValue<'_>, out: &mut Vec<u8>| {
            write_message(number, out, |out| self.message(self.types.json_schema(), Some(value), out));
        };
        match (kind, value.kind()) {
            (TypeRef::JsonSchemaOrBool, Kind::Bool) => varint(1, u64::from(value.is_true()), out),
            (TypeRef::JsonSchemaOrBool, _) => {
                varint(1, 1, out);
                write_schema(2, value, out);
            }
            (TypeRef::JsonSchemaOrStringArray, Kind::Array) => {
                value.elements().for_each(|text| write_bytes(2, &text.text(), out));
            }
            (_, Kind::Array) => value.elements().for_each(|schema| write_schema(2, schema, out)),
            _ => write_schema(1, value, out),
        }
    }

    /// Encodes a field that is not a pointer and was never set.
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
            TypeRef::Struct(id) => write_message(number, out, |out| self.message(id, None, out)),
            TypeRef::IntOrString => write_message(number, out, |out| int_or_string(None, out)),
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

/// Returns the tape indexes of an object's values by slot; 0 for absent ones.
fn members(owner: &Type, object: Option<TapeValue<'_>>) -> [u32; MAX_FIELDS] {
    let mut members = [0; MAX_FIELDS];
    let Some(object) = object else { return members };
    // Members are almost always in the order of their names, as slots are.
    let mut expected = 0;
    for (key, value) in object.members() {
        let name = key.raw();
        let slot = match owner.slots.get(expected) {
            Some(slot) if slot.name.as_bytes() == name => Some(expected),
            _ => owner.slots.binary_search_by(|slot| slot.name.as_bytes().cmp(name)).ok(),
        };
        if let Some(slot) = slot {
            members[slot] = value.index();
            expected = slot + 1;
        }
    }
    members
}

fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    write_tag(number, VARINT, out);
    write_varint(value, out);
}

/// JSON within a message stays JSON.
fn write_json(value: TapeValue<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        Kind::Text => write_message(1, out, |out| {
            out.push(b'"');
            out.extend_from_slice(value.raw());
            out.push(b'"');
        }),
        _ => write_bytes(1, value.raw(), out),
    }
}

fn timestamp(value: TapeValue<'_>, out: &mut Vec<u8>) {
    let text = value.text();
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let Ok(moment) = time::parse(text).or_else(|_| time::parse_micro(text)) else { return };
    if moment.is_zero() {
        return;
    }
    varint(1, moment.seconds.cast_unsigned(), out);
    varint(2, u64::from(moment.nanos), out);
}

fn int_or_string(value: Option<TapeValue<'_>>, out: &mut Vec<u8>) {
    let text = value.map(TapeValue::text).unwrap_or_default();
    let is_text = value.is_some_and(|value| value.kind() == Kind::Text);
    varint(1, u64::from(is_text), out);
    varint(2, value.map_or(0, TapeValue::integer).cast_unsigned(), out);
    write_bytes(3, &text, out);
}
