//! Where two answers differ.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::script::Comparison;
use crate::side::Seen;

/// Longest value that is shown of a difference.
const SHOWN: usize = 400;

/// Which of Atoll's marked values stand for which of upstream's.
#[derive(Default)]
pub struct Pairs {
    theirs: HashMap<String, String>,
    ours: HashMap<String, String>,
}

impl Pairs {
    /// One line for each place that differs, Atoll's value first.
    pub fn differences(&mut self, comparison: Comparison, atoll: &Seen, upstream: &Seen) -> Vec<String> {
        let mut lines = Vec::new();
        if atoll.status != upstream.status {
            lines.push(format!("status: {} instead of {}", atoll.status, upstream.status));
        }
        self.value("header", &atoll.headers, &upstream.headers, &mut lines);
        let (ours, theirs) = match comparison {
            Comparison::Whole => (atoll.body.clone(), upstream.body.clone()),
            Comparison::Shape => (shape(&atoll.body), shape(&upstream.body)),
            Comparison::Common => common(&atoll.body, &upstream.body),
        };
        self.value("body", &ours, &theirs, &mut lines);
        lines
    }

    fn value(&mut self, path: &str, ours: &Value, theirs: &Value, lines: &mut Vec<String>) {
        let absent = json!("<absent>");
        match (ours, theirs) {
            (Value::Object(one), Value::Object(other)) => {
                for (name, own) in one {
                    self.value(&format!("{path}.{name}"), own, other.get(name).unwrap_or(&absent), lines);
                }
                for (name, their) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                    self.value(&format!("{path}.{name}"), &absent, their, lines);
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (position, (own, their)) in one.iter().zip(other).enumerate() {
                    self.value(&format!("{path}[{position}]"), own, their, lines);
                }
            }
            (Value::String(one), Value::String(other)) if self.is_same(one, other) => {}
            _ if ours == theirs => {}
            _ => {
                let (ours, theirs) = (ours.to_string(), theirs.to_string());
                let start = common_start(&ours, &theirs);
                lines.push(format!("{path}: {} instead of {}", shown(&ours, start), shown(&theirs, start)));
            }
        }
    }

    /// Whether two texts are the same but for marked values that stand for each other.
    fn is_same(&mut self, ours: &str, theirs: &str) -> bool {
        let ((own_text, own_marks), (their_text, their_marks)) = (split(ours), split(theirs));
        own_text == their_text
            && own_marks.iter().zip(their_marks).all(|(own, their)| {
                let linked = self.theirs.entry(own.to_string()).or_insert_with(|| their.to_string()) == their;
                linked && self.ours.entry(their.to_string()).or_insert_with(|| own.to_string()) == own
            })
    }
}

/// A text without its marked values, and those.
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

/// How many characters are the same, less a few to see where one is.
fn common_start(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    same.saturating_sub(SHOWN / 4)
}

fn shown(text: &str, start: usize) -> String {
    let dots = |missing: bool| if missing { "…" } else { "" };
    let part: String = text.chars().skip(start).take(SHOWN).collect();
    format!("{}{part}{}", dots(start > 0), dots(text.chars().count() > start + SHOWN))
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

    fn differences(comparison: Comparison, ours: Value, theirs: Value) -> Vec<String> {
        Pairs::default().differences(comparison, &seen(ours), &seen(theirs))
    }

    #[test]
    fn each_difference_is_told_with_its_place() {
        let ours = json!({ "a": [1, { "b": "x" }], "only": 1 });
        let theirs = json!({ "a": [1, { "b": "y" }], "other": null });
        let expected = [
            "body.a[1].b: \"x\" instead of \"y\"",
            "body.only: 1 instead of \"<absent>\"",
            "body.other: \"<absent>\" instead of null",
        ];
        assert_eq!(differences(Comparison::Whole, ours.clone(), theirs), expected);
        assert!(differences(Comparison::Whole, ours.clone(), ours).is_empty());
    }

    #[test]
    fn only_what_both_list_is_compared() {
        let ours = json!({ "resources": [{ "name": "a", "verbs": ["get"] }, { "name": "c" }] });
        let theirs = json!({ "resources": [{ "name": "a", "verbs": ["get", "list"] }, { "name": "b" }] });
        assert!(differences(Comparison::Common, ours.clone(), theirs).is_empty());
        let theirs = json!({ "resources": [{ "name": "a", "verbs": ["get"], "namespaced": true }] });
        assert_eq!(differences(Comparison::Common, ours, theirs).len(), 1);
    }

    #[test]
    fn shapes_are_compared_by_type() {
        assert!(differences(Comparison::Shape, json!({ "major": "1" }), json!({ "major": "2" })).is_empty());
        assert_eq!(differences(Comparison::Shape, json!({ "major": "1" }), json!({ "major": 1 })).len(), 1);
    }

    #[test]
    fn marked_values_stand_for_each_other() {
        let mut pairs = Pairs::default();
        assert!(pairs.is_same("a ⟨uid 1⟩ b", "a ⟨uid x⟩ b"));
        assert!(pairs.is_same("⟨uid 1⟩", "⟨uid x⟩"));
        assert!(!pairs.is_same("⟨uid 1⟩", "⟨uid y⟩"));
        assert!(!pairs.is_same("⟨uid 2⟩", "⟨uid x⟩"));
        assert!(!pairs.is_same("a ⟨uid 1⟩ b", "a ⟨uid x⟩ c"));
        assert!(!pairs.is_same("⟨uid 1⟩", "uid"));
    }
}
