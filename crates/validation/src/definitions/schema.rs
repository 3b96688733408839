//! Fields of the schema of a custom resource.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use atoll_crd::{field_path, limits, validate_defaults};
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::Value;

use super::expressions::{self, Cardinality, Expressions};
use super::extensions::{extensions, keys_and_null, rules, set_error};
use super::top_level::TopLevelFields;
use super::{compiled_size, structural};
use crate::field_value::{Errors, FieldValue};
use crate::go_json;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const MAX_SELECTABLE: usize = 8;

/// Validation options. On update, rules that the old definition already violates are relaxed.
pub(super) struct ValidationOptions<'d> {
    pub schemas: bool,
    pub structural: bool,
    pub types: bool,
    pub atomic_sets: bool,
    pub list_keys: bool,
    pub pruned: bool,
    /// Versions, or the definition as a whole, that may have more selectable fields than the limit.
    pub many_fields: Vec<String>,
    /// Versions whose schemas are unchanged.
    pub unchanged: Vec<String>,
    /// Whether the old definition was already too large to be compiled and all schemas are unchanged.
    pub large: bool,
    /// Memory that compiled patterns in rules may still use.
    pub patterns: Cell<u64>,
    /// The deadline of the whole definition.
    pub deadline: &'d Deadline<'d>,
}

impl<'d> ValidationOptions<'d> {
    pub fn all(deadline: &'d Deadline<'d>) -> ValidationOptions<'d> {
        ValidationOptions {
            schemas: true,
            structural: true,
            types: true,
            atomic_sets: true,
            list_keys: true,
            pruned: true,
            many_fields: Vec::new(),
            unchanged: Vec::new(),
            large: false,
            patterns: Cell::new(limits::COMPILED),
            deadline,
        }
    }

    pub fn for_update(
        new: &FieldValue<'_>,
        old: &FieldValue<'_>,
        deadline: &'d Deadline<'d>,
    ) -> ValidationOptions<'d> {
        let is_whole = |schema: &FieldValue<'_>| {
            let mut errors = Errors::new();
            structural::check(&mut errors, schema);
            errors.is_empty()
        };
        let roots: Vec<FieldValue<'_>> = roots(old).collect();
        let unchanged = unchanged(new, old);
        ValidationOptions {
            schemas: roots.len() == old.get("versions").len(),
            structural: roots.iter().all(is_whole),
            types: !any(old, &|schema| {
                let kind = schema.text_of("type");
                !kind.is_empty() && !TYPES.contains(&kind)
            }),
            atomic_sets: !any(old, &|schema| set_error(schema).is_some()),
            list_keys: !any(old, &|schema| {
                let mut errors = Errors::new();
                keys_and_null(&mut errors, schema);
                !errors.is_empty()
            }),
            pruned: !roots
                .iter()
                .any(|schema| is_whole(schema) && validate_defaults::has_unpruned(schema.value)),
            many_fields: many_fields(new, old),
            large: unchanged.len() == new.get("versions").len() && compiled_size(old).is_err(),
            unchanged,
            patterns: Cell::new(limits::COMPILED),
            deadline,
        }
    }
}

/// Returns the versions that exist in both with the same schema.
fn unchanged(new: &FieldValue<'_>, old: &FieldValue<'_>) -> Vec<String> {
    let mut known: HashMap<&str, FieldValue<'_>> = HashMap::new();
    for version in old.get("versions").items() {
        known.entry(version.text_of("name")).or_insert(version);
    }
    let same = |version: &FieldValue<'_>| {
        let before = known.get(version.text_of("name"));
        before.is_some_and(|before| before.get("schema").value == version.get("schema").value)
    };
    let versions = new.get("versions");
    versions.items().filter(same).map(|version| version.text_of("name").to_owned()).collect()
}

/// Returns the versions that exceed the limit of selectable fields and did so before.
fn many_fields(new: &FieldValue<'_>, old: &FieldValue<'_>) -> Vec<String> {
    let (now, before) = (TopLevelFields::of(new), TopLevelFields::of(old));
    let many = |fields: Option<&Value>| {
        fields.and_then(Value::as_array).is_some_and(|fields| fields.len() > MAX_SELECTABLE)
    };
    let mut allowed = Vec::new();
    if many(before.fields) && before.fields == now.fields {
        allowed.push(String::new());
    }
    let known: HashMap<&str, FieldValue<'_>> =
        old.get("versions").items().map(|version| (version.text_of("name"), version)).collect();
    for version in new.get("versions").items() {
        let name = version.text_of("name");
        let fields = |version: &FieldValue<'_>, top_level: &TopLevelFields<'_>| {
            version
                .given("selectableFields")
                .filter(|_| top_level.fields.is_none())
                .map(|fields| fields.value.clone())
        };
        let was = known.get(name).and_then(|same| fields(same, &before));
        if many(was.as_ref()) && was == fields(&version, &now) {
            allowed.push(name.to_owned());
        }
    }
    allowed
}

fn roots<'a>(spec: &FieldValue<'a>) -> impl Iterator<Item = FieldValue<'a>> + use<'a> {
    let versions = spec.get("versions").list().iter().map(FieldValue::root);
    versions.filter_map(|version| version.get("schema").given("openAPIV3Schema"))
}

type SchemaPredicate<'p> = &'p dyn Fn(&FieldValue<'_>) -> bool;

/// Whether the predicate holds for any schema of a definition, at any depth.
pub(super) fn any(spec: &FieldValue<'_>, predicate: SchemaPredicate<'_>) -> bool {
    roots(spec).any(|schema| has(&schema, predicate))
}

/// Whether a schema uses an extension that requires a structural schema.
pub(super) fn needs_structure(schema: &FieldValue<'_>) -> bool {
    let extensions = [
        "default",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    schema.keys().any(|field| extensions.contains(&field))
}

fn has(schema: &FieldValue<'_>, predicate: SchemaPredicate<'_>) -> bool {
    let inner = ["items", "not", "additionalProperties", "additionalItems", "allOf", "anyOf", "oneOf"];
    let maps = ["properties", "patternProperties", "definitions", "dependencies"];
    let in_one_or_list = |field: &&'static str| {
        let part = schema.get(field);
        has(&part, predicate) || part.list().iter().any(|schema| has(&FieldValue::root(schema), predicate))
    };
    let in_map = |field: &&'static str| schema.get(field).values().any(|schema| has(&schema, predicate));
    schema.value.is_object()
        && (predicate(schema) || inner.iter().any(in_one_or_list) || maps.iter().any(in_map))
}

/// Fields that upstream allows at the root beside a status subresource, as its message lists them.
const AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
const NOT_AT_ROOT: &[&str] = &[
    "id",
    "$schema",
    "$ref",
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Checks a schema recursively.
pub(super) fn check(
    errors: &mut Errors,
    validation: &FieldValue<'_>,
    status: bool,
    options: &ValidationOptions<'_>,
    structural: bool,
    version: &str,
) {
    let schema = validation.get("openAPIV3Schema");
    if !schema.is_set() || options.large {
        return;
    }
    let before = errors.len();
    if status {
        at_root(errors, validation, &schema);
    }
    if schema.get("nullable").flag() {
        let field = FieldValue::under(None, validation.path.child("openAPIV3Schema.nullable"));
        errors.push(field.forbidden("nullable cannot be true at the root"));
    }
    let mut rules = None;
    if structural {
        let before = errors.len();
        structural::check(errors, &schema);
        if errors.len() == before && structural::is_supported(&schema) {
            errors.extend(validate_defaults::validate(
                schema.value,
                &schema.path,
                options.pruned,
                options.deadline,
            ));
            rules = (errors.len() == before).then_some(Some(1));
        }
    }
    let position = SchemaPosition { is_root: true, in_meta: false, no_default: None, rules, within: None };
    let mut expressions = Expressions::new(options.unchanged.iter().any(|name| name == version));
    walk(errors, &mut expressions, &schema, &position, options);
    expressions.finish(errors, &schema);
    // All other unsupported fields have been reported by now.
    if structural && errors.len() == before && !structural::is_supported(&schema) {
        errors.push(schema.invalid_as("", "OpenAPIV3Schema 'schema' is not supported"));
    }
}

fn at_root(errors: &mut Errors, validation: &FieldValue<'_>, schema: &FieldValue<'_>) {
    let wrong_type = !matches!(schema.text_of("type"), "" | "object");
    let early = |field: &str| matches!(field, "id" | "$schema" | "$ref");
    let found = NOT_AT_ROOT.iter().filter(|field| schema.has(field));
    // The type is checked right after the first three fields.
    if found.clone().any(|field| early(field)) || (!wrong_type && found.clone().next().is_some()) {
        let rendered = go_json::value("apiextensions/v1.JSONSchemaProps", schema.value);
        let detail = format!(
            "only {AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(schema.invalid_as(rendered, detail));
    } else if wrong_type {
        let at = schema.get("type").with_path(validation.path.child("openAPIV3Schema.type"));
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(at.invalid(detail));
    }
}

/// Position of a schema within the root schema.
#[derive(Clone)]
struct SchemaPosition {
    is_root: bool,
    in_meta: bool,
    /// Reason why a default is forbidden here.
    no_default: Option<String>,
    /// Cardinality of values here, if rules are validated.
    rules: Option<Cardinality>,
    /// Outermost enclosing part whose elements cannot be correlated.
    within: Option<FieldPath>,
}

fn walk(
    errors: &mut Errors,
    expressions: &mut Expressions,
    schema: &FieldValue<'_>,
    position: &SchemaPosition,
    options: &ValidationOptions<'_>,
) {
    if !schema.value.is_object() {
        return;
    }
    let before = errors.len();
    let below = position.rules.map(|times| expressions::below(schema, times));
    let inner = SchemaPosition { is_root: false, rules: below, ..position.clone() };
    // Schemas under allOf, anyOf, oneOf and not have no rules.
    let condition = SchemaPosition { rules: None, ..inner.clone() };
    unsupported(errors, schema, position, options);
    if schema.get("uniqueItems").flag() {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(schema.get("uniqueItems").forbidden(detail));
    }
    let (properties, additional) = (schema.get("properties"), schema.get("additionalProperties"));
    if additional.is_set() {
        if !properties.is_empty() && *additional.value != Value::Bool(true) {
            errors.push(additional.forbidden("additionalProperties and properties are mutual exclusive"));
        }
        let reason = "inside additionalProperties applying to object metadata".to_owned();
        let no_default = if position.in_meta { Some(reason) } else { inner.no_default.clone() };
        walk(errors, expressions, &additional, &SchemaPosition { no_default, ..inner.clone() }, options);
    }
    let map_type = schema.text_of("x-kubernetes-map-type");
    for (name, property) in properties.entries() {
        let mut inner = inner.clone();
        if !matches!(map_type, "" | "granular" | "atomic") {
            inner.within.get_or_insert_with(|| schema.path.clone());
        }
        let embeds = schema.get("x-kubernetes-embedded-resource").flag();
        if (position.is_root || embeds) && matches!(name, "metadata" | "kind" | "apiVersion") {
            inner.in_meta = true;
            if position.is_root {
                inner.no_default = Some(format!("in top-level {name}"));
            }
        }
        walk(errors, expressions, &property, &inner, options);
    }
    walk(errors, expressions, &schema.get("not"), &condition, options);
    for list in ["allOf", "oneOf", "anyOf"] {
        for part in schema.get(list).items() {
            walk(errors, expressions, &part, &condition, options);
        }
    }
    for (_, part) in schema.get("definitions").entries() {
        walk(errors, expressions, &part, &condition, options);
    }
    let items = schema.get("items");
    let mut item = inner.clone();
    if schema.text_of("x-kubernetes-list-type") != "map" {
        item.within.get_or_insert_with(|| schema.path.clone());
    }
    walk(errors, expressions, &items, &item, options);
    for part in items.items() {
        walk(errors, expressions, &part, &item, options);
    }
    for (_, part) in schema.get("dependencies").entries() {
        walk(errors, expressions, &part, &condition, options);
    }
    extensions(errors, schema, options);
    rules(errors, schema);
    // Rules are only compiled if their schema is valid.
    if let (Some(times), true) = (position.rules, errors.len() == before) {
        let is_object = position.is_root || schema.get("x-kubernetes-embedded-resource").flag();
        expressions.check(schema, is_object, times, position.within.as_ref(), &options.patterns);
    }
}

fn unsupported(
    errors: &mut Errors,
    schema: &FieldValue<'_>,
    position: &SchemaPosition,
    options: &ValidationOptions<'_>,
) {
    let kind = schema.get("type");
    if options.types && !kind.is_empty() && !TYPES.contains(&kind.text()) {
        errors.push(kind.unsupported_text(TYPES));
    }
    if let Some(reason) = position.no_default.as_ref().filter(|_| schema.has("default")) {
        errors.push(schema.get("default").forbidden(format!("must not be set {reason}")));
    }
    for field in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.has(field) {
            errors.push(schema.get(field).forbidden(format!("{field} is not supported")));
        }
    }
    if kind.text() == "null" {
        errors.push(kind.forbidden("type cannot be set to null, use nullable as an alternative"));
    }
    if !schema.get("items").list().is_empty() {
        errors.push(schema.get("items").forbidden("items must be a schema object and not an array"));
    }
    if position.in_meta && schema.get("x-kubernetes-embedded-resource").flag() {
        let embedded = schema.get("x-kubernetes-embedded-resource");
        errors.push(embedded.forbidden("must not be used inside of resource meta"));
    }
}

/// Checks the selectable fields. `version` is the version that they belong to, or `None` for the top level.
pub(super) fn selectable(
    errors: &mut Errors,
    fields: &FieldValue<'_>,
    schema: &Value,
    options: &ValidationOptions<'_>,
    version: &str,
) {
    let mut seen = HashSet::new();
    for field in fields.items() {
        let path = field.get("jsonPath");
        if path.is_empty() {
            errors.push(path.required(""));
            continue;
        }
        let (found, kind) = match field_path::find(schema, path.text(), false) {
            Ok((found, kind)) => (found.to_string(), kind),
            Err(fault) => {
                errors.push(path.invalid(format!("is an invalid path: {fault}")));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") || found.starts_with("metadata[") {
            errors.push(path.invalid("must not point to fields in metadata"));
        }
        if !matches!(kind, Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(path.invalid(detail));
        }
        if !seen.insert(found) {
            errors.push(path.duplicate());
        }
    }
    if seen.len() > MAX_SELECTABLE && !options.many_fields.iter().any(|allowed| allowed == version) {
        errors.push(FieldError::too_many(&fields.path, seen.len(), MAX_SELECTABLE));
    }
}
