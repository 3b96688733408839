//! One text for schemas that accept the same values but are written differently: without documentation, with
//! sorted lists where the order has no meaning.

use atoll_meta::json;
use serde_json::{Map, Value, json};

use crate::schema_view::is_documentation;

/// Keywords with a list of schemas.
pub(crate) const CONDITIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The canonical text of a schema. The depth must have been checked.
pub fn canonical_text(schema: &Value) -> String {
    json::to_string(&normalised(schema))
}

fn normalised(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        // A schema that is malformed says nothing.
        return if schema.is_boolean() { schema.clone() } else { Value::Object(Map::new()) };
    };
    let mut result = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            (name, _) if is_documentation(name) => continue,
            ("x-kubernetes-list-type", value) if value == "atomic" => continue,
            ("x-kubernetes-map-type", value) if value == "granular" => continue,
            (_, Value::Null | Value::Bool(false)) if name != "additionalProperties" => continue,
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, schema)| (name.clone(), normalised(schema)));
                Value::Object(properties.collect())
            }
            ("items" | "additionalProperties" | "not", schema) => normalised(schema),
            ("required" | "enum" | "x-kubernetes-list-map-keys", Value::Array(items)) => {
                sorted(items.iter().cloned())
            }
            ("x-kubernetes-validations", Value::Array(rules)) => sorted(rules.iter().map(rule)),
            (name, Value::Array(parts)) if CONDITIONS.contains(&name) => sorted(parts.iter().map(normalised)),
            (_, value) => value.clone(),
        };
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if !is_empty || name == "default" {
            result.insert(name.clone(), value);
        }
    }
    if result.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
        && result.get("anyOf") == Some(&json!([{ "type": "integer" }, { "type": "string" }]))
    {
        // The keyword says so already.
        result.remove("anyOf");
    }
    Value::Object(result)
}

/// A rule by its meaning: messages do not count.
pub(crate) fn rule(rule: &Value) -> Value {
    let mut meaning = Map::new();
    for name in ["rule", "optionalOldSelf"] {
        if let Some(value) = rule.get(name).filter(|value| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.clone(), |text| text.trim().into());
            meaning.insert(name.to_owned(), value);
        }
    }
    Value::Object(meaning)
}

fn sorted(items: impl Iterator<Item = Value>) -> Value {
    let mut items: Vec<Value> = items.collect();
    items.sort_by_cached_key(json::to_string);
    Value::Array(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_documentation_do_not_count() {
        let one = json!({
            "description": "a", "nullable": false, "required": ["a", "b"], "anyOf": [{ "type": "string" }, {}],
            "x-kubernetes-validations": [{ "rule": "self.a ", "message": "no" }],
        });
        let other = json!({
            "required": ["b", "a"], "anyOf": [{}, { "type": "string", "title": "t" }], "enum": [],
            "x-kubernetes-validations": [{ "rule": "self.a" }],
        });
        assert_eq!(canonical_text(&one), canonical_text(&other));
        assert_ne!(canonical_text(&json!({ "additionalProperties": false })), canonical_text(&json!({})));
    }
}
