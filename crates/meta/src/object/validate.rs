//! Validation of metadata.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go

use std::collections::BTreeSet;

use serde_json::Value;

use super::access::{
    OwnerReference, annotations, finalizers, generate_name, generation, labels, metadata, name, namespace,
    owner_references, resource_version, split_api_version, uid,
};
use crate::field::{BadValue, FieldError, FieldPath};
use crate::{json, names, quote, time};

/// Maximum total size of all annotations of an object.
pub const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Upstream's message about a change of an immutable field.
pub const FIELD_IS_IMMUTABLE: &str = "field is immutable";

pub const FIELD_MANAGER_LIMIT: usize = 128;
const SUBRESOURCE_LIMIT: usize = 256;

/// Validates the metadata of a new object, after its name was generated. `name_rule` is one of the rules of
/// [`names`], `path` the path of the metadata, usually `metadata`.
pub fn validate_object_meta(
    object: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Vec<String>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = generate_name(object);
    if !base.is_empty() {
        invalid_each(&mut errors, &path.child("generateName"), base, name_rule(base, true));
    }
    if name(object).is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        invalid_each(&mut errors, &path.child("name"), name(object), name_rule(name(object), false));
    }

    let namespace_path = path.child("namespace");
    match (namespaced, namespace(object)) {
        (true, "") => errors.push(FieldError::required(&namespace_path, "")),
        (true, namespace) => {
            invalid_each(&mut errors, &namespace_path, namespace, names::name_is_dns_label(namespace, false));
        }
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(&namespace_path, "not allowed on this type")),
    }
    if generation(object) < 0 {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation(object), "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(labels(object), &path.child("labels")));
    errors.extend(validate_annotations(annotations(object), &path.child("annotations")));
    errors.extend(validate_owner_references(object, &path.child("ownerReferences")));
    errors.extend(validate_finalizers(object, &path.child("finalizers")));
    errors.extend(validate_managed_fields(object, &path.child("managedFields")));
    errors
}

/// Validates an update of the metadata.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if super::is_being_deleted(old) {
        errors.extend(validate_no_new_finalizers(new, old, &path.child("finalizers")));
    }
    if resource_version(new).is_empty() {
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(&path, "", "must be specified for an update"));
    }
    if generation(new) < generation(old) {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation(new), "must not be decremented"));
    }
    if name(new) != name(old) {
        errors.push(FieldError::invalid(&path.child("name"), name(new), FIELD_IS_IMMUTABLE));
    }
    if namespace(new) != namespace(old) {
        errors.push(FieldError::invalid(&path.child("namespace"), namespace(new), FIELD_IS_IMMUTABLE));
    }
    if uid(new) != uid(old) {
        let value = BadValue::named_text(uid(new));
        errors.push(FieldError::invalid(&path.child("uid"), value, FIELD_IS_IMMUTABLE));
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let (new, old) = (instant(new, field), instant(old, field));
        if new != old {
            errors.push(FieldError::invalid(&path.child(field), as_json(&new), FIELD_IS_IMMUTABLE));
        }
    }
    let field = "deletionGracePeriodSeconds";
    let (new_grace, old_grace) = (metadata_field(new, field), metadata_field(old, field));
    errors.extend(validate_immutable(new_grace, old_grace, &path.child(field)));

    errors.extend(validate_labels(labels(new), &path.child("labels")));
    errors.extend(validate_annotations(annotations(new), &path.child("annotations")));
    errors.extend(validate_owner_references(new, &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(new, &path.child("managedFields")));
    errors
}

fn metadata_field<'a>(object: &'a Value, field: &str) -> &'a Value {
    metadata(object).and_then(|metadata| metadata.get(field)).unwrap_or(&Value::Null)
}

/// Returns a timestamp of the metadata in upstream's format, so that different notations of one instant are
/// equal.
fn instant(object: &Value, field: &str) -> Value {
    match metadata_field(object, field).as_str().map(|text| (text, time::parse(text))) {
        None => Value::Null,
        Some((_, Ok(instant))) if instant.is_zero() => Value::Null,
        Some((_, Ok(instant))) => Value::from(instant.to_time()),
        Some((text, Err(_))) => Value::from(text),
    }
}

fn as_json(value: &Value) -> BadValue {
    BadValue::Rendered(json::to_string(value))
}

fn invalid_each(errors: &mut Vec<FieldError>, path: &FieldPath, value: &str, details: Vec<String>) {
    errors.extend(details.into_iter().map(|detail| FieldError::invalid(path, value, detail)));
}

/// Checks that a field is unchanged. Empty lists and maps count as absent.
pub fn validate_immutable(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if new == old || (is_empty(new) && is_empty(old)) {
        return None;
    }
    Some(FieldError::invalid(path, new.clone(), FIELD_IS_IMMUTABLE))
}

/// Checks keys and values of labels.
pub fn validate_labels<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        invalid_each(&mut errors, path, key, names::qualified_name(key));
        invalid_each(&mut errors, path, value, names::label_value(value));
    }
    errors
}

/// Checks keys and total size of annotations.
pub fn validate_annotations<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        // Upper case is allowed here even in the domain.
        invalid_each(&mut errors, path, key, names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
    errors
}

/// Maximum number of owner references in errors, besides those of the first error. A response shows far fewer.
const SHOWN_OWNERS_LIMIT: usize = 10_000;

/// Validates owner references: each complete, at most one of them the controller.
pub fn validate_owner_references(object: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let mut shown = 0;
    for reference in owner_references(object) {
        let (group, version) = split_api_version(reference.api_version).unwrap_or_default();
        if version.is_empty() {
            let path = path.child("apiVersion");
            errors.push(FieldError::invalid(&path, reference.api_version, "version must not be empty"));
        }
        for (field, text) in [("kind", reference.kind), ("name", reference.name)] {
            if text.is_empty() {
                errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if reference.uid.is_empty() {
            errors.push(FieldError::invalid(
                &path.child("uid"),
                BadValue::named_text(""),
                "must not be empty",
            ));
        }
        if (group, version, reference.kind) == ("", "v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, BadValue::Rendered(owner_as_json(&reference)), detail));
        }
        if reference.controller == Some(true) {
            let current = format!("{}/{}", reference.kind, reference.name);
            match &controller {
                None => controller = Some(current),
                // Each error shows all owners.
                Some(_) if shown >= SHOWN_OWNERS_LIMIT => {}
                Some(first) => {
                    let all: Vec<String> =
                        owner_references(object).map(|owner| owner_as_json(&owner)).collect();
                    shown += all.len();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                    );
                    let value = BadValue::Rendered(format!("[{}]", all.join(",")));
                    errors.push(FieldError::invalid(path, value, detail));
                }
            }
        }
    }
    errors
}

/// Formats an owner reference with its fields in upstream's order.
fn owner_as_json(owner: &OwnerReference<'_>) -> String {
    let mut out = Vec::new();
    let texts =
        [("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)];
    for (index, (field, text)) in texts.into_iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        json::write_string(field, &mut out);
        out.push(b':');
        json::write_string(text, &mut out);
    }
    for (field, flag) in
        [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)]
    {
        if let Some(flag) = flag {
            out.extend_from_slice(format!(",\"{field}\":{flag}").as_bytes());
        }
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// Validates the names of finalizers, and that not both finalizers of the garbage collector are set.
pub fn validate_finalizers(object: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in finalizers(object) {
        invalid_each(&mut errors, path, finalizer, names::qualified_name(finalizer));
    }
    let has = |name: &str| finalizers(object).any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let value: Vec<&str> = finalizers(object).collect();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, value, detail));
    }
    errors
}

/// Checks that an object that is being deleted gets no new finalizers.
pub fn validate_no_new_finalizers(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    let old: BTreeSet<&str> = finalizers(old).collect();
    let extra: BTreeSet<&str> = finalizers(new).filter(|finalizer| !old.contains(finalizer)).collect();
    if extra.is_empty() {
        return None;
    }
    let list: Vec<String> = extra.into_iter().map(quote::quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        list.join(", ")
    );
    Some(FieldError::forbidden(path, detail))
}

/// Validates the form of `managedFields`.
pub fn validate_managed_fields(object: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = metadata_field(object, "managedFields").as_array();
    for (index, entry) in list.into_iter().flatten().enumerate() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = path.index(index);
        if !matches!(text("operation"), "Apply" | "Update") {
            let value = BadValue::named_text(text("operation"));
            errors.push(FieldError::invalid(&path.child("operation"), value, "must be `Apply` or `Update`"));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(FieldError::invalid(
                &path.child("fieldsType"),
                text("fieldsType"),
                "must be `FieldsV1`",
            ));
        }
        errors.extend(validate_field_manager(text("manager"), &path.child("manager")));
        if text("subresource").len() > SUBRESOURCE_LIMIT {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_LIMIT));
        }
    }
    errors
}

/// Validates the name of a field manager.
pub fn validate_field_manager(manager: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut shown = manager.len();
    if manager.len() > FIELD_MANAGER_LIMIT {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_LIMIT));
        // Each error shows the whole name.
        shown = 1;
    }
    let invalid = manager.char_indices().filter(|(_, character)| !quote::is_print(*character));
    for (position, character) in invalid.take(shown) {
        let number = u32::from(character);
        let detail = format!("invalid character U+{number:04X} (at position {position})");
        errors.push(FieldError::invalid(path, manager, detail));
    }
    errors
}

/// Validates a `LabelSelector` of an object.
pub fn validate_label_selector(selector: &Value, path: &FieldPath) -> Vec<FieldError> {
    let map = selector.get("matchLabels").and_then(Value::as_object);
    let labels =
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    let mut errors = validate_labels(labels, &path.child("matchLabels"));
    let list = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in list.into_iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values_path = path.child("values");
        let values = expression.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        match text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values_path, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values_path, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let value = BadValue::named_text(other);
                errors.push(FieldError::invalid(
                    &path.child("operator"),
                    value,
                    "not a valid selector operator",
                ));
            }
        }
        invalid_each(&mut errors, &path.child("key"), text("key"), names::qualified_name(text("key")));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            invalid_each(&mut errors, &values_path.index(index), value, names::label_value(value));
        }
    }
    errors
}

#[cfg(test)]
mod tests;
