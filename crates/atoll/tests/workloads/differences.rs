//! Differences between two clusters.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::objects::Objects;

/// Returns one line for each difference.
pub fn differences(one: &Objects, other: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
        let (first, second) = (one.get(key), other.get(key));
        let count = |list: Option<&Vec<Value>>| list.map_or(0, Vec::len);
        if count(first) != count(second) {
            found.push(format!("{key}: {} and {} of them", count(first), count(second)));
        } else if let (Some(first), Some(second)) = (first, second) {
            for (one, other) in first.iter().zip(second) {
                collect_differences(key, one, other, &mut found);
            }
        }
    }
    found
}

fn collect_differences(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let missing = Value::Null;
                let (one, other) = (one.get(key).unwrap_or(&missing), other.get(key).unwrap_or(&missing));
                collect_differences(&format!("{path} {key}"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                collect_differences(&format!("{path} {index}"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} and {other}")),
    }
}
