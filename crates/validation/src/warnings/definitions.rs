//! Warnings about formats in CustomResourceDefinitions that are not validated.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go

use std::collections::HashSet;

use atoll_crd::knows_format;
use atoll_meta::quote::quote;
use serde_json::Value;

use super::Warnings;

pub(super) static DEFINITIONS: Warnings = Warnings { object: unknown_formats, ..Warnings::NONE };

/// Warns about formats that are new in a definition and unknown to the server.
fn unknown_formats(new: &Value, old: Option<&Value>) -> Vec<String> {
    let before: HashSet<&str> = old.map(formats).unwrap_or_default().into_iter().collect();
    let formats = formats(new);
    let found = formats.iter().filter(|format| !before.contains(*format));
    found.map(|format| format!("unrecognized format {}", quote(format))).collect()
}

/// Returns the unknown formats of all schemas, without duplicates.
fn formats(definition: &Value) -> Vec<&str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let mut found = Vec::new();
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            collect_formats(schema, &mut found);
        }
    }
    let mut seen = HashSet::new();
    found.retain(|format| seen.insert(*format));
    found
}

fn collect_formats<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    let Some(fields) = schema.as_object() else { return };
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let format = text("format");
    if !format.is_empty() && !knows_format(format, text("type")) {
        found.push(format);
    }
    for name in ["items", "allOf", "anyOf", "oneOf", "not", "properties", "additionalProperties"] {
        match fields.get(name) {
            Some(Value::Array(parts)) => parts.iter().for_each(|part| collect_formats(part, found)),
            Some(Value::Object(parts)) if name == "properties" => {
                parts.values().for_each(|part| collect_formats(part, found));
            }
            Some(part) => collect_formats(part, found),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_unknown_formats_are_warned_about() {
        let definition = |formats: &[(&str, &str)]| {
            let properties: serde_json::Map<String, Value> = formats
                .iter()
                .enumerate()
                .map(|(index, (kind, format))| (index.to_string(), json!({"type": kind, "format": format})))
                .collect();
            let schema = json!({"type": "object", "properties": properties});
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
        };
        let new = definition(&[
            ("string", "date-time"),
            ("string", "nope"),
            ("string", "nope"),
            ("integer", "int32"),
            ("integer", "date"),
            ("string", "old"),
        ]);
        let old = definition(&[("string", "old")]);
        let remarks = unknown_formats(&new, Some(&old));
        assert_eq!(remarks, ["unrecognized format \"nope\"", "unrecognized format \"date\""]);
    }
}
