//! Access to fields of an object by path and type.

use serde_json::{Map, Value};

/// Returns the value at a path such as `spec.template.spec`.
pub fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Returns the text at a path; empty if there is none.
pub fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the text at a path; `otherwise` if it is absent or empty.
pub fn text_or<'v>(object: &'v Value, path: &str, otherwise: &'v str) -> &'v str {
    Some(text(object, path)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

pub fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
}

pub fn flag(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or_default()
}

pub fn list<'v>(object: &'v Value, path: &str) -> &'v [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn map<'v>(object: &'v Value, path: &str) -> impl Iterator<Item = (&'v str, &'v Value)> + use<'v> {
    let map: Option<&Map<String, Value>> = at(object, path).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Returns the number of elements of a list or map.
pub fn length(object: &Value, path: &str) -> usize {
    match at(object, path) {
        Some(Value::Array(elements)) => elements.len(),
        Some(Value::Object(members)) => members.len(),
        _ => 0,
    }
}

pub fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    atoll_meta::object::annotation(object, name)
}

pub fn is_deleting(object: &Value) -> bool {
    at(object, "metadata.deletionTimestamp").is_some()
}

/// Returns the condition of a type.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    list(object, "status.conditions").iter().find(|condition| text(condition, "type") == kind)
}

pub fn is_condition_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "status") == "True")
}
