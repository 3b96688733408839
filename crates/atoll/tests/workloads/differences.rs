//! Where two clusters differ.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::objects::Objects;

/// In words, one line each.
pub fn differences(one: &Objects, other: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
        let (ours, theirs) = (one.get(key), other.get(key));
        let count = |list: Option<&Vec<Value>>| list.map_or(0, Vec::len);
        if count(ours) != count(theirs) {
            found.push(format!("{key}: {} and {} of them", count(ours), count(theirs)));
        } else if let (Some(ours), Some(theirs)) = (ours, theirs) {
            for (one, other) in ours.iter().zip(theirs) {
                walk(key, one, other, &mut found);
            }
        }
    }
    found
}

fn walk(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let missing = Value::Null;
                let (one, other) = (one.get(key).unwrap_or(&missing), other.get(key).unwrap_or(&missing));
                walk(&format!("{path} {key}"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                walk(&format!("{path} {index}"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} and {other}")),
    }
}
