//! Custom resources.

use std::sync::Arc;

use atoll_crd::Schema;
use serde_json::{Value, json};

use super::{author, created, managers};
use crate::apply::Kind;

fn shirts() -> Kind {
    let schema = json!({
        "type": "object",
        "properties": { "spec": {
            "type": "object",
            "properties": {
                "color": { "type": "string" },
                "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                "sizes": { "type": "array", "items": { "type": "integer" } },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": { "type": "object", "required": ["port"], "properties": {
                        "port": { "type": "integer" },
                        "protocol": { "type": "string", "default": "TCP" },
                        "name": { "type": "string" },
                    } },
                },
                "whole": { "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": { "type": "string" } },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "either": { "x-kubernetes-int-or-string": true },
            },
        } },
    });
    let schema = Arc::new(Schema::compile(Some(&schema), false));
    Kind::custom("example.com/v1".to_owned(), "Shirt", schema)
}

fn shirt(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Shirt", "metadata": { "name": "one" }, "spec": spec })
}

#[test]
fn list_items_are_identified_by_the_schema() {
    let kind = shirts();
    let spec = json!({
        "color": "red", "tags": ["a", "b"], "sizes": [1, 2], "ports": [{ "port": 80, "name": "web" }],
        "whole": { "a": "b" }, "labels": { "x": "y" }, "free": { "p": { "q": [1] } }, "either": 7,
    });
    let object = created(&kind, shirt(spec), "me");
    let expected = json!({ "me Update": { "f:spec": {
        ".": {},
        "f:color": {},
        "f:either": {},
        "f:free": { ".": {}, "f:p": { ".": {}, "f:q": {} } },
        "f:labels": { ".": {}, "f:x": {} },
        "f:ports": { ".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:name": {}, "f:port": {} } },
        "f:sizes": {},
        "f:tags": { ".": {}, "v:\"a\"": {}, "v:\"b\"": {} },
        "f:whole": {},
    } } });
    assert_eq!(managers(&object), expected);
}

#[test]
fn configurations_are_merged_and_checked_by_the_schema() {
    let kind = shirts();
    let config = shirt(json!({ "tags": ["a"], "ports": [{ "port": 80 }] }));
    let first = kind.apply(kind.empty(), &config, &author("one"), false).unwrap();
    let config = shirt(json!({ "tags": ["b"], "ports": [{ "port": 80, "protocol": "UDP" }] }));
    let both = kind.apply(&first, &config, &author("two"), false).unwrap();
    let expected =
        json!({ "tags": ["a", "b"], "ports": [{ "port": 80 }, { "port": 80, "protocol": "UDP" }] });
    assert_eq!(both["spec"], expected);
    let cases = [
        (json!({ "odd": 1 }), ".spec.odd: field not declared in schema"),
        (json!({ "tags": {} }), ".spec.tags: expected list, got &{map[]}"),
        (json!({ "color": 1 }), ".spec.color: expected string, got &value.valueUnstructured{Value:1}"),
    ];
    for (spec, expected) in cases {
        let refused = kind.apply(&first, &shirt(spec), &author("one"), false).unwrap_err();
        assert!(refused.message().ends_with(expected), "{}", refused.message());
    }
    assert!(kind.accepts(&shirt(json!({ "color": "red" }))));
    assert!(!kind.accepts(&shirt(json!({ "odd": 1 }))));
}
