//! Schemas of custom resources.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go

use serde_json::{Map, Value, json};

use crate::KindSchema;
use crate::names::definition;
use crate::schemas::reference;

type Object = Map<String, Value>;

/// The published schema of a version of a CustomResourceDefinition.
pub struct PublishedSchema<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub list_kind: &'a str,
    /// Schemas for OpenAPI v3 and v2; `None` if there is no structural schema.
    pub schemas: Option<(Value, Value)>,
    /// Whether unknown fields are preserved at the root: then v2 has no properties, because clients would
    /// reject unknown ones.
    pub preserves: bool,
    /// The selectable fields.
    pub selectable: Vec<String>,
}

pub fn kind(published: PublishedSchema<'_>) -> KindSchema {
    let PublishedSchema { group, version, kind, list_kind, schemas, preserves, selectable } = published;
    let nothing = || json!({ "type": "object" });
    let (mut schema, mut v2_schema) = match schemas {
        None => (nothing(), nothing()),
        Some((schema, v2_schema)) => {
            let v2_schema = if preserves { nothing() } else { with_object_fields(v2_schema, true) };
            (with_object_fields(schema, false), v2_schema)
        }
    };
    if !selectable.is_empty() {
        let fields: Vec<Value> = selectable.iter().map(|path| json!({ "fieldPath": path })).collect();
        for schema in [&mut schema, &mut v2_schema] {
            schema["x-kubernetes-selectable-fields"] = json!(fields);
        }
    }
    KindSchema {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: list_kind.to_owned(),
        schema,
        v2_schema: Some(v2_schema),
    }
}

/// Adds the fields of all objects, also of embedded ones.
fn with_object_fields(mut schema: Value, is_v2: bool) -> Value {
    if let Value::Object(fields) = &mut schema {
        embedded(fields, is_v2);
        add(fields);
    }
    schema
}

fn add(fields: &mut Object) {
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    let metadata = reference(&definition("meta/v1.ObjectMeta"));
    properties["apiVersion"] = json!({ "type": "string" });
    properties["kind"] = json!({ "type": "string" });
    properties["metadata"] = json!({ "allOf": [metadata] });
}

fn embedded(fields: &mut Object, is_v2: bool) {
    let is = |fields: &Object, name: &str| fields.get(name).is_some_and(|value| *value == true);
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|inner| embedded(inner, is_v2));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = fields.get_mut(name) {
            embedded(inner, is_v2);
        }
    }
    if is_v2 && is(fields, "x-kubernetes-preserve-unknown-fields") {
        return;
    }
    if is(fields, "x-kubernetes-embedded-resource") {
        add(fields);
        let required = fields.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|own| own == name) {
                    required.push(name.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_objects_have_object_fields() {
        let schema = json!({ "type": "object", "properties": {
            "template": { "type": "object", "x-kubernetes-embedded-resource": true },
            "free": { "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        }});
        let published = PublishedSchema {
            group: "g.example.com",
            version: "v1",
            kind: "K",
            list_kind: "Ks",
            schemas: Some((schema.clone(), schema)),
            preserves: false,
            selectable: vec!["spec.color".into()],
        };
        let kind = kind(published);
        let v2_schema = kind.v2_schema.unwrap_or_default();
        for schema in [&kind.schema, &v2_schema] {
            assert!(schema["properties"]["metadata"].is_object());
            let template = &schema["properties"]["template"];
            assert_eq!(template["required"], json!(["kind", "apiVersion"]));
            assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{ "fieldPath": "spec.color" }]));
        }
        assert!(kind.schema["properties"]["free"]["properties"].is_object());
        assert!(v2_schema["properties"]["free"].get("properties").is_none());
    }
}
