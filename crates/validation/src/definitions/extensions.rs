//! Kubernetes' extensions of schemas: list and map types, and CEL rules.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go

use std::collections::HashSet;

use atoll_crd::field_path;

use super::schema::ValidationOptions;
use super::structural;
use crate::field_value::{Errors, FieldValue};

const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks that a schema has the type that an extension requires.
fn needs_type(errors: &mut Errors, schema: &FieldValue<'_>, expected: &str, extension: &str) -> bool {
    let kind = schema.get("type");
    let detail = format!("must be {expected} if {extension} is specified");
    if kind.is_empty() {
        errors.push(kind.required(detail));
    } else if kind.text() != expected {
        errors.push(kind.invalid(detail));
    }
    kind.text() == expected
}

pub(super) fn set_error(schema: &FieldValue<'_>) -> Option<&'static str> {
    let items = schema.get("items");
    let list = items.get("x-kubernetes-list-type").optional_text();
    let is_set = schema.text_of("x-kubernetes-list-type") == "set";
    match items.text_of("type") {
        "array" if is_set && list.is_some_and(|list| list != "atomic") => Some("x-kubernetes-list-type"),
        "object" if is_set && items.text_of("x-kubernetes-map-type") != "atomic" => {
            Some("x-kubernetes-map-type")
        }
        _ => None,
    }
}

pub(super) fn extensions(errors: &mut Errors, schema: &FieldValue<'_>, options: &ValidationOptions) {
    let preserve = schema.get("x-kubernetes-preserve-unknown-fields");
    if preserve.is_set() && !preserve.flag() {
        errors.push(preserve.invalid("must be true or undefined"));
    }
    let (map, list) = (schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type"));
    if map.is_set() {
        needs_type(errors, schema, "object", "x-kubernetes-map-type");
        if !matches!(map.text(), "atomic" | "granular") {
            errors.push(map.unsupported_text(&["atomic", "granular"]));
        }
    }
    let (items, keys) = (schema.get("items"), schema.get("x-kubernetes-list-map-keys"));
    if list.is_set() {
        let is_array = needs_type(errors, schema, "array", "x-kubernetes-list-type");
        if let Some(field) = set_error(schema).filter(|_| is_array && options.atomic_sets) {
            // Upstream shows the list type, whichever of the two is wrong.
            let rendered = items.get("x-kubernetes-list-type").value.clone();
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.push(items.get(field).invalid_as(rendered, detail));
        }
        if !matches!(list.text(), "atomic" | "set" | "map") {
            errors.push(list.unsupported_text(&["atomic", "set", "map"]));
        }
    }
    if !keys.is_empty() && list.text() != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if list.is_set() { list.invalid(detail) } else { list.required(detail) });
    }
    if list.text() == "map" {
        map_list(errors, &items, &keys);
    }
    if options.list_keys {
        keys_and_null(errors, schema);
    }
}

fn map_list(errors: &mut Errors, items: &FieldValue<'_>, keys: &FieldValue<'_>) {
    if keys.is_empty() {
        errors.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
    }
    if !items.is_set() {
        errors.push(items.required("must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    if items.value.is_array() {
        errors.push(items.invalid("must only have a single schema if x-kubernetes-list-type is map"));
        return;
    }
    let kind = items.get("type");
    if kind.text() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(kind.invalid_as(kind.text(), detail));
        return;
    }
    let mut seen = HashSet::new();
    for key in keys.texts() {
        let properties = items.get("properties");
        match properties.entry_of(key) {
            None => errors.push(keys.invalid("entries must all be names of item properties")),
            Some(property) => {
                let property = property.get("type");
                if matches!(property.text(), "array" | "object") {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(property.invalid_as(kind.text(), detail));
                }
            }
        }
        if !seen.insert(key) {
            errors.push(keys.invalid("must not contain duplicate entries"));
        }
    }
}

/// Checks that elements of sets and maps are not nullable, and that keys of map lists are required or
/// defaulted.
pub(super) fn keys_and_null(errors: &mut Errors, schema: &FieldValue<'_>) {
    let (items, list) = (schema.get("items"), schema.text_of("x-kubernetes-list-type"));
    if !items.value.is_object() || !matches!(list, "set" | "map") {
        return;
    }
    if items.get("nullable").flag() {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        errors.push(items.get("nullable").forbidden(detail));
    }
    if list != "map" {
        return;
    }
    let (properties, required) = (items.get("properties"), items.get("required"));
    for key in schema.get("x-kubernetes-list-map-keys").texts() {
        let Some(property) = properties.entry_of(key) else { continue };
        let prefix = "this property is in x-kubernetes-list-map-keys, so it";
        if !required.texts().any(|name| name == key) && !property.has("default") {
            let detail = format!("{prefix} must have a default or be a required property");
            errors.push(property.get("default").required(detail));
        }
        if property.get("nullable").flag() {
            errors.push(property.get("nullable").forbidden(format!("{prefix} cannot be nullable")));
        }
    }
}

pub(super) fn rules(errors: &mut Errors, schema: &FieldValue<'_>) {
    for rule in schema.get("x-kubernetes-validations").items() {
        let (text, message, computed, path) =
            (rule.get("rule"), rule.get("message"), rule.get("messageExpression"), rule.get("fieldPath"));
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let trimmed = message.text().trim();
        if text.text().trim().is_empty() {
            errors.push(text.required("rule is not specified"));
        } else if !message.is_empty() && trimmed.is_empty() {
            errors.push(message.invalid("must be non-empty if specified"));
        } else if breaks(trimmed) {
            errors.push(message.invalid("must not contain line breaks"));
        } else if breaks(text.text().trim()) && trimmed.is_empty() {
            errors.push(message.required("message must be specified if rule contains line breaks"));
        }
        if !computed.is_empty() && computed.text().trim().is_empty() {
            errors.push(computed.required("messageExpression must be non-empty if specified"));
        }
        let reason = rule.get("reason");
        if reason.is_set() && !REASONS.contains(&reason.text()) {
            errors.push(reason.unsupported(REASONS));
        }
        if !path.is_empty() && path.text().trim().is_empty() {
            errors.push(path.invalid("must be non-empty if specified"));
        }
        if breaks(path.text()) {
            errors.push(path.invalid("must not contain line breaks"));
        }
        // A `fieldPath` can only be resolved in a valid schema.
        if !path.is_empty()
            && structural::is_supported(schema)
            && field_path::find(schema.value, path.text(), true).is_err()
        {
            errors.push(path.invalid("must be a valid path"));
        }
    }
}
