//! JSON in annotations as Go reads and writes it: fields in the order of the Go types, matched
//! case-insensitively.

// upstream: pkg/apis/autoscaling/v1/conversion.go

use atoll_meta::json;
use atoll_schema::{Type, TypeRef, Types};
use serde_json::Value;

pub const METRIC_SPEC: &str = "autoscaling/v2.MetricSpec";
pub const METRIC_STATUS: &str = "autoscaling/v2.MetricStatus";
const CONDITION: &str = "autoscaling/v2.HorizontalPodAutoscalerCondition";
const RULES: &str = "autoscaling/v2.HorizontalPodAutoscalerBehavior";

/// Reads a list; `None` if an element cannot be read.
pub fn read_list(text: &str, read: impl Fn(Value) -> Option<Value>) -> Option<Vec<Value>> {
    match json::parse(text.as_bytes()).ok()?.value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.into_iter().map(read).collect(),
        _ => None,
    }
}

pub fn read_conditions(types: &Types, text: &str) -> Option<Vec<Value>> {
    read_list(text, |condition| typed(types, CONDITION, condition))
}

pub fn write_conditions(types: &Types, conditions: &[Value]) -> String {
    let mut out = Vec::new();
    write_list(conditions, &mut out, |condition, out| match types.by_key(CONDITION) {
        Some(id) => write_typed(types, TypeRef::Struct(id), condition, out),
        None => json::write(condition, out),
    });
    text(out)
}

/// Reads a behavior; `None` also for an empty one.
pub fn read_behavior(types: &Types, text: &str) -> Option<Value> {
    let behavior = typed(types, RULES, json::parse(text.as_bytes()).ok()?.value)?;
    behavior.as_object().is_some_and(|rules| !rules.is_empty()).then_some(behavior)
}

/// Writes a behavior: upstream encodes an internal type without JSON names, so fields have their Go names and
/// none is omitted.
pub fn write_behavior(types: &Types, behavior: &Value) -> String {
    let mut out = Vec::new();
    match types.by_key(RULES) {
        Some(id) => write_go(types, TypeRef::Struct(id), behavior, &mut out),
        None => json::write(behavior, &mut out),
    }
    text(out)
}

/// The result of decoding a value into a Go struct, `None` if that fails.
pub fn typed(types: &Types, key: &str, mut value: Value) -> Option<Value> {
    let id = types.by_key(key)?;
    spell(types, TypeRef::Struct(id), &mut value);
    atoll_schema::normalise(types, id, &mut value).ok()?;
    Some(value)
}

/// Corrects the case of field names, which Go's `encoding/json` ignores.
fn spell(types: &Types, kind: TypeRef, value: &mut Value) {
    match (kind, value) {
        (TypeRef::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| spell(types, list.element, item));
        }
        (TypeRef::Struct(id), Value::Object(fields)) => {
            let owner = &types[id];
            let misspelt: Vec<_> =
                fields.keys().filter_map(|name| Some((name.clone(), exact_name(owner, name)?))).collect();
            for (name, right) in misspelt {
                if let Some(value) = fields.remove(&name) {
                    fields.entry(right).or_insert(value);
                }
            }
            for (name, value) in fields {
                if let Some((_, slot)) = owner.slot(name) {
                    spell(types, slot.kind, value);
                }
            }
        }
        _ => {}
    }
}

fn exact_name(owner: &Type, name: &str) -> Option<&'static str> {
    if owner.slot(name).is_some() {
        return None;
    }
    owner.slots.iter().find(|slot| slot.name.eq_ignore_ascii_case(name)).map(|slot| slot.name)
}

/// Writes a value as Go does: present fields in the order of the type.
pub fn write_typed(types: &Types, kind: TypeRef, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        (TypeRef::List(list), Value::Array(items)) => {
            write_list(items, out, |item, out| write_typed(types, list.element, item, out));
        }
        (TypeRef::Struct(id), Value::Object(fields)) => {
            let present = types[id].fields.iter().filter_map(|field| Some((field, fields.get(field.name)?)));
            let mut object = Object::begin(out);
            for (field, value) in present {
                write_typed(types, field.kind, value, object.field(field.name));
            }
            object.end();
        }
        (_, value) => json::write(value, out),
    }
}

fn write_go(types: &Types, kind: TypeRef, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        (TypeRef::List(list), Value::Array(items)) => {
            write_list(items, out, |item, out| write_go(types, list.element, item, out));
        }
        (TypeRef::Struct(id), Value::Object(fields)) => {
            let mut object = Object::begin(out);
            for field in &types[id].fields {
                let value = fields.get(field.name).unwrap_or(&Value::Null);
                write_go(types, field.kind, value, object.field(field.go_name));
            }
            object.end();
        }
        (_, value) => json::write(value, out),
    }
}

pub fn write_list(items: &[Value], out: &mut Vec<u8>, mut write: impl FnMut(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// A writer of one JSON object.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Object { out, first: true }
    }

    /// Starts the next field and returns the output for its value.
    pub fn field(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        json::write_string(name, self.out);
        self.out.push(b':');
        self.out
    }

    pub fn end(self) {
        self.out.push(b'}');
    }
}

pub fn text(written: Vec<u8>) -> String {
    String::from_utf8(written).unwrap_or_default()
}
