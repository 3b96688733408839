//! Shapes of schemas, as far as the comparison needs them.

use std::sync::Arc;

use atoll_cel::{ListKind, Object, Shape, ShapeKind};
use serde_json::Value as Json;

/// Maximum size of a request.
const REQUEST: u64 = 3 * 1024 * 1024;

/// Returns the shape of a schema and the minimum length of its JSON.
pub fn shape(schema: &Json, name: &str) -> (Arc<Shape>, u64) {
    let nullable = schema["nullable"] == true;
    let bound = |key: &str| schema[key].as_u64();
    let (kind, max, min) = if schema["x-kubernetes-int-or-string"] == true {
        (ShapeKind::IntOrString, bound("maxLength").map_or(REQUEST - 2, |length| length * 4), 1)
    } else {
        match schema["type"].as_str() {
            Some("boolean") => (ShapeKind::Bool, 0, 4),
            Some("integer") => (ShapeKind::Int, 0, 1),
            Some("number") => (ShapeKind::Double, 0, 1),
            Some("string") => match schema["format"].as_str() {
                Some("byte") => (ShapeKind::Bytes, bound("maxLength").unwrap_or(REQUEST - 2), 2),
                Some("duration") => (ShapeKind::Duration, 32, 3),
                Some("date") => (ShapeKind::Date, 12, 12),
                Some("date-time") => (ShapeKind::DateTime, 32, 21),
                _ => {
                    let longest = schema["enum"].as_array().map(|values| {
                        values.iter().filter_map(|value| value.as_str().map(str::len)).max().unwrap_or(0)
                            as u64
                    });
                    let max = bound("maxLength").map(|length| length * 4).or(longest).unwrap_or(REQUEST - 2);
                    (ShapeKind::String, max, 2)
                }
            },
            Some("array") => {
                let (items, min) = shape(&schema["items"], &format!("{name}.@idx"));
                let kind = match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => ListKind::Set,
                    Some("map") => {
                        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                        ListKind::Map(keys.filter_map(|key| key.as_str().map(str::to_owned)).collect())
                    }
                    _ => ListKind::Atomic,
                };
                let max = bound("maxItems").unwrap_or((REQUEST - 2) / (min + 1));
                (ShapeKind::List(items, kind), max, 2)
            }
            Some("object") if schema["additionalProperties"].is_object() => {
                let (values, min) = shape(&schema["additionalProperties"], &format!("{name}.@elem"));
                let max = bound("maxProperties").unwrap_or((REQUEST - 2) / (min + 6));
                (ShapeKind::Map(values), max, 2)
            }
            Some("object") => {
                let required = |name: &str| {
                    schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name))
                };
                let mut smallest = 2;
                let mut fields = std::collections::BTreeMap::new();
                for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                    let (shape, min) = shape(schema, &format!("{name}.{field}"));
                    if required(field) && schema.get("default").is_none() {
                        smallest += field.len() as u64 + min + 4;
                    }
                    fields.insert(field.clone(), shape);
                }
                let has_properties = schema.get("properties").is_some();
                (ShapeKind::Object(Object::new(name, fields, has_properties)), 0, smallest)
            }
            _ => (ShapeKind::Unknown, 0, 0),
        }
    };
    (Arc::new(Shape { kind, nullable, max_elements: max }), min)
}
