//! Limits on time and error messages for malicious objects.

use std::cell::Cell;

use atoll_crd::{Definition, ValidationResult};
use atoll_meta::{Deadline, Status};
use serde_json::{Value, json};

fn definition(spec: &Value) -> Definition {
    Definition::compile(&json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        }],
    }}))
}

fn check(definition: &Definition, spec: Value, deadline: &Deadline<'_>) -> ValidationResult {
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
    let mut findings = ValidationResult::default();
    definition.versions()[0].validate_create(&object, &mut findings, deadline);
    findings
}

/// The number of errors and the size of the response.
fn response_size(definition: &Definition, spec: Value) -> (usize, usize) {
    let errors = check(definition, spec, &Deadline::never()).errors;
    let count = errors.len();
    (count, Status::invalid("example.com", "Thing", "a", errors).to_json().len())
}

#[test]
fn errors_are_limited_in_number_and_size() {
    let long = "x".repeat(1 << 20);
    let items = |item: Value| json!({"type": "array", "items": item});
    let wrong = |value: Value| Value::from(vec![value; 1000]);
    let rule = json!([{"rule": format!("self == 'b' || self == '{}'", "y".repeat(1 << 16))}]);
    let parts: Vec<Value> = (0..1000).map(|n| json!({"maxLength": n})).collect();
    for (name, schema, object) in [
        ("one long value", json!({"type": "string", "enum": [long]}), wrong("a".into())),
        (
            "many values",
            json!({"type": "string", "enum": (0..100_000).map(|n| n.to_string()).collect::<Vec<_>>()}),
            wrong("a".into()),
        ),
        (
            "a long pattern",
            json!({"type": "string", "pattern": format!("^{}$", "x".repeat(100_000))}),
            wrong("a".into()),
        ),
        ("a long text", json!({"type": "string", "minLength": 1 << 22}), Value::from(vec![long.clone(); 20])),
        (
            "a long text of another type",
            json!({"type": "string", "format": "date"}),
            Value::from(vec![long.clone(); 20]),
        ),
        ("parts", json!({"type": "string", "allOf": parts}), json!([long])),
        ("a rule", json!({"type": "string", "x-kubernetes-validations": rule}), wrong("a".into())),
    ] {
        let (count, size) = response_size(&definition(&items(schema)), object);
        assert!(count > 0 && count <= 1002, "{name}: {count} errors");
        assert!(size < 2 << 20, "{name}: {size} bytes");
    }
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let twice: Vec<String> = (0..4000).map(|n| (n / 2).to_string()).collect();
    assert_eq!(response_size(&definition(&set), json!(twice)).0, 1000);
    let wide: serde_json::Map<String, Value> = (0..2000).map(|n| (n.to_string(), json!(1))).collect();
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let errors = check(&definition(&map), wide.into(), &Deadline::never()).errors;
    assert_eq!(errors.len(), 1001);
    assert_eq!(
        errors[1000].to_string(),
        "<nil>: Invalid value: \"\": more than 1000 errors were found; the others are not shown"
    );
}

#[test]
fn validation_ends_at_the_deadline() {
    let parts: Vec<Value> = (0..1000).map(|n| json!({"enum": [n.to_string()]})).collect();
    let rule = json!([{"rule": "self.all(a, self.all(b, a != 'x' || b != 'x'))"}]);
    for (name, schema) in [
        ("parts", json!({"type": "array", "items": {"type": "string", "anyOf": parts}})),
        ("a rule", json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rule})),
        ("unique", json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
    ] {
        let items: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 20
        };
        let (definition, deadline) = (definition(&schema), Deadline::new(&is_over));
        check(&definition, json!(items), &deadline);
        assert!(deadline.has_passed(), "{name} checked the deadline {} times", asked.get());
        let deadline = Deadline::new(&|| false);
        check(&definition, json!(items), &deadline);
        assert!(!deadline.has_passed());
    }
}

#[test]
fn long_texts_are_not_matched_with_large_patterns() {
    let definition = definition(&json!({"type": "string", "pattern": "^(a[ab]{800}c)*$"}));
    let errors = check(&definition, "a".repeat(2 << 20).into(), &Deadline::never()).errors;
    let message = errors[0].to_string();
    assert!(
        message.contains("is too long to be matched with '^(a[ab]{800}c)*$'"),
        "{}",
        &message[message.len() - 200..]
    );
    let good = format!("a{}c", "ab".repeat(400));
    assert!(check(&definition, good.repeat(5).into(), &Deadline::never()).errors.is_empty());
}

#[test]
fn the_total_size_of_defaults_is_limited() {
    let item = |bytes: usize| json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(bytes)}}});
    let filled = |bytes: usize, count: usize| {
        let definition = definition(&json!({"type": "array", "items": item(bytes)}));
        let mut object =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": vec![json!({}); count]});
        let is_complete = definition.versions()[0].schema.apply_defaults(&mut object);
        (
            is_complete,
            object["spec"].as_array().into_iter().flatten().filter(|item| item.get("a").is_some()).count(),
        )
    };
    assert_eq!(filled(1000, 1000), (true, 1000));
    let (is_complete, count) = filled(100_000, 1000);
    assert!(!is_complete && count < 400, "{count}");
}
