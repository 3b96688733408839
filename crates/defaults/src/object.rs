//! Accessors for fields of objects.

use serde_json::{Map, Value};

pub type ObjectMap = Map<String, Value>;

/// Whether a field is unset. Go writes some unset fields as null.
pub fn is_absent(object: &ObjectMap, name: &str) -> bool {
    matches!(object.get(name), None | Some(Value::Null))
}

pub fn text<'o>(object: &'o ObjectMap, name: &str) -> &'o str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a list is absent or has no items.
pub fn is_empty_list(object: &ObjectMap, name: &str) -> bool {
    object.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

pub fn number(object: &ObjectMap, name: &str) -> i64 {
    object.get(name).and_then(Value::as_i64).unwrap_or_default()
}

pub fn flag(object: &ObjectMap, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

pub fn child<'o>(object: &'o ObjectMap, name: &str) -> Option<&'o ObjectMap> {
    object.get(name).and_then(Value::as_object)
}

pub fn child_mut<'o>(object: &'o mut ObjectMap, name: &str) -> Option<&'o mut ObjectMap> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// Returns the object in a field, which is created if absent.
pub fn entry<'o>(object: &'o mut ObjectMap, name: &str) -> Option<&'o mut ObjectMap> {
    if is_absent(object, name) {
        object.insert(name.to_owned(), Value::Object(ObjectMap::new()));
    }
    child_mut(object, name)
}

pub fn items<'o>(object: &'o ObjectMap, name: &str) -> impl Iterator<Item = &'o ObjectMap> {
    object.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

pub fn items_mut<'o>(object: &'o mut ObjectMap, name: &str) -> impl Iterator<Item = &'o mut ObjectMap> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

pub fn set(object: &mut ObjectMap, name: &str, value: impl Into<Value>) {
    object.insert(name.to_owned(), value.into());
}

/// Sets a field that is a pointer in Go, if it is unset.
pub fn set_absent(object: &mut ObjectMap, name: &str, value: impl Into<Value>) {
    if is_absent(object, name) {
        set(object, name, value);
    }
}

/// Sets a string field that is not a pointer in Go, if it is unset or empty.
pub fn set_empty(object: &mut ObjectMap, name: &str, value: &str) {
    if text(object, name).is_empty() {
        set(object, name, value);
    }
}

/// Removes annotations, and the map of annotations if it becomes empty.
pub fn drop_annotations(holder: &mut ObjectMap, names: &[&str]) {
    let Some(metadata) = child_mut(holder, "metadata") else { return };
    let Some(annotations) = child_mut(metadata, "annotations") else { return };
    names.iter().for_each(|name| drop(annotations.remove(*name)));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

pub fn annotation<'o>(holder: &'o ObjectMap, name: &str) -> Option<&'o str> {
    child(child(holder, "metadata")?, "annotations")?.get(name)?.as_str()
}

pub fn annotate(holder: &mut ObjectMap, name: &str, text: String) {
    if let Some(metadata) = entry(holder, "metadata")
        && let Some(annotations) = entry(metadata, "annotations")
    {
        set(annotations, name, text);
    }
}
