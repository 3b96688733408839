//! Finds the differences between two responses.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::script::Comparison;
use crate::side::ObservedResponse;

/// Maximum number of characters of a value in a reported difference.
const MAX_SHOWN: usize = 400;

/// Which marked values of Atoll correspond to which of upstream.
#[derive(Default)]
pub struct Comparator {
    upstream_marks: HashMap<String, String>,
    atoll_marks: HashMap<String, String>,
}

impl Comparator {
    /// Returns one line for each difference, with Atoll's value first.
    pub fn differences(
        &mut self,
        comparison: Comparison,
        atoll: &ObservedResponse,
        upstream: &ObservedResponse,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if atoll.status != upstream.status {
            lines.push(format!("status: {} instead of {}", atoll.status, upstream.status));
        }
        self.value("header", &atoll.headers, &upstream.headers, &mut lines);
        let (atoll_value, upstream_value) = match comparison {
            Comparison::Whole => (atoll.body.clone(), upstream.body.clone()),
            Comparison::Shape => (shape(&atoll.body), shape(&upstream.body)),
            Comparison::Common => common(&atoll.body, &upstream.body),
        };
        self.value("body", &atoll_value, &upstream_value, &mut lines);
        lines
    }

    fn value(&mut self, path: &str, atoll_value: &Value, upstream_value: &Value, lines: &mut Vec<String>) {
        let absent = json!("<absent>");
        match (atoll_value, upstream_value) {
            (Value::Object(one), Value::Object(other)) => {
                for (name, atoll) in one {
                    self.value(&format!("{path}.{name}"), atoll, other.get(name).unwrap_or(&absent), lines);
                }
                for (name, upstream) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                    self.value(&format!("{path}.{name}"), &absent, upstream, lines);
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (position, (atoll, upstream)) in one.iter().zip(other).enumerate() {
                    self.value(&format!("{path}[{position}]"), atoll, upstream, lines);
                }
            }
            (Value::String(one), Value::String(other)) if self.is_same(one, other) => {}
            _ if atoll_value == upstream_value => {}
            _ => {
                let (atoll_value, upstream_value) = (atoll_value.to_string(), upstream_value.to_string());
                let start = common_start(&atoll_value, &upstream_value);
                lines.push(format!(
                    "{path}: {} instead of {}",
                    shown(&atoll_value, start),
                    shown(&upstream_value, start)
                ));
            }
        }
    }

    /// Whether two texts are equal except for marked values that correspond to each other.
    fn is_same(&mut self, atoll_value: &str, upstream_value: &str) -> bool {
        let ((atoll_text, atoll_marks), (upstream_text, upstream_marks)) =
            (split(atoll_value), split(upstream_value));
        atoll_text == upstream_text
            && atoll_marks.iter().zip(upstream_marks).all(|(atoll, upstream)| {
                let corresponds =
                    self.upstream_marks.entry(atoll.to_string()).or_insert_with(|| upstream.to_string())
                        == upstream;
                corresponds
                    && self.atoll_marks.entry(upstream.to_string()).or_insert_with(|| atoll.to_string())
                        == atoll
            })
    }
}

/// Splits a text into its plain parts and its marked values.
fn split(text: &str) -> (Vec<&str>, Vec<&str>) {
    text.split('⟨').enumerate().fold((Vec::new(), Vec::new()), |(mut plain, mut marks), (position, part)| {
        match part.split_once('⟩') {
            Some((mark, rest)) if position > 0 => {
                marks.push(mark);
                plain.push(rest);
            }
            _ => plain.push(part),
        }
        (plain, marks)
    })
}

/// Returns the length of the common prefix, less some context.
fn common_start(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    same.saturating_sub(MAX_SHOWN / 4)
}

fn shown(text: &str, start: usize) -> String {
    let dots = |missing: bool| if missing { "…" } else { "" };
    let part: String = text.chars().skip(start).take(MAX_SHOWN).collect();
    format!("{}{part}{}", dots(start > 0), dots(text.chars().count() > start + MAX_SHOWN))
}

/// Replaces values by their types, and keeps the names of fields.
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

/// Removes list items that only one of the two values has.
fn common(atoll_value: &Value, upstream_value: &Value) -> (Value, Value) {
    match (atoll_value, upstream_value) {
        (Value::Object(one), Value::Object(other)) => {
            let (mut left, mut right) = (one.clone(), other.clone());
            for (name, atoll) in one {
                if let Some(upstream) = other.get(name) {
                    let (atoll, upstream) = common(atoll, upstream);
                    left.insert(name.clone(), atoll);
                    right.insert(name.clone(), upstream);
                }
            }
            (Value::Object(left), Value::Object(right))
        }
        (Value::Array(one), Value::Array(other)) => {
            let pair = |atoll: &Value| {
                other
                    .iter()
                    .find(|upstream| identity(atoll) == identity(upstream))
                    .map(|upstream| common(atoll, upstream))
            };
            let left = one.iter().filter_map(|atoll| pair(atoll).map(|(atoll, _)| atoll)).collect();
            let back = |upstream: &Value| {
                one.iter()
                    .find(|atoll| identity(atoll) == identity(upstream))
                    .map(|atoll| common(atoll, upstream))
            };
            let right =
                other.iter().filter_map(|upstream| back(upstream).map(|(_, upstream)| upstream)).collect();
            (Value::Array(left), Value::Array(right))
        }
        _ => (atoll_value.clone(), upstream_value.clone()),
    }
}

/// Returns the name that identifies an item of a discovery document.
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

    fn response(body: Value) -> ObservedResponse {
        ObservedResponse { status: 200, headers: json!({}), body }
    }

    fn differences(comparison: Comparison, atoll_value: Value, upstream_value: Value) -> Vec<String> {
        Comparator::default().differences(comparison, &response(atoll_value), &response(upstream_value))
    }

    #[test]
    fn differences_are_reported_with_their_path() {
        let atoll_value = json!({ "a": [1, { "b": "x" }], "only": 1 });
        let upstream_value = json!({ "a": [1, { "b": "y" }], "other": null });
        let expected = [
            "body.a[1].b: \"x\" instead of \"y\"",
            "body.only: 1 instead of \"<absent>\"",
            "body.other: \"<absent>\" instead of null",
        ];
        assert_eq!(differences(Comparison::Whole, atoll_value.clone(), upstream_value), expected);
        assert!(differences(Comparison::Whole, atoll_value.clone(), atoll_value).is_empty());
    }

    #[test]
    fn common_comparison_ignores_items_of_one_side() {
        let atoll_value = json!({ "resources": [{ "name": "a", "verbs": ["get"] }, { "name": "c" }] });
        let upstream_value =
            json!({ "resources": [{ "name": "a", "verbs": ["get", "list"] }, { "name": "b" }] });
        assert!(differences(Comparison::Common, atoll_value.clone(), upstream_value).is_empty());
        let upstream_value = json!({ "resources": [{ "name": "a", "verbs": ["get"], "namespaced": true }] });
        assert_eq!(differences(Comparison::Common, atoll_value, upstream_value).len(), 1);
    }

    #[test]
    fn shapes_are_compared_by_type() {
        assert!(differences(Comparison::Shape, json!({ "major": "1" }), json!({ "major": "2" })).is_empty());
        assert_eq!(differences(Comparison::Shape, json!({ "major": "1" }), json!({ "major": 1 })).len(), 1);
    }

    #[test]
    fn marked_values_must_correspond_consistently() {
        let mut comparator = Comparator::default();
        assert!(comparator.is_same("a ⟨uid 1⟩ b", "a ⟨uid x⟩ b"));
        assert!(comparator.is_same("⟨uid 1⟩", "⟨uid x⟩"));
        assert!(!comparator.is_same("⟨uid 1⟩", "⟨uid y⟩"));
        assert!(!comparator.is_same("⟨uid 2⟩", "⟨uid x⟩"));
        assert!(!comparator.is_same("a ⟨uid 1⟩ b", "a ⟨uid x⟩ c"));
        assert!(!comparator.is_same("⟨uid 1⟩", "uid"));
    }
}
