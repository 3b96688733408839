//! OpenAPI schemas of custom objects.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The schema of a version for OpenAPI v3, without metadata and kind.
pub fn v3(schema: &Value) -> Value {
    let mut schema = schema.clone();
    unfold(&mut schema);
    schema
}

/// The schema of a version for OpenAPI v2, which supports fewer keywords.
pub fn v2(schema: &Value) -> Value {
    let mut schema = v3(schema);
    flatten(&mut schema);
    schema
}

fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Calls `visit` for the direct structural children of a schema.
fn each_child(fields: &mut Fields, visit: &mut dyn FnMut(&mut Value)) {
    for name in ["items", "additionalProperties"] {
        if let Some(child) = fields.get_mut(name).filter(|child| child.is_object()) {
            visit(child);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(visit);
    }
}

/// Expands `x-kubernetes-int-or-string` to `anyOf`.
fn unfold(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if flag(fields, "x-kubernetes-int-or-string") && !has_int_or_string_any_of(fields) {
        let either = Value::Array(
            ["integer", "string"]
                .map(|kind| Value::Object(Map::from_iter([("type".to_owned(), Value::from(kind))])))
                .into(),
        );
        if fields.contains_key("anyOf") {
            let first = Value::Object(Map::from_iter([("anyOf".to_owned(), either)]));
            match fields.get_mut("allOf") {
                Some(Value::Array(all)) => all.insert(0, first),
                _ => drop(fields.insert("allOf".to_owned(), Value::Array(vec![first]))),
            }
        } else {
            fields.insert("anyOf".to_owned(), either);
        }
    }
    each_child(fields, &mut unfold);
}

fn has_int_or_string_any_of(fields: &Fields) -> bool {
    let says = |any_of: Option<&Value>| {
        let Some([one, other]) = any_of.and_then(Value::as_array).map(Vec::as_slice) else { return false };
        let is = |part: &Value, kind: &str| {
            part.as_object()
                .is_some_and(|part| part.len() == 1 && part.get("type").is_some_and(|found| found == kind))
        };
        is(one, "integer") && is(other, "string")
    };
    let first = fields.get("allOf").and_then(Value::as_array).and_then(|all| all.first());
    says(fields.get("anyOf")) || says(first.and_then(|first| first.get("anyOf")))
}

/// Removes keywords that OpenAPI v2 does not support or that break kubectl.
fn flatten(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let nullable: Vec<String> = fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, property)| property.get("nullable") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.clone())
        .collect();
    let any_nullable = fields
        .get("additionalProperties")
        .is_some_and(|rest| rest.get("nullable") == Some(&Value::Bool(true)));
    each_child(fields, &mut flatten);
    for name in ["allOf", "oneOf", "anyOf", "not"] {
        fields.remove(name);
    }
    let preserves = flag(fields, "x-kubernetes-preserve-unknown-fields");
    if flag(fields, "nullable") {
        ["type", "nullable", "items", "properties"].iter().for_each(|name| drop(fields.remove(*name)));
    }
    if preserves {
        ["items", "properties"].iter().for_each(|name| drop(fields.remove(*name)));
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    if (kind == "array" && !fields.contains_key("items")) || (kind == "object" && preserves) {
        fields.remove("type");
    }
    if any_nullable {
        fields.remove("required");
        return;
    }
    if !fields.contains_key("properties") {
        // Without properties, `required` stays.
        return;
    }
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
        if required.is_empty() {
            fields.remove("required");
        }
    }
}
