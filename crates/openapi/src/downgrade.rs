//! Conversion of OpenAPI v3 schemas to v2.

// upstream: k8s.io/kube-openapi/pkg/schemaconv/openapi.go
// upstream: k8s.io/kube-openapi/pkg/builder/openapi.go

use serde_json::{Map, Value};

use crate::schemas::COMPONENTS;

/// Prefix of references to definitions in v2.
pub const DEFINITIONS: &str = "#/definitions/";

/// Converts a schema to v2: references have siblings, there are no unions and no defaults.
pub fn schema(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let mut rendered = Map::new();
    for (name, value) in fields {
        match name.as_str() {
            "default" => {}
            "oneOf" => {
                rendered.insert("type".into(), "string".into());
            }
            "$ref" => {
                rendered.insert(name, refer(&value));
            }
            "allOf" => {
                if let Some(reference) = value.get(0).and_then(|part| part.get("$ref")) {
                    rendered.insert("$ref".into(), refer(reference));
                }
            }
            "items" | "additionalProperties" => {
                rendered.insert(name, schema(value));
            }
            "properties" => {
                let Value::Object(properties) = value else { continue };
                let properties: Map<_, _> =
                    properties.into_iter().map(|(name, property)| (name, schema(property))).collect();
                rendered.insert(name, properties.into());
            }
            _ => {
                rendered.insert(name, value);
            }
        }
    }
    rendered.into()
}

fn refer(reference: &Value) -> Value {
    let name = reference.as_str().unwrap_or_default();
    format!("{DEFINITIONS}{}", name.strip_prefix(COMPONENTS).unwrap_or(name)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_defaults_and_alternatives_change() {
        let three = json!({
            "type": "object",
            "properties": {
                "default": { "default": {}, "description": "d", "allOf": [{ "$ref": "#/components/schemas/a.B" }] },
                "list": { "type": "array", "items": { "$ref": "#/components/schemas/a.C" } },
                "either": { "oneOf": [{ "type": "integer" }, { "type": "string" }], "format": "int-or-string" },
            },
        });
        let two = json!({
            "type": "object",
            "properties": {
                "default": { "description": "d", "$ref": "#/definitions/a.B" },
                "list": { "type": "array", "items": { "$ref": "#/definitions/a.C" } },
                "either": { "type": "string", "format": "int-or-string" },
            },
        });
        assert_eq!(schema(three), two);
    }
}
