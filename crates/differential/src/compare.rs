//! Where two answers differ.

use serde_json::{Map, Value, json};

use crate::script::Comparison;
use crate::side::Seen;

/// Longest value that is shown of a difference.
const SHOWN: usize = 600;

/// One line for each place that differs, Atoll's first.
pub fn differences(comparison: Comparison, atoll: &Seen, upstream: &Seen) -> Vec<String> {
    let mut lines = Vec::new();
    if atoll.status != upstream.status {
        lines.push(format!("status: {} instead of {}", atoll.status, upstream.status));
    }
    value("header", &atoll.headers, &upstream.headers, &mut lines);
    let (ours, theirs) = match comparison {
        Comparison::Whole => (atoll.body.clone(), upstream.body.clone()),
        Comparison::Shape => (shape(&atoll.body), shape(&upstream.body)),
        Comparison::Common => common(&atoll.body, &upstream.body),
    };
    value("body", &ours, &theirs, &mut lines);
    lines
}

fn value(path: &str, ours: &Value, theirs: &Value, lines: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, own) in one {
                value(&format!("{path}.{name}"), own, other.get(name).unwrap_or(&json!("<absent>")), lines);
            }
            for (name, their) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                value(&format!("{path}.{name}"), &json!("<absent>"), their, lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (position, (own, their)) in one.iter().zip(other).enumerate() {
                value(&format!("{path}[{position}]"), own, their, lines);
            }
        }
        _ if ours == theirs => {}
        _ => lines.push(format!("{path}: {} instead of {}", shown(ours), shown(theirs))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Names of fields and types of values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), shape(field))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => Value::Null,
    }
}

/// Both without the items of lists that only one of them has.
fn common(ours: &Value, theirs: &Value) -> (Value, Value) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let (mut left, mut right) = (one.clone(), other.clone());
            for (name, own) in one {
                if let Some(their) = other.get(name) {
                    let (own, their) = common(own, their);
                    left.insert(name.clone(), own);
                    right.insert(name.clone(), their);
                }
            }
            (Value::Object(left), Value::Object(right))
        }
        (Value::Array(one), Value::Array(other)) => {
            let pair = |own: &Value| {
                other.iter().find(|their| identity(own) == identity(their)).map(|their| common(own, their))
            };
            let left = one.iter().filter_map(|own| pair(own).map(|(own, _)| own)).collect();
            let back = |their: &Value| {
                one.iter().find(|own| identity(own) == identity(their)).map(|own| common(own, their))
            };
            let right = other.iter().filter_map(|their| back(their).map(|(_, their)| their)).collect();
            (Value::Array(left), Value::Array(right))
        }
        _ => (ours.clone(), theirs.clone()),
    }
}

/// What an item of a discovery document is known by.
fn identity(item: &Value) -> Value {
    let Some(fields) = item.as_object() else { return item.clone() };
    let name = fields.get("metadata").and_then(|metadata| metadata.get("name"));
    let names = ["name", "groupVersion", "version", "resource", "subresource"];
    let named = |fields: &Map<String, Value>| names.iter().find_map(|name| fields.get(*name)).cloned();
    name.cloned().or_else(|| named(fields)).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(body: Value) -> Seen {
        Seen { status: 200, headers: json!({}), body }
    }

    #[test]
    fn each_difference_is_told_with_its_place() {
        let ours = seen(json!({ "a": [1, { "b": "x" }], "only": 1 }));
        let theirs = seen(json!({ "a": [1, { "b": "y" }], "other": null }));
        let expected = [
            "body.a[1].b: \"x\" instead of \"y\"",
            "body.only: 1 instead of \"<absent>\"",
            "body.other: \"<absent>\" instead of null",
        ];
        assert_eq!(differences(Comparison::Whole, &ours, &theirs), expected);
        assert!(differences(Comparison::Whole, &ours, &ours).is_empty());
    }

    #[test]
    fn only_what_both_list_is_compared() {
        let ours = seen(json!({ "resources": [{ "name": "a", "verbs": ["get"] }, { "name": "c" }] }));
        let theirs =
            seen(json!({ "resources": [{ "name": "a", "verbs": ["get", "list"] }, { "name": "b" }] }));
        assert!(differences(Comparison::Common, &ours, &theirs).is_empty());
        let theirs = seen(json!({ "resources": [{ "name": "a", "verbs": ["get"], "namespaced": true }] }));
        assert_eq!(differences(Comparison::Common, &ours, &theirs).len(), 1);
    }

    #[test]
    fn shapes_are_compared_by_type() {
        let (ours, theirs) = (seen(json!({ "major": "1" })), seen(json!({ "major": "2" })));
        assert!(differences(Comparison::Shape, &ours, &theirs).is_empty());
        assert_eq!(differences(Comparison::Shape, &ours, &seen(json!({ "major": 1 }))).len(), 1);
    }
}
