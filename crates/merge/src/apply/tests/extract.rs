//! Extraction of managed fields.

use serde_json::{Value, json};

use super::super::extract;
use super::{author, created, kind};

/// Returns an entry of a manager with these fields.
fn entry(manager: &str, version: &str, subresource: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
        "subresource": subresource, "fieldsV1": fields,
    })
}

fn extracted(mut object: Value, entries: Vec<Value>) -> Option<Value> {
    object["apiVersion"] = json!("v1");
    object["metadata"] = json!({ "name": "a", "managedFields": entries });
    extract(&object).map(Value::Object)
}

#[test]
fn only_managed_fields_are_extracted() {
    let cases = [
        // Fields, and whole values where the set has no children.
        (
            json!({ "f:spec": { "f:a": {} } }),
            json!({ "spec": { "a": { "b": 1 }, "c": 2 } }),
            json!({ "spec": { "a": { "b": 1 } } }),
        ),
        (
            json!({ "f:spec": { ".": {}, "f:a": {} } }),
            json!({ "spec": { "a": [1, 2], "c": 2 } }),
            json!({ "spec": { "a": [1, 2] } }),
        ),
        (json!({ "f:spec": {} }), json!({ "spec": { "a": 1 } }), json!({ "spec": { "a": 1 } })),
        (
            json!({ "f:data": { "f:a": {} } }),
            json!({ "data": { "a": "1", "b": "2" } }),
            json!({ "data": { "a": "1" } }),
        ),
        // Items by key, in order, with their keys.
        (
            json!({ "f:l": { "k:{\"n\":\"b\"}": { "f:x": {} }, "k:{\"n\":\"a\"}": { ".": {}, "f:n": {} } } }),
            json!({ "l": [{ "n": "a", "x": 1 }, { "n": "b", "x": 2, "y": 3 }, { "n": "c" }] }),
            json!({ "l": [{ "n": "a" }, { "n": "b", "x": 2 }] }),
        ),
        (
            json!({ "f:l": { "k:{\"p\":53,\"q\":\"TCP\"}": { "f:x": {} }, "k:{\"p\":53,\"q\":\"UDP\"}": { "f:x": {} } } }),
            json!({ "l": [{ "p": 53, "q": "UDP", "x": 1, "y": 1 }, { "p": 53, "x": 2, "y": 2 }, { "q": "SCTP", "p": 53 }] }),
            json!({ "l": [{ "p": 53, "q": "UDP", "x": 1 }, { "p": 53, "x": 2 }] }),
        ),
        (
            json!({ "f:l": { "k:{\"n\":\"a\"}": {} } }),
            json!({ "l": [{ "n": "a", "x": 1 }] }),
            json!({ "l": [{ "n": "a", "x": 1 }] }),
        ),
        // Items by value or by index.
        (
            json!({ "f:l": { "v:\"b\"": {}, "v:3": {} } }),
            json!({ "l": ["a", "b", 3] }),
            json!({ "l": ["b", 3] }),
        ),
        (json!({ "f:l": { "i:1": {} } }), json!({ "l": ["a", "b"] }), json!({ "l": ["b"] })),
        // A value that has changed its type is kept.
        (json!({ "f:a": { "f:b": {} } }), json!({ "a": [1] }), json!({ "a": [1] })),
        (json!({ "f:a": { "v:1": {} } }), json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1 } })),
        (json!({ "f:a": { "f:b": {} } }), json!({ "a": 1 }), json!({ "a": 1 })),
        // Absent fields, and fields that are never extracted.
        (json!({ "f:spec": { "f:gone": {} } }), json!({ "spec": { "a": 1 } }), json!({ "spec": {} })),
        (
            json!({ "f:status": { "f:a": {} }, "f:metadata": { "f:labels": {} } }),
            json!({ "status": { "a": 1 } }),
            json!({}),
        ),
    ];
    for (fields, object, expected) in cases {
        let found = extracted(object.clone(), vec![entry("m", "v1", "", fields.clone())]);
        assert_eq!(found, Some(expected), "{fields} of {object}");
    }
}

#[test]
fn managers_are_combined_except_for_status() {
    let object = json!({ "spec": { "a": 1, "b": 2, "c": 3, "d": 4 } });
    let entries = vec![
        entry("one", "v1", "", json!({ "f:spec": { "f:a": {} } })),
        entry("two", "v1", "scale", json!({ "f:spec": { "f:b": {} } })),
        entry("three", "v1", "status", json!({ "f:spec": { "f:c": {} } })),
    ];
    assert_eq!(extracted(object, entries), Some(json!({ "spec": { "a": 1, "b": 2 } })));
}

#[test]
fn objects_without_managers_are_not_extracted() {
    let object = json!({ "spec": { "metrics": [1] } });
    let old = json!({ "f:spec": { "f:target": {} } });
    let same = json!({ "f:spec": { "f:metrics": {} } });
    let cases = [
        (vec![], None),
        (vec![entry("m", "v1", "status", same.clone())], None),
        (vec![json!({ "manager": "m", "operation": "Update" })], None),
        (vec![entry("m", "v0", "", old.clone()), entry("n", "v1", "", json!({ "f:spec": {} }))], None),
        (vec![entry("m", "v0", "", same)], Some(object.clone())),
        (vec![entry("m", "v1", "", old)], Some(json!({ "spec": {} }))),
    ];
    for (entries, expected) in cases {
        assert_eq!(extracted(object.clone(), entries.clone()), expected, "{entries:?}");
    }
    assert_eq!(extract(&json!({ "spec": {} })), None);
}

#[test]
fn defaults_are_not_extracted() {
    let kind = kind("v1", "Service");
    let applied = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
        "spec": { "ports": [{ "port": 80 }], "selector": { "app": "a" } },
    });
    let mut object = created(&kind, applied.clone(), "kubectl");
    // As after defaulting and allocation.
    object["spec"]["type"] = json!("ClusterIP");
    object["spec"]["ports"][0]["protocol"] = json!("TCP");
    object["spec"]["ports"][0]["nodePort"] = json!(30000);
    let expected =
        json!({ "spec": { "ports": [{ "port": 80, "protocol": "TCP" }], "selector": { "app": "a" } } });
    assert_eq!(extract(&object).map(Value::Object), Some(expected));
    // A manager that sets one of them owns it.
    let mut next = object.clone();
    next["spec"]["type"] = json!("NodePort");
    kind.record(&object, &mut next, &author("other"));
    let found = extract(&next).unwrap_or_default();
    assert_eq!(found["spec"]["type"], "NodePort");
    assert_eq!(found["spec"]["ports"][0].get("nodePort"), None);
}
