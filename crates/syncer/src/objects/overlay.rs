//! Merges a desired object into an existing one without server-side apply, for objects that cannot be
//! applied: API servers accept lists in which two items have the same key, such as two environment variables
//! with one name, but apply rejects them.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Merges the desired state into `found`. Entries of other writers in maps and in lists with named items
/// stay. `owned` are the fields owned so far: those that are no longer desired are removed.
pub fn overlay(found: &mut Value, desired: &Value, owned: &Value) {
    match (found, desired) {
        (Value::Object(found), Value::Object(desired)) => lay_fields(found, desired, owned),
        (Value::Array(found), Value::Array(desired))
            if is_by_name(owned) && are_named(found) && are_named(desired) =>
        {
            lay_items(found, desired, owned);
        }
        (found, desired) => found.clone_from(desired),
    }
}

fn lay_fields(found: &mut Map<String, Value>, desired: &Map<String, Value>, owned: &Value) {
    let ours = owned.as_object().into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("f:"));
    for gone in ours.filter(|name| !desired.contains_key(*name)) {
        found.remove(gone);
    }
    for (name, value) in desired {
        match found.get_mut(name) {
            Some(inner) => overlay(inner, value, &owned[format!("f:{name}")]),
            None => drop(found.insert(name.clone(), value.clone())),
        }
    }
}

fn lay_items(found: &mut Vec<Value>, desired: &[Value], owned: &Value) {
    let mut others = std::mem::take(found);
    for item in desired {
        let position = others.iter().position(|other| other["name"] == item["name"]);
        let mut laid = position.map_or_else(|| item.clone(), |position| others.remove(position));
        overlay(&mut laid, item, &owned[key(item)]);
        found.push(laid);
    }
    found.extend(others.into_iter().filter(|other| owned.get(key(other)).is_none()));
}

/// Returns the key of an item in managed fields.
fn key(item: &Value) -> String {
    format!("k:{{\"name\":{}}}", item["name"])
}

/// Whether managed fields identify the items of a list by name.
fn is_by_name(owned: &Value) -> bool {
    owned.as_object().is_some_and(|owned| owned.keys().any(|key| key.starts_with("k:{\"name\":")))
}

fn are_named(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().all(|item| item["name"].as_str().is_some_and(|name| seen.insert(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn desired_fields_are_set_and_foreign_fields_stay() {
        for (mut found, desired, owned, expected) in [
            // An owned map entry that is no longer desired is removed.
            (
                json!({"a": 1, "b": 2, "c": 3}),
                json!({"a": 4, "d": 5}),
                json!({"f:a": {}, "f:b": {}}),
                json!({"a": 4, "c": 3, "d": 5}),
            ),
            // Items with the same name are ambiguous: the whole list is replaced.
            (
                json!({"env": [{"name": "A", "value": "1"}, {"name": "X"}]}),
                json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
                json!({"f:env": {"k:{\"name\":\"A\"}": {}}}),
                json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            ),
            // Foreign items stay in lists with named items, and owned items are updated.
            (
                json!({"containers": [
                    {"name": "side"}, {"name": "main", "image": "a", "tty": true}, {"name": "old"},
                ]}),
                json!({"containers": [{"name": "main", "image": "b"}, {"name": "new"}]}),
                json!({"f:containers": {
                    "k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:image": {}}, "k:{\"name\":\"old\"}": {},
                }}),
                json!({"containers": [
                    {"name": "main", "image": "b", "tty": true}, {"name": "new"}, {"name": "side"},
                ]}),
            ),
            // Lists with other keys, or without keys, are replaced.
            (
                json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}),
                json!({"ports": [{"name": "a", "port": 1}]}),
                json!({"f:ports": {"k:{\"port\":1}": {}}}),
                json!({"ports": [{"name": "a", "port": 1}]}),
            ),
            (json!([1, 2]), json!([3]), json!({}), json!([3])),
            (json!({"a": [1]}), json!({"a": {"b": 1}}), json!(null), json!({"a": {"b": 1}})),
        ] {
            overlay(&mut found, &desired, &owned);
            assert_eq!(found, expected);
        }
    }
}
