//! Kinds that a definition makes.

use serde_json::{Map, Value, json};

use crate::Kind;
use crate::names::definition;
use crate::schemas::reference;

type Object = Map<String, Value>;

/// What a version of a definition publishes about its objects.
pub struct Published<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub list_kind: &'a str,
    /// Its schema for version 3 and for version 2; none where it has no structure.
    pub schemas: Option<(Value, Value)>,
    /// Whether unknown fields are kept at the top: then version 2 says nothing of the others, lest clients refuse them.
    pub preserves: bool,
    /// The fields that objects can be selected by.
    pub selectable: Vec<String>,
}

pub fn kind(published: Published<'_>) -> Kind {
    let Published { group, version, kind, list_kind, schemas, preserves, selectable } = published;
    let nothing = || json!({ "type": "object" });
    let (mut schema, mut lesser) = match schemas {
        None => (nothing(), nothing()),
        Some((schema, lesser)) => {
            let lesser = if preserves { nothing() } else { completed(lesser, true) };
            (completed(schema, false), lesser)
        }
    };
    if !selectable.is_empty() {
        let fields: Vec<Value> = selectable.iter().map(|path| json!({ "fieldPath": path })).collect();
        for schema in [&mut schema, &mut lesser] {
            schema["x-kubernetes-selectable-fields"] = json!(fields);
        }
    }
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: list_kind.to_owned(),
        schema,
        lesser: Some(lesser),
    }
}

/// With what every object has, and every object inside of it.
fn completed(mut schema: Value, lesser: bool) -> Value {
    if let Value::Object(fields) = &mut schema {
        embedded(fields, lesser);
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

fn embedded(fields: &mut Object, lesser: bool) {
    let is = |fields: &Object, name: &str| fields.get(name).is_some_and(|value| *value == true);
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|inner| embedded(inner, lesser));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = fields.get_mut(name) {
            embedded(inner, lesser);
        }
    }
    if lesser && is(fields, "x-kubernetes-preserve-unknown-fields") {
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
    fn objects_inside_have_what_objects_have() {
        let schema = json!({ "type": "object", "properties": {
            "template": { "type": "object", "x-kubernetes-embedded-resource": true },
            "free": { "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        }});
        let published = Published {
            group: "g.example.com",
            version: "v1",
            kind: "K",
            list_kind: "Ks",
            schemas: Some((schema.clone(), schema)),
            preserves: false,
            selectable: vec!["spec.color".into()],
        };
        let kind = kind(published);
        let lesser = kind.lesser.unwrap_or_default();
        for schema in [&kind.schema, &lesser] {
            assert!(schema["properties"]["metadata"].is_object());
            let template = &schema["properties"]["template"];
            assert_eq!(template["required"], json!(["kind", "apiVersion"]));
            assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{ "fieldPath": "spec.color" }]));
        }
        assert!(kind.schema["properties"]["free"]["properties"].is_object());
        assert!(lesser["properties"]["free"].get("properties").is_none());
    }
}
