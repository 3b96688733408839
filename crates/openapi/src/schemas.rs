//! OpenAPI v3 schemas of types.

// upstream: k8s.io/kube-openapi/pkg/generators/openapi.go
// upstream: k8s.io/kube-openapi/pkg/builder3/openapi.go

use std::borrow::Cow;

use atoll_schema::{Field, Granularity, ListType, Scalar, Type, TypeRef, Types};
use serde_json::{Map, Value, json};

use crate::descriptions::Descriptions;
use crate::names::definition;

type Object = Map<String, Value>;

/// Prefix of references to definitions in v3.
pub const COMPONENTS: &str = "#/components/schemas/";

pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{COMPONENTS}{name}") })
}

/// Structs with at most one field set, as (key, discriminator, fields with their discriminator values).
type Union = (&'static str, Option<&'static str>, &'static [(&'static str, &'static str)]);
const UNIONS: &[Union] = &[
    ("core/v1.AppArmorProfile", Some("type"), &[("localhostProfile", "LocalhostProfile")]),
    ("core/v1.PodSchedulingGroup", None, &[("podGroupName", "PodGroupName")]),
    ("core/v1.SeccompProfile", Some("type"), &[("localhostProfile", "LocalhostProfile")]),
    ("flowcontrol/v1.LimitResponse", Some("type"), &[("queuing", "Queuing")]),
    (
        "flowcontrol/v1.PriorityLevelConfigurationSpec",
        Some("type"),
        &[("exempt", "Exempt"), ("limited", "Limited")],
    ),
    (
        "flowcontrol/v1.Subject",
        Some("kind"),
        &[("group", "Group"), ("serviceAccount", "ServiceAccount"), ("user", "User")],
    ),
];

/// Returns the schema of a struct, without its group, version and kinds.
pub fn of_struct(types: &Types, owner: &Type, descriptions: &Descriptions) -> Object {
    let name = definition(owner.key);
    let mut schema = Object::new();
    if let Some(description) = descriptions.of_type(&name) {
        schema.insert("description".into(), description.into_owned().into());
    }
    schema.insert("type".into(), "object".into());
    let mut properties = Object::new();
    let mut required: Vec<Value> = Vec::new();
    for slot in &owner.slots {
        let field = &types[slot.declared_by].fields[usize::from(slot.index)];
        if field.required {
            required.push(slot.name.into());
        }
        let description = descriptions.of_property(&name, slot.name);
        properties.insert(slot.name.into(), of_field(types, field, description));
    }
    if !properties.is_empty() {
        schema.insert("properties".into(), properties.into());
    }
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    if owner.atomic {
        schema.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if let Some((_, discriminator, fields)) = UNIONS.iter().find(|(key, ..)| *key == owner.key) {
        let fields: Object = fields.iter().map(|&(field, name)| (field.to_owned(), name.into())).collect();
        let mut union = Object::new();
        if let Some(discriminator) = discriminator {
            union.insert("discriminator".into(), (*discriminator).into());
        }
        union.insert("fields-to-discriminateBy".into(), fields.into());
        schema.insert("x-kubernetes-unions".into(), json!([union]));
    }
    schema
}

fn of_field(types: &Types, field: &Field, description: Option<Cow<'_, str>>) -> Value {
    let mut schema = Object::new();
    if let Some(description) = description {
        schema.insert("description".into(), with_values(description, field.kind).into());
    }
    let default = match field.default {
        Some(marker) => serde_json::from_str(marker).ok(),
        None if field.pointer => None,
        None => default(types, field.kind, field.omit_empty),
    };
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    let mut extension = |name: &str, value: Value| schema.insert(format!("x-kubernetes-{name}"), value);
    if let Some(list_type) = field.list_type {
        let name = match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        extension("list-type", name.into());
    }
    if !field.map_keys.is_empty() {
        extension("list-map-keys", json!(field.map_keys));
    }
    if let Some(whole) = field.map_type.or(field.struct_type) {
        let name = match whole {
            Granularity::Atomic => "atomic",
            Granularity::Granular => "granular",
        };
        extension("map-type", name.into());
    }
    if let Some(key) = field.patch_merge_key {
        extension("patch-merge-key", key.into());
    }
    if let Some(strategy) = field.patch_strategy {
        extension("patch-strategy", strategy.into());
    }
    complete(types, field.kind, schema)
}

/// Returns a description that also lists the values of an enumeration.
fn with_values(description: Cow<'_, str>, kind: TypeRef) -> String {
    let mut text = description.into_owned();
    let kind = if let TypeRef::List(list) = kind { list.element } else { kind };
    if let TypeRef::Named(Scalar { values: Some(values), .. }) = kind {
        text.push_str("\n\nPossible enum values:");
        for value in sorted(values) {
            text.push_str("\n - `\"");
            text.push_str(value);
            text.push_str("\"`");
        }
    }
    text
}

fn sorted(values: &[&'static str]) -> Vec<&'static str> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}

/// Returns the schema of an element of a list or a map: never absent, so its default is its zero value.
fn of_element(types: &Types, kind: TypeRef) -> Value {
    let mut schema = Object::new();
    if let Some(default) = default(types, kind, false) {
        schema.insert("default".into(), default);
    }
    complete(types, kind, schema)
}

/// Returns the default of a value that is not a pointer.
fn default(types: &Types, kind: TypeRef, omit_empty: bool) -> Option<Value> {
    match kind {
        TypeRef::Struct(_) => Some(json!({})),
        TypeRef::String
        | TypeRef::Named(_)
        | TypeRef::Bool
        | TypeRef::Int32
        | TypeRef::Int64
        | TypeRef::Float64
            if !omit_empty =>
        {
            Some(types.zero(kind))
        }
        _ => None,
    }
}

/// Adds the properties of the type to those of its field.
fn complete(types: &Types, kind: TypeRef, mut schema: Object) -> Value {
    if let Some(name) = referred(types, kind) {
        // A reference cannot have siblings in v3: if there are any, it becomes the only part of an `allOf`.
        if schema.is_empty() {
            return reference(&name);
        }
        schema.insert("allOf".into(), json!([reference(&name)]));
        return schema.into();
    }
    let (name, format) = match kind {
        TypeRef::Bool => ("boolean", ""),
        TypeRef::Int32 => ("integer", "int32"),
        TypeRef::Int64 => ("integer", "int64"),
        TypeRef::Float64 => ("number", "double"),
        TypeRef::Bytes => ("string", "byte"),
        TypeRef::List(_) => ("array", ""),
        TypeRef::Map(_) | TypeRef::Any => ("object", ""),
        _ => ("string", ""),
    };
    schema.insert("type".into(), name.into());
    if !format.is_empty() {
        schema.insert("format".into(), format.into());
    }
    match kind {
        TypeRef::List(list) => {
            schema.insert("items".into(), of_element(types, list.element));
        }
        TypeRef::Map(map) => {
            schema.insert("additionalProperties".into(), of_element(types, map.value));
        }
        TypeRef::Named(scalar) => {
            if let Some(values) = &scalar.values {
                schema.insert("enum".into(), json!(sorted(values)));
            }
        }
        _ => {}
    }
    schema.into()
}

/// Returns the definition that a type is rendered as, unless it is inlined.
fn referred(types: &Types, kind: TypeRef) -> Option<String> {
    let key = match kind {
        TypeRef::Struct(id) => types[id].key,
        TypeRef::Time => "meta/v1.Time",
        TypeRef::MicroTime => "meta/v1.MicroTime",
        TypeRef::FieldsV1 => "meta/v1.FieldsV1",
        TypeRef::IntOrString => "util/intstr.IntOrString",
        TypeRef::Quantity => "api/resource.Quantity",
        TypeRef::RawExtension => "runtime.RawExtension",
        TypeRef::Json => "apiextensions/v1.JSON",
        TypeRef::JsonSchemaOrArray => "apiextensions/v1.JSONSchemaPropsOrArray",
        TypeRef::JsonSchemaOrBool => "apiextensions/v1.JSONSchemaPropsOrBool",
        TypeRef::JsonSchemaOrStringArray => "apiextensions/v1.JSONSchemaPropsOrStringArray",
        _ => return None,
    };
    Some(definition(key))
}

/// Returns the schema of a definition that is not a struct of the facts.
pub fn special(key: &str) -> Option<Value> {
    let schema = match key {
        "meta/v1.Time" | "meta/v1.MicroTime" => json!({ "type": "string", "format": "date-time" }),
        "meta/v1.Duration" => json!({ "type": "string" }),
        "util/intstr.IntOrString" => {
            json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
        }
        "api/resource.Quantity" => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        "meta/v1.FieldsV1" | "runtime.RawExtension" | "meta/v1.Patch" => json!({ "type": "object" }),
        "apiextensions/v1.JSON"
        | "apiextensions/v1.JSONSchemaPropsOrArray"
        | "apiextensions/v1.JSONSchemaPropsOrBool"
        | "apiextensions/v1.JSONSchemaPropsOrStringArray" => json!({}),
        "version.Info" => version_info(),
        _ => return None,
    };
    Some(schema)
}

fn version_info() -> Value {
    let always = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let sometimes = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let always_set =
        always.iter().map(|name| ((*name).to_owned(), json!({ "type": "string", "default": "" })));
    let maybe_set = sometimes.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
    let properties: Object = always_set.chain(maybe_set).collect();
    json!({ "type": "object", "required": always, "properties": properties })
}
