//! Random definitions with mistakes.

use atoll_upstream::rules::{PATHS, decorate, rule};
use atoll_upstream::schemas::Generator;
use serde_json::{Map, Value, json};

const COLUMN_PATHS: &[&str] =
    &[".spec.a", "spec", "", ".status.conditions[?(@.type==\"Ready\")].status", "."];

/// Generates a definition, which may be valid.
pub fn definition(generator: &mut Generator) -> Value {
    let count = 1 + generator.below(2);
    let mut versions = Vec::new();
    for index in 0..count {
        let mut schema = generator.root();
        if generator.chance(60) {
            decorate(generator, &mut schema);
        }
        let mut version = json!({
            "name": format!("v{}", index + 1), "served": true, "storage": index == 0,
            "schema": {"openAPIV3Schema": schema},
        });
        if generator.chance(20) {
            version["subresources"] = json!({"status": {}});
        }
        if generator.chance(10) {
            version["subresources"] = json!({"scale": {
                "specReplicasPath": generator.pick(&[".spec.replicas", ".replicas", "spec", ""]),
                "statusReplicasPath": generator.pick(&[".status.replicas", ".spec.replicas", ""]),
                "labelSelectorPath": generator.pick(&[".status.selector", ".spec.s", ".x", "x"]),
            }});
        }
        if generator.chance(15) {
            version["additionalPrinterColumns"] = json!([{
                "name": generator.pick(&["A", ""]), "type": generator.pick(&["string", "date", "x", ""]),
                "format": generator.pick(&["", "int32", "nope"]), "jsonPath": generator.pick(COLUMN_PATHS),
            }]);
        }
        if generator.chance(15) {
            let fields: Vec<Value> =
                (0..=generator.below(3)).map(|_| json!({"jsonPath": generator.pick(PATHS)})).collect();
            version["selectableFields"] = json!(fields);
        }
        if generator.chance(5) {
            version["deprecated"] = json!(generator.chance(70));
            version["deprecationWarning"] = json!(generator.pick(&["old", "", "a\u{7}b"]));
        }
        versions.push(version);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "resourceVersion": "1"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions,
        },
    })
}

/// Generates a changed definition.
pub fn changed(generator: &mut Generator, definition: &Value) -> Value {
    let mut copy = definition.clone();
    if generator.chance(60) {
        let versions = copy["spec"]["versions"].as_array_mut().expect("a definition has versions");
        for version in versions {
            if generator.chance(70) {
                mutate(generator, &mut version["schema"]["openAPIV3Schema"], 6);
            }
        }
    }
    if generator.chance(10) {
        let spec = &mut copy["spec"];
        match generator.below(8) {
            0 => spec["group"] = json!(generator.pick(&["", "example", "Example.com", "a.k8s.io"])),
            1 => spec["scope"] = json!(generator.pick(&["", "Cluster", "Nope"])),
            2 => spec["names"]["kind"] = json!(generator.pick(&["", "thing-", "ThingList"])),
            3 => spec["names"]["shortNames"] = json!(["a", "A", ""]),
            4 => spec["versions"][0]["storage"] = json!(false),
            5 => spec["versions"][0]["name"] = json!(generator.pick(&["v2", "V1", ""])),
            6 => spec["preserveUnknownFields"] = json!(true),
            _ => spec["conversion"] = json!({"strategy": generator.pick(&["Webhook", "", "x"])}),
        }
    }
    copy
}

/// Changes a random part of a schema.
fn mutate(generator: &mut Generator, schema: &mut Value, depth: usize) {
    let Value::Object(fields) = schema else { return };
    let mut inner: Vec<&mut Value> = Vec::new();
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => inner.extend(properties.values_mut()),
            ("items" | "additionalProperties" | "not", value) if value.is_object() => inner.push(value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => inner.extend(parts.iter_mut()),
            _ => {}
        }
    }
    if depth > 0 && !inner.is_empty() && generator.chance(75) {
        let index = generator.below(inner.len());
        return mutate(generator, inner.swap_remove(index), depth - 1);
    }
    set_random_field(generator, fields);
}

fn set_random_field(generator: &mut Generator, fields: &mut Map<String, Value>) {
    let (name, value) = match generator.below(27) {
        0 => ("type", json!(generator.pick(&["", "null", "foo", "object", "array", "string", "integer"]))),
        1 => ("uniqueItems", json!(true)),
        2 => ("default", json!({"a": 1, "zzz": 2})),
        3 => ("default", json!(generator.pick(&["a", "", "10"]))),
        4 => ("x-kubernetes-list-type", json!(generator.pick(&["set", "map", "atomic", "x"]))),
        5 => ("x-kubernetes-list-map-keys", json!(["name", generator.pick(&["name", "a", "zzz"])])),
        6 => ("x-kubernetes-map-type", json!(generator.pick(&["atomic", "granular", "x"]))),
        7 => ("additionalProperties", json!({"type": "string"})),
        8 => ("additionalProperties", json!(generator.chance(50))),
        9 => ("properties", json!({"a": {"type": "string"}, "metadata": {"type": "string"}})),
        10 => ("pattern", json!(generator.pick(&["(", "[a", "a**", "^a$", r"\1"]))),
        11 => ("x-kubernetes-preserve-unknown-fields", json!(generator.chance(50))),
        12 => ("x-kubernetes-embedded-resource", json!(true)),
        13 => ("x-kubernetes-int-or-string", json!(true)),
        14 => ("nullable", json!(true)),
        15 => ("description", json!("text")),
        16 => ("title", json!("text")),
        17 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
        18 => ("allOf", json!([{"required": ["a"], "properties": {"zzz": {"minLength": 1}}}])),
        19 => ("not", json!({"items": {"minLength": 1}, "default": 1})),
        20 => ("x-kubernetes-validations", json!([rule(generator), rule(generator)])),
        21 => ("$ref", json!("x")),
        22 => ("patternProperties", json!({"a": {}})),
        23 => ("items", json!({"type": "object", "properties": {"name": {"type": "string"}}})),
        24 => ("required", json!(["name", "a"])),
        25 => ("default", json!([{"name": "a"}, {"name": "a"}])),
        _ => ("enum", json!(["a", 1])),
    };
    if generator.chance(20) {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value);
    }
}
