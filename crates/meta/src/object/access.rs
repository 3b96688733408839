//! Getters and setters.

use serde_json::{Map, Value};

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn metadata_text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn metadata_map<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let map = metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn metadata_entry<'a>(object: &'a Value, field: &str, key: &str) -> Option<&'a str> {
    metadata(object)?.get(field)?.get(key)?.as_str()
}

/// The metadata.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The metadata, made if it is not there.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    as_map(as_map(object).entry("metadata").or_insert(Value::Null))
}

/// The value as an object, which it becomes if it is not.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

/// The kind.
pub fn kind(object: &Value) -> &str {
    text(object, "kind")
}

/// Group and version, as `apps/v1` or `v1`.
pub fn api_version(object: &Value) -> &str {
    text(object, "apiVersion")
}

/// Group and version of an `apiVersion`; the core group is empty. Nothing if there is more than one slash.
pub fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((_, version)) if version.contains('/') => None,
        Some((group, version)) => Some((group, version)),
    }
}

/// The name.
pub fn name(object: &Value) -> &str {
    metadata_text(object, "name")
}

/// What a generated name begins with.
pub fn generate_name(object: &Value) -> &str {
    metadata_text(object, "generateName")
}

/// The namespace, empty for objects without.
pub fn namespace(object: &Value) -> &str {
    metadata_text(object, "namespace")
}

/// The uid.
pub fn uid(object: &Value) -> &str {
    metadata_text(object, "uid")
}

/// The token with which the rest of a list is to be had, if there is more.
pub fn continuation(list: &Value) -> Option<&str> {
    list["metadata"]["continue"].as_str().filter(|token| !token.is_empty())
}

/// The revision that the object claims to have.
pub fn resource_version(object: &Value) -> &str {
    metadata_text(object, "resourceVersion")
}

/// How often the specification has changed.
pub fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|metadata| metadata.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// When the object was made.
pub fn creation_timestamp(object: &Value) -> Option<&str> {
    metadata(object)?.get("creationTimestamp")?.as_str()
}

/// When the object was asked to go.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    metadata(object)?.get("deletionTimestamp")?.as_str()
}

/// Whether the object was asked to go.
pub fn is_being_deleted(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// How long the object may take to go.
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    metadata(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

/// Who must agree before the object goes.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = metadata(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().map(|finalizer| finalizer.as_str().unwrap_or_default())
}

/// The labels.
pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    metadata_map(object, "labels")
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata_entry(object, "labels", key)
}

/// The annotations.
pub fn annotations(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    metadata_map(object, "annotations")
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata_entry(object, "annotations", key)
}

/// Another object that this one belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's group and version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether the owner manages this object.
    pub controller: Option<bool>,
    /// Whether the owner, deleted in the foreground, waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// The objects that this one belongs to.
pub fn owner_references(object: &Value) -> impl Iterator<Item = OwnerReference<'_>> {
    let list =
        metadata(object).and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_array);
    list.into_iter().flatten().map(|reference| OwnerReference {
        api_version: text(reference, "apiVersion"),
        kind: text(reference, "kind"),
        name: text(reference, "name"),
        uid: text(reference, "uid"),
        controller: reference.get("controller").and_then(Value::as_bool),
        block_owner_deletion: reference.get("blockOwnerDeletion").and_then(Value::as_bool),
    })
}

/// The owner that manages this object.
pub fn controller_of(object: &Value) -> Option<OwnerReference<'_>> {
    owner_references(object).find(|reference| reference.controller == Some(true))
}

/// Sets a text of the metadata; an empty one is removed.
fn set_metadata_text(object: &mut Value, field: &str, text: &str) {
    if text.is_empty() {
        remove_metadata(object, field);
    } else {
        metadata_mut(object).insert(field.to_owned(), Value::from(text));
    }
}

/// Removes a field of the metadata.
pub fn remove_metadata(object: &mut Value, field: &str) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(field)
}

/// Sets kind and apiVersion.
pub fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    let map = as_map(object);
    map.insert("apiVersion".to_owned(), Value::from(api_version));
    map.insert("kind".to_owned(), Value::from(kind));
}

/// Sets the name.
pub fn set_name(object: &mut Value, name: &str) {
    set_metadata_text(object, "name", name);
}

/// Sets the namespace.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    set_metadata_text(object, "namespace", namespace);
}

/// Sets the uid.
pub fn set_uid(object: &mut Value, uid: &str) {
    set_metadata_text(object, "uid", uid);
}

/// Sets the revision.
pub fn set_resource_version(object: &mut Value, resource_version: &str) {
    set_metadata_text(object, "resourceVersion", resource_version);
}

/// Sets the generation; 0 removes it, since upstream leaves it out.
pub fn set_generation(object: &mut Value, generation: i64) {
    if generation == 0 {
        remove_metadata(object, "generation");
    } else {
        metadata_mut(object).insert("generation".to_owned(), Value::from(generation));
    }
}

/// Sets when the object was made.
pub fn set_creation_timestamp(object: &mut Value, time: &str) {
    set_metadata_text(object, "creationTimestamp", time);
}

/// Sets when the object was asked to go.
pub fn set_deletion_timestamp(object: &mut Value, time: &str) {
    set_metadata_text(object, "deletionTimestamp", time);
}

/// Sets how long the object may take to go.
pub fn set_deletion_grace_period_seconds(object: &mut Value, seconds: Option<i64>) {
    match seconds {
        None => {
            remove_metadata(object, "deletionGracePeriodSeconds");
        }
        Some(seconds) => {
            metadata_mut(object).insert("deletionGracePeriodSeconds".to_owned(), Value::from(seconds));
        }
    }
}

/// Sets who must agree before the object goes; an empty list is removed.
pub fn set_finalizers<S: AsRef<str>>(object: &mut Value, finalizers: &[S]) {
    if finalizers.is_empty() {
        remove_metadata(object, "finalizers");
        return;
    }
    let list = finalizers.iter().map(|finalizer| Value::from(finalizer.as_ref())).collect();
    metadata_mut(object).insert("finalizers".to_owned(), Value::Array(list));
}

/// Sets a label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "labels", key, value);
}

/// Removes a label, and the map with the last one.
pub fn remove_label(object: &mut Value, key: &str) {
    remove_entry(object, "labels", key);
}

/// Sets an annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "annotations", key, value);
}

/// Removes an annotation, and the map with the last one.
pub fn remove_annotation(object: &mut Value, key: &str) {
    remove_entry(object, "annotations", key);
}

fn set_entry(object: &mut Value, field: &str, key: &str, value: &str) {
    let entries = metadata_mut(object).entry(field).or_insert(Value::Null);
    as_map(entries).insert(key.to_owned(), Value::from(value));
}

fn remove_entry(object: &mut Value, field: &str, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) else { return };
    entries.remove(key);
    if entries.is_empty() {
        metadata.remove(field);
    }
}

#[cfg(test)]
mod tests;
