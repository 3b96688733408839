//! Getters and setters.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go

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

/// Returns the metadata.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// Returns the metadata, which is created if absent.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    as_map(as_map(object).entry("metadata").or_insert(Value::Null))
}

/// Returns the value as an object, which replaces other values.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("replaced by an object above"),
    }
}

/// Returns the kind.
pub fn kind(object: &Value) -> &str {
    text(object, "kind")
}

/// Returns group and version, as `apps/v1` or `v1`.
pub fn api_version(object: &Value) -> &str {
    text(object, "apiVersion")
}

/// Splits an `apiVersion` into group and version; the core group is empty. `None` if there is more than one
/// slash.
pub fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((_, version)) if version.contains('/') => None,
        Some((group, version)) => Some((group, version)),
    }
}

/// Returns the name.
pub fn name(object: &Value) -> &str {
    metadata_text(object, "name")
}

/// Returns the prefix of a generated name.
pub fn generate_name(object: &Value) -> &str {
    metadata_text(object, "generateName")
}

/// Returns the namespace, which is empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    metadata_text(object, "namespace")
}

/// Returns the UID.
pub fn uid(object: &Value) -> &str {
    metadata_text(object, "uid")
}

/// Returns the continue token of a list, if there are more items.
pub fn continuation(list: &Value) -> Option<&str> {
    list["metadata"]["continue"].as_str().filter(|token| !token.is_empty())
}

/// Returns the resource version.
pub fn resource_version(object: &Value) -> &str {
    metadata_text(object, "resourceVersion")
}

/// Returns the generation.
pub fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|metadata| metadata.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Returns the creation timestamp.
pub fn creation_timestamp(object: &Value) -> Option<&str> {
    metadata(object)?.get("creationTimestamp")?.as_str()
}

/// Returns the deletion timestamp.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    metadata(object)?.get("deletionTimestamp")?.as_str()
}

/// Whether the object is being deleted.
pub fn is_being_deleted(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// Returns the deletion grace period.
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    metadata(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = metadata(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().map(|finalizer| finalizer.as_str().unwrap_or_default())
}

/// Returns the labels.
pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    metadata_map(object, "labels")
}

/// Returns the labels as a map, which selectors match.
pub fn label_map(object: &Value) -> Option<&Map<String, Value>> {
    metadata(object)?.get("labels")?.as_object()
}

/// Returns the value of a label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata_entry(object, "labels", key)
}

/// Returns the annotations.
pub fn annotations(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    metadata_map(object, "annotations")
}

/// Returns the value of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata_entry(object, "annotations", key)
}

/// A reference to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's group and version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's UID.
    pub uid: &'a str,
    /// Whether the owner is the controller.
    pub controller: Option<bool>,
    /// Whether the owner, when deleted in the foreground, waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// Returns the owner references.
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

/// Returns the controller reference.
pub fn controller_of(object: &Value) -> Option<OwnerReference<'_>> {
    owner_references(object).find(|reference| reference.controller == Some(true))
}

/// Sets a string of the metadata; an empty one is removed.
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

/// Sets the resource version.
pub fn set_resource_version(object: &mut Value, resource_version: &str) {
    set_metadata_text(object, "resourceVersion", resource_version);
}

/// Sets the generation; 0 removes it, as upstream omits it.
pub fn set_generation(object: &mut Value, generation: i64) {
    if generation == 0 {
        remove_metadata(object, "generation");
    } else {
        metadata_mut(object).insert("generation".to_owned(), Value::from(generation));
    }
}

/// Sets the creation timestamp.
pub fn set_creation_timestamp(object: &mut Value, time: &str) {
    set_metadata_text(object, "creationTimestamp", time);
}

/// Sets the deletion timestamp.
pub fn set_deletion_timestamp(object: &mut Value, time: &str) {
    set_metadata_text(object, "deletionTimestamp", time);
}

/// Sets the deletion grace period.
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

/// Sets the finalizers; an empty list is removed.
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

/// Removes a label, and the map if it becomes empty.
pub fn remove_label(object: &mut Value, key: &str) {
    remove_entry(object, "labels", key);
}

/// Sets an annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "annotations", key, value);
}

/// Removes an annotation, and the map if it becomes empty.
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
