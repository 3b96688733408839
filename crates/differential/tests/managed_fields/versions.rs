//! Generates writes through several versions of a kind.

use serde_json::{Value, json};

use crate::generate::{APPLY, MERGE, Operation, Random};

/// Returns a definition with two identical served versions and one that is not served.
pub fn definition() -> Value {
    let item = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "value": { "type": "string" } } });
    let spec = json!({ "type": "object", "properties": {
        "size": { "type": "integer", "default": 1 },
        "colour": { "type": "string" },
        "words": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "items": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": item },
    } });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": { "type": "object",
        "properties": { "phase": { "type": "string" } } } } });
    let version = |name: &str, served: bool| {
        json!({ "name": name, "served": served, "storage": name == "v1", "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": schema } })
    };
    json!({
        "metadata": { "name": "hats.versions.example.com" },
        "spec": {
            "group": "versions.example.com", "scope": "Namespaced",
            "names": { "plural": "hats", "kind": "Hat" },
            "versions": [version("v1", true), version("v1beta1", true), version("v1alpha1", false)],
        },
    })
}

/// Generates a write to one of two objects, in either version.
pub fn operation(random: &mut Random, namespace: &str) -> Operation {
    let version = random.pick(&["v1", "v1beta1"]);
    let collection = format!("/apis/versions.example.com/{version}/namespaces/{namespace}/hats");
    let name = random.pick(&["one", "two"]);
    let object = format!("{collection}/{name}");
    let manager = random.pick(&["m1", "m2", "m3", "kubectl"]);
    let hat = |content: Value| {
        let mut hat = json!({ "apiVersion": format!("versions.example.com/{version}"), "kind": "Hat" });
        let fields = content.as_object().expect("an object").clone();
        hat.as_object_mut().expect("an object").extend(fields);
        hat["metadata"]["name"] = name.into();
        hat
    };
    let (verb, method, part, media, force, body) = match random.below(100) {
        0..65 => {
            let force = if random.chance(40) { "&force=true" } else { "" };
            ("apply", "PATCH", "", APPLY, force, hat(content(random)))
        }
        65..85 => ("merge", "PATCH", "", MERGE, "", content(random)),
        85..93 => {
            let status = json!({ "metadata": {}, "status": { "phase": random.pick(&["a", "b"]) } });
            ("status", "PATCH", "/status", random.pick(&[MERGE, APPLY]), "&force=true", hat(status))
        }
        93..96 => ("delete", "DELETE", "", "", "", Value::Null),
        _ => {
            let forgotten = json!({ "metadata": { "managedFields": [{}] } });
            ("forget", "PATCH", "", MERGE, "", forgotten)
        }
    };
    // Only apply patches have a `force` parameter.
    let force = if media == APPLY { force } else { "" };
    let path = format!("{object}{part}?fieldManager={manager}{force}");
    Operation { verb, method, path, object, media, agent: "agent", body }
}

/// Generates a part of an object.
fn content(random: &mut Random) -> Value {
    let mut metadata = json!({});
    let labels = random.map(&["a", "b"], &["1", "2"], 50);
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        metadata["labels"] = labels;
    }
    let mut spec = json!({});
    if random.chance(40) {
        spec["size"] = random.below(3).into();
    }
    if random.chance(40) {
        spec["colour"] = random.pick(&["red", "blue"]).into();
    }
    if random.chance(40) {
        spec["words"] = random.some(&["x", "y", "z"]).into();
    }
    if random.chance(50) {
        let names = random.some(&["i1", "i2", "i3"]);
        let items = names.into_iter().map(|name| json!({ "name": name, "value": random.pick(&["1", "2"]) }));
        spec["items"] = items.collect();
    }
    json!({ "metadata": metadata, "spec": spec })
}
