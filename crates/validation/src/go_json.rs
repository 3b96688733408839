//! JSON of upstream's internal types, as messages show it: every field, under its name in Go and in Go's
//! order.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/types_jsonschema.go
// upstream: pkg/apis/core/types.go

use atoll_meta::field::BadValue;
use atoll_meta::json;
use atoll_schema::{Field, Type, TypeId, TypeRef, Types};
use serde_json::Value;

/// Types whose internal fields are in a different order than the served ones.
const ORDERS: &[(&str, &[&str])] = &[
    (
        "apiextensions/v1.JSONSchemaProps",
        &[
            "id",
            "$schema",
            "$ref",
            "description",
            "type",
            "nullable",
            "format",
            "title",
            "default",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "uniqueItems",
            "multipleOf",
            "enum",
            "maxProperties",
            "minProperties",
            "required",
            "items",
            "allOf",
            "oneOf",
            "anyOf",
            "not",
            "properties",
            "additionalProperties",
            "patternProperties",
            "dependencies",
            "additionalItems",
            "definitions",
            "externalDocs",
            "example",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "x-kubernetes-validations",
        ],
    ),
    (
        "core/v1.PersistentVolumeSource",
        &[
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "hostPath",
            "glusterfs",
            "nfs",
            "rbd",
            "quobyte",
            "iscsi",
            "flexVolume",
            "cinder",
            "cephfs",
            "fc",
            "flocker",
            "azureFile",
            "vsphereVolume",
            "azureDisk",
            "photonPersistentDisk",
            "portworxVolume",
            "scaleIO",
            "local",
            "storageos",
            "csi",
        ],
    ),
];

/// Renders a value of the type with this key as one line of JSON.
pub(crate) fn value(key: &str, value: &Value) -> BadValue {
    BadValue::Rendered(text(key, value))
}

/// Renders a list of such values.
pub(crate) fn list(key: &str, list: &Value) -> BadValue {
    let Some(items) = list.as_array() else { return BadValue::Value(Value::Null) };
    let items: Vec<String> = items.iter().map(|item| text(key, item)).collect();
    BadValue::Rendered(format!("[{}]", items.join(",")))
}

/// Renders a value as a string.
pub(crate) fn text(key: &str, value: &Value) -> String {
    let types = Types::get();
    let mut out = String::new();
    match types.by_key(key) {
        Some(id) if !value.is_null() => structure(types, id, value, &mut out),
        _ => out.push_str(&json::to_string(value)),
    }
    out
}

fn structure(types: &Types, id: TypeId, value: &Value, out: &mut String) {
    out.push('{');
    let start = out.len();
    fields(types, &types[id], value, start, out);
    out.push('}');
}

fn fields(types: &Types, owner: &Type, value: &Value, start: usize, out: &mut String) {
    // Types of `meta` have no internal version, so their JSON is that of the API.
    let shared = owner.key.starts_with("meta/");
    let order = ORDERS.iter().find(|(key, _)| *key == owner.key).map(|(_, order)| *order);
    let mut sorted: Vec<&Field> = owner.fields.iter().collect();
    if let Some(order) = order {
        sorted.sort_by_key(|field| order.iter().position(|name| *name == field.name));
    }
    for field in sorted {
        if field.inline {
            if let TypeRef::Struct(id) = field.kind {
                fields(types, &types[id], value, start, out);
            }
            continue;
        }
        let part = value.get(field.name);
        if shared && part.is_none() && (field.omit_empty || field.omit_zero) {
            continue;
        }
        if out.len() > start {
            out.push(',');
        }
        let name = if shared { field.name } else { field.go_name };
        out.push_str(&BadValue::named_text(name).to_string());
        out.push(':');
        match part {
            Some(part) if !part.is_null() => one(types, field.kind, part, out),
            _ if field.pointer => out.push_str("null"),
            _ => zero(types, field.kind, out),
        }
    }
}

fn zero(types: &Types, kind: TypeRef, out: &mut String) {
    match kind {
        TypeRef::Struct(id) => structure(types, id, &Value::Null, out),
        _ => out.push_str(&json::to_string(&types.zero(kind))),
    }
}

fn one(types: &Types, kind: TypeRef, value: &Value, out: &mut String) {
    match (kind, value) {
        (TypeRef::Struct(id), _) => structure(types, id, value, out),
        (TypeRef::List(list), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                one(types, list.element, item, out);
            }
            out.push(']');
        }
        (TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray, _) => {
            schema_or(types, kind, value, out);
        }
        (TypeRef::Map(map), Value::Object(entries)) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&BadValue::named_text(key).to_string());
                out.push(':');
                one(types, map.value, item, out);
            }
            out.push('}');
        }
        _ => out.push_str(&json::to_string(value)),
    }
}

/// Renders a union of a schema and another type. The internal type has a field for each, of which one is
/// empty.
fn schema_or(types: &Types, kind: TypeRef, value: &Value, out: &mut String) {
    let schema = |value: &Value, out: &mut String| match types.by_key("apiextensions/v1.JSONSchemaProps") {
        Some(id) if value.is_object() => structure(types, id, value, out),
        _ => out.push_str("null"),
    };
    match kind {
        TypeRef::JsonSchemaOrArray => {
            out.push_str("{\"Schema\":");
            schema(value, out);
            out.push_str(",\"JSONSchemas\":");
            match value.as_array() {
                None => out.push_str("null"),
                Some(parts) => {
                    for (index, part) in parts.iter().enumerate() {
                        out.push(if index == 0 { '[' } else { ',' });
                        schema(part, out);
                    }
                    out.push_str(if parts.is_empty() { "[]" } else { "]" });
                }
            }
        }
        TypeRef::JsonSchemaOrBool => {
            out.push_str(if *value == Value::Bool(false) { "{\"Allows\":false" } else { "{\"Allows\":true" });
            out.push_str(",\"Schema\":");
            schema(value, out);
        }
        _ => {
            out.push_str("{\"Schema\":");
            schema(value, out);
            let names = if value.is_array() { json::to_string(value) } else { "null".to_owned() };
            out.push_str(",\"Property\":");
            out.push_str(&names);
        }
    }
    out.push('}');
}

/// Indents one line of JSON by one space per level.
pub(crate) fn lines(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let (mut quoted, mut escaped) = (false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if quoted {
            out.push(character);
            quoted = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            continue;
        }
        match character {
            '"' => {
                quoted = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => {
                out.push_str(": ");
            }
            _ => out.push(character),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth));
}
