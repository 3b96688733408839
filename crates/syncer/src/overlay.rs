//! What is wanted, laid over what is there. For objects that cannot be applied: lists in which two items have the same key, such as
//! two variables of one name, are served and mean something, but applying does not know how to tell the two apart. Pure.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Changes `found` into what is wanted of it. What others have put into maps and into lists of named items stays. `owned` are the
/// fields that are ours so far: what is no longer wanted of them goes.
pub fn overlay(found: &mut Value, wanted: &Value, owned: &Value) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => lay_fields(found, wanted, owned),
        (Value::Array(found), Value::Array(wanted))
            if is_by_name(owned) && are_named(found) && are_named(wanted) =>
        {
            lay_items(found, wanted, owned);
        }
        (found, wanted) => found.clone_from(wanted),
    }
}

fn lay_fields(found: &mut Map<String, Value>, wanted: &Map<String, Value>, owned: &Value) {
    let ours = owned.as_object().into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("f:"));
    for gone in ours.filter(|name| !wanted.contains_key(*name)) {
        found.remove(gone);
    }
    for (name, value) in wanted {
        match found.get_mut(name) {
            Some(inner) => overlay(inner, value, &owned[format!("f:{name}")]),
            None => drop(found.insert(name.clone(), value.clone())),
        }
    }
}

fn lay_items(found: &mut Vec<Value>, wanted: &[Value], owned: &Value) {
    let mut others = std::mem::take(found);
    for item in wanted {
        let position = others.iter().position(|other| other["name"] == item["name"]);
        let mut laid = position.map_or_else(|| item.clone(), |position| others.remove(position));
        overlay(&mut laid, item, &owned[key(item)]);
        found.push(laid);
    }
    found.extend(others.into_iter().filter(|other| owned.get(key(other)).is_none()));
}

/// How managers of fields call an item.
fn key(item: &Value) -> String {
    format!("k:{{\"name\":{}}}", item["name"])
}

/// Whether managers of fields tell the items of a list apart by their names.
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
    fn what_is_wanted_is_there_and_what_is_others_stays() {
        for (mut found, wanted, owned, expected) in [
            // Of maps, what is no longer wanted goes if it was ours.
            (
                json!({"a": 1, "b": 2, "c": 3}),
                json!({"a": 4, "d": 5}),
                json!({"f:a": {}, "f:b": {}}),
                json!({"a": 4, "c": 3, "d": 5}),
            ),
            // Items of the same name cannot be told apart: the list is as it is wanted.
            (
                json!({"env": [{"name": "A", "value": "1"}, {"name": "X"}]}),
                json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
                json!({"f:env": {"k:{\"name\":\"A\"}": {}}}),
                json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            ),
            // Items of others stay in lists of named ones, and ours are changed.
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
            // Lists that are told apart otherwise, or not at all, are as they are wanted.
            (
                json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}),
                json!({"ports": [{"name": "a", "port": 1}]}),
                json!({"f:ports": {"k:{\"port\":1}": {}}}),
                json!({"ports": [{"name": "a", "port": 1}]}),
            ),
            (json!([1, 2]), json!([3]), json!({}), json!([3])),
            (json!({"a": [1]}), json!({"a": {"b": 1}}), json!(null), json!({"a": {"b": 1}})),
        ] {
            overlay(&mut found, &wanted, &owned);
            assert_eq!(found, expected);
        }
    }
}
