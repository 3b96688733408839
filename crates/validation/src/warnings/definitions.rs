//! Warnings about formats in CustomResourceDefinitions that are not validated.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go

use std::collections::HashSet;

use atoll_crd::knows_format;
use atoll_meta::quote::quote;
use serde_json::Value;

use super::Warnings;
use crate::field_value::FieldValue;

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
    let mut found = Vec::new();
    for version in FieldValue::field(definition, "spec").get("versions").items() {
        collect_formats(&version.get("schema").get("openAPIV3Schema"), &mut found);
    }
    let mut seen = HashSet::new();
    found.retain(|format| seen.insert(*format));
    found
}

fn collect_formats<'a>(schema: &FieldValue<'a>, found: &mut Vec<&'a str>) {
    if !schema.value.is_object() {
        return;
    }
    let format = schema.text_of("format");
    if !format.is_empty() && !knows_format(format, schema.text_of("type")) {
        found.push(format);
    }
    for name in ["items", "allOf", "anyOf", "oneOf", "not", "properties", "additionalProperties"] {
        let part = schema.get(name);
        part.items().for_each(|part| collect_formats(&part, found));
        if name == "properties" {
            part.values().for_each(|part| collect_formats(&part, found));
        } else {
            collect_formats(&part, found);
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
