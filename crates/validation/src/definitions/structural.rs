//! Structural schemas: each field has one type, specified in one place, and logical junctors do not add to
//! it.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/complete.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go

use atoll_crd::Pattern;
use atoll_meta::FieldError;
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports all violations of structure, in upstream's order.
pub(super) fn check(errors: &mut Errors, schema: &FieldValue<'_>) {
    if !is_supported(schema) {
        // Unsupported fields are reported elsewhere.
        return;
    }
    let mut found = Errors::new();
    invariants(&mut found, schema, Level::Root);
    complete(&mut found, schema, schema);
    found.sort_by_cached_key(ToString::to_string);
    errors.append(&mut found);
}

/// Whether upstream can convert the schema to a structural one.
pub(super) fn is_supported(schema: &FieldValue<'_>) -> bool {
    let unsupported =
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    if !schema.value.is_object() {
        return true;
    }
    if schema.keys().any(|field| unsupported.contains(&field))
        || schema.get("x-kubernetes-preserve-unknown-fields").value == &Value::Bool(false)
        || !schema.get("items").list().is_empty()
    {
        return false;
    }
    ["items", "not", "additionalProperties"].iter().all(|field| is_supported(&schema.get(field)))
        && ["allOf", "anyOf", "oneOf"]
            .iter()
            .all(|field| schema.get(field).items().all(|schema| is_supported(&schema)))
        && schema.get("properties").values().all(|schema| is_supported(&schema))
}

fn flag(schema: &FieldValue<'_>, field: &'static str) -> bool {
    schema.get(field).flag()
}

fn invariants(errors: &mut Errors, schema: &FieldValue<'_>, level: Level) {
    let (kind, items) = (schema.get("type"), schema.get("items"));
    let (properties, additional) = (schema.get("properties"), schema.get("additionalProperties"));
    if kind.text() == "array" && !items.is_set() {
        errors.push(items.required("must be specified"));
    }
    if items.is_set() {
        invariants(errors, &items, Level::Item);
    }
    for (_, property) in properties.entries() {
        invariants(errors, &property, Level::Field);
    }
    if additional.is_set() {
        if level == Level::Root {
            errors.push(additional.forbidden("must not be used at the root"));
        }
        if additional.value.is_object() {
            invariants(errors, &additional, Level::Field);
        }
    }
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let embeds = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    for field in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if int_or_string && flag(schema, field) {
            errors.push(schema.get(field).invalid("must be false if x-kubernetes-int-or-string is true"));
        }
    }
    let first = schema.get("allOf").items().next();
    let skip_first = first.is_some_and(|first| is_int_or_string(&first.get("anyOf")));
    conditions(errors, schema, is_int_or_string(&schema.get("anyOf")), skip_first);
    if embeds && kind.text() != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() { kind.required(detail) } else { kind.invalid(detail) });
    } else if kind.is_empty() && !int_or_string && !preserves {
        errors.push(kind.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }));
    }
    if embeds && additional.is_set() {
        errors.push(additional.forbidden("must not be used if x-kubernetes-embedded-resource is set"));
    }
    if level == Level::Root && !matches!(kind.text(), "" | "object") {
        errors.push(kind.invalid("must be object at the root"));
    }
    metadata(errors, &properties, level, embeds);
    if embeds && !preserves && properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(properties.required(detail));
    }
}

/// Checks `metadata`, whose schema may only restrict name and generateName.
fn metadata(errors: &mut Errors, properties: &FieldValue<'_>, level: Level, embeds: bool) {
    let is_object = level == Level::Root || embeds;
    for name in ["kind", "apiVersion"] {
        if let Some(kind) = properties.entry_of(name).map(|property| property.get("type"))
            && is_object
            && kind.text() != "string"
        {
            errors.push(kind.invalid_as(kind.text(), "must be string"));
        }
    }
    let Some(metadata) = properties.entry_of("metadata") else { return };
    let kind = metadata.get("type");
    if is_object && kind.text() != "object" {
        errors.push(kind.invalid_as(kind.text(), "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let mut names = metadata.get("properties").keys();
    let plain = names.all(|name| matches!(name, "name" | "generateName"));
    let others = metadata.keys().any(|field| !matches!(field, "type" | "default" | "properties"));
    if !plain || others {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(metadata.forbidden(detail));
    }
}

fn is_int_or_string(any_of: &FieldValue<'_>) -> bool {
    let types: Vec<&str> =
        any_of.items().map(|part| if part.len() == 1 { part.text_of("type") } else { "" }).collect();
    types == ["integer", "string"]
}

/// Checks the logical junctors, which may only narrow the rest of the schema.
fn conditions(errors: &mut Errors, schema: &FieldValue<'_>, skip_any: bool, skip_first: bool) {
    if !skip_any {
        for part in schema.get("anyOf").items() {
            nested(errors, &part, false);
        }
    }
    for (index, part) in schema.get("allOf").items().enumerate() {
        nested(errors, &part, skip_first && index == 0);
    }
    for part in schema.get("oneOf").items() {
        nested(errors, &part, false);
    }
    let not = schema.get("not");
    if not.is_set() {
        nested(errors, &not, false);
    }
    let pattern = schema.get("pattern");
    if !pattern.is_empty()
        && let Some(fault) = Pattern::new(pattern.text()).fault()
    {
        errors.push(pattern.invalid(format!("must be a valid regular expression, but isn't: {fault}")));
    }
}

/// Fields that are forbidden in logical junctors, and the name in upstream's message.
const ELSEWHERE: &[(&str, &str)] = &[
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

fn nested(errors: &mut Errors, schema: &FieldValue<'_>, skip_any: bool) {
    conditions(errors, schema, skip_any, false);
    let items = schema.get("items");
    if items.is_set() {
        nested(errors, &items, false);
    }
    for (name, property) in schema.get("properties").entries() {
        nested(errors, &property, false);
        if name == "metadata" {
            errors.push(property.forbidden("must not be specified in a nested context"));
        }
    }
    for (field, state) in ELSEWHERE {
        let part = schema.get(field);
        if part.is_set() && *part.value != Value::Bool(false) {
            errors.push(part.forbidden(format!("must be {state} to be structural")));
        }
    }
}

/// Checks that everything that a junctor (`condition`) mentions is specified outside of it (`declared`).
fn complete(errors: &mut Errors, condition: &FieldValue<'_>, declared: &FieldValue<'_>) {
    let not = condition.get("not");
    let lists = ["allOf", "anyOf", "oneOf"].map(|list| condition.get(list));
    let parts = lists.iter().flat_map(|list| list.items().collect::<Vec<_>>());
    for part in not.is_set().then(|| not.clone()).into_iter().chain(parts) {
        nested_complete(errors, &part, declared);
    }
}

fn nested_complete(errors: &mut Errors, condition: &FieldValue<'_>, declared: &FieldValue<'_>) {
    complete(errors, condition, declared);
    let (items, declared_items) = (condition.get("items"), declared.get("items"));
    if items.is_set() {
        if declared_items.is_set() {
            nested_complete(errors, &items, &declared_items);
        } else {
            errors.push(declared_items.required(format!("because it is defined in {}", items.path)));
        }
    }
    let properties = declared.get("properties");
    for (name, property) in condition.get("properties").entries() {
        match properties.entry_of(name) {
            Some(declared) => nested_complete(errors, &property, &declared),
            None => {
                let detail = format!("because it is defined in {}", property.path);
                errors.push(FieldError::required(&properties.path.key(name), detail));
            }
        }
    }
}
