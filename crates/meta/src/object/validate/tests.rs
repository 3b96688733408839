//! Validation of metadata.

use serde_json::{Value, json};

use super::*;
use crate::names::name_is_dns_subdomain;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn object(metadata: &str) -> Value {
    json!({"metadata": serde_json::from_str::<Value>(metadata).unwrap()})
}

#[test]
fn metadata_is_validated_as_upstream() {
    let path = FieldPath::new("metadata");
    for (namespaced, new, old, expected) in CASES {
        let errors = if old.is_empty() {
            validate_object_meta(&object(new), *namespaced, name_is_dns_subdomain, &path)
        } else {
            validate_object_meta_update(&object(new), &object(old), &path)
        };
        assert_eq!(messages(&errors), *expected, "{new} after {old}");
    }
}

#[test]
fn annotations_have_a_total_size() {
    let path = FieldPath::new("metadata").child("annotations");
    let value = "v".repeat(ANNOTATIONS_LIMIT / 2 - 1);
    let fitting = [("a", value.as_str()), ("b", value.as_str())];
    assert_eq!(validate_annotations(fitting.into_iter(), &path), []);
    let errors = validate_annotations(fitting.into_iter().chain([("c", "")]), &path);
    assert_eq!(messages(&errors), ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
}

#[test]
fn empty_and_absent_fields_are_equal() {
    let path = FieldPath::new("spec");
    assert_eq!(validate_immutable(&json!({}), &Value::Null, &path), None);
    assert_eq!(validate_immutable(&json!([]), &json!([]), &path), None);
    assert_eq!(validate_immutable(&json!(1), &json!(1), &path), None);
    let error = validate_immutable(&json!({"a": "<"}), &json!({}), &path).unwrap();
    assert_eq!(error.to_string(), "spec: Invalid value: {\"a\":\"\\u003c\"}: field is immutable");
}

#[test]
fn selectors_of_objects_are_checked() {
    let path = FieldPath::new("spec").child("selector");
    let good = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}]});
    assert_eq!(validate_label_selector(&good, &path), []);
    let bad = json!({"matchLabels": {"a": "b c"}, "matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["b"]},
        {"key": "", "operator": "Equals", "values": ["-"]}]});
    let fields: Vec<(String, String)> = validate_label_selector(&bad, &path)
        .iter()
        .map(|error| (error.field().to_owned(), error.body().split(": ").next().unwrap().to_owned()))
        .collect();
    let expected = [
        ("spec.selector.matchLabels", "Invalid value"),
        ("spec.selector.matchExpressions[0].values", "Required value"),
        ("spec.selector.matchExpressions[1].values", "Forbidden"),
        ("spec.selector.matchExpressions[2].operator", "Invalid value"),
        ("spec.selector.matchExpressions[2].key", "Invalid value"),
        ("spec.selector.matchExpressions[2].key", "Invalid value"),
        ("spec.selector.matchExpressions[2].values[0]", "Invalid value"),
    ];
    assert_eq!(fields, expected.map(|(field, kind)| (field.to_owned(), kind.to_owned())));
}

/// Recorded from k8s.io/apimachinery/pkg/api/validation: whether the kind is namespaced, the metadata, for
/// updates the old metadata, and the errors.
#[rustfmt::skip]
const CASES: &[(bool, &str, &str, &[&str])] = &[
    (true, r#"{"name":"a","namespace":"n"}"#, "", &[]),
    (true, "{}", "", &["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"]),
    (true, r#"{"name":"A_b","namespace":"N.x"}"#, "", &[r#"metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#, r#"metadata.namespace: Invalid value: "N.x": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#]),
    (false, r#"{"name":"a","namespace":"n"}"#, "", &["metadata.namespace: Forbidden: not allowed on this type"]),
    (false, r#"{"name":"a"}"#, "", &[]),
    (false, r#"{"generateName":"a-"}"#, "", &["metadata.name: Required value: name or generateName is required"]),
    (false, r#"{"generateName":"A-","name":"A-x"}"#, "", &[r#"metadata.name: Invalid value: "A-x": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (false, r#"{"name":"a","generation":-1}"#, "", &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
    (false, r#"{"name":"a","labels":{"a b":"c"}}"#, "", &[r#"metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (false, r#"{"name":"a","labels":{"a":"c d"}}"#, "", &[r#"metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#]),
    (false, r#"{"name":"a","labels":{"-a":"-c"}}"#, "", &[r#"metadata.labels: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#, r#"metadata.labels: Invalid value: "-c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#]),
    (false, r#"{"name":"a","annotations":{"A.io/B":"x"}}"#, "", &[]),
    (false, r#"{"name":"a","annotations":{"a b":"x"}}"#, "", &[r#"metadata.annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}"#, "", &[]),
    (false, r#"{"name":"a","ownerReferences":[{}]}"#, "", &[r#"metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#, r#"metadata.ownerReferences.kind: Invalid value: "": must not be empty"#, r#"metadata.ownerReferences.name: Invalid value: "": must not be empty"#, r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"a/b/c","kind":"Pod","name":"p","uid":"u"}]}"#, "", &[r#"metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"a/","kind":"Pod","name":"p","uid":"u"}]}"#, "", &[r#"metadata.ownerReferences.apiVersion: Invalid value: "a/": version must not be empty"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"/","kind":"Pod","name":"p","uid":"u"}]}"#, "", &[r#"metadata.ownerReferences.apiVersion: Invalid value: "/": version must not be empty"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"p","uid":"u","blockOwnerDeletion":true}]}"#, "", &[r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u","blockOwnerDeletion":true}: /v1, Kind=Event is disallowed from being an owner"#]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"events.k8s.io/v1","kind":"Event","name":"p","uid":"u"}]}"#, "", &[]),
    (false, r#"{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p<","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"v","controller":true,"blockOwnerDeletion":false},{"apiVersion":"v1","kind":"Pod","name":"r","uid":"v","controller":false}]}"#, "", &[r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"p\u003c","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"v","controller":true,"blockOwnerDeletion":false},{"apiVersion":"v1","kind":"Pod","name":"r","uid":"v","controller":false}]: Only one reference can have Controller set to true. Found "true" in references for Pod/p< and Pod/q"#]),
    (false, r#"{"name":"a","finalizers":["x","a b"]}"#, "", &[r#"metadata.finalizers: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (false, r#"{"name":"a","finalizers":["orphan","foregroundDeletion"]}"#, "", &[r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#]),
    (false, r#"{"name":"a","finalizers":["example.com/f"]}"#, "", &[]),
    (false, r#"{"name":"a","managedFields":[{"operation":"Apply","manager":"m","fieldsType":"FieldsV1"},{"operation":"Bogus<","manager":"m\u0001","fieldsType":"V2"},{}]}"#, "", &[r#"metadata.managedFields[1].operation: Invalid value: "Bogus\u003c": must be `Apply` or `Update`"#, r#"metadata.managedFields[1].fieldsType: Invalid value: "V2": must be `FieldsV1`"#, r#"metadata.managedFields[1].manager: Invalid value: "m\x01": invalid character U+0001 (at position 1)"#, r#"metadata.managedFields[2].operation: Invalid value: "": must be `Apply` or `Update`"#]),
    (false, r#"{"name":"a","managedFields":[{"operation":"Update","manager":"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm","subresource":"sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"}]}"#, "", &["metadata.managedFields[0].manager: Too long: may not be more than 128 bytes", "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes"]),
    (true, r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}"#, r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}"#, &[]),
    (true, r#"{"name":"a"}"#, r#"{"name":"b","namespace":"n","uid":"u","resourceVersion":"1","generation":2}"#, &[r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#, "metadata.generation: Invalid value: 0: must not be decremented", r#"metadata.name: Invalid value: "a": field is immutable"#, r#"metadata.namespace: Invalid value: "": field is immutable"#, r#"metadata.uid: Invalid value: "": field is immutable"#]),
    (true, r#"{"name":"b<","namespace":"m","uid":"v<","resourceVersion":"1","generation":1}"#, r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","generation":2}"#, &["metadata.generation: Invalid value: 1: must not be decremented", r#"metadata.name: Invalid value: "b<": field is immutable"#, r#"metadata.namespace: Invalid value: "m": field is immutable"#, r#"metadata.uid: Invalid value: "v\u003c": field is immutable"#]),
    (true, r#"{"name":"a","resourceVersion":"1","creationTimestamp":"2026-11-15T08:07:21Z","deletionTimestamp":"2026-11-15T08:07:21Z","deletionGracePeriodSeconds":3}"#, r#"{"name":"a"}"#, &[r#"metadata.creationTimestamp: Invalid value: "2026-11-15T08:07:21Z": field is immutable"#, r#"metadata.deletionTimestamp: Invalid value: "2026-11-15T08:07:21Z": field is immutable"#, "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable"]),
    (true, r#"{"name":"a","resourceVersion":"1"}"#, r#"{"name":"a","creationTimestamp":"2026-11-15T08:07:21Z","deletionTimestamp":"2026-11-15T08:07:21Z","deletionGracePeriodSeconds":3}"#, &["metadata.creationTimestamp: Invalid value: null: field is immutable", "metadata.deletionTimestamp: Invalid value: null: field is immutable", "metadata.deletionGracePeriodSeconds: Invalid value: null: field is immutable"]),
    (true, r#"{"name":"a","resourceVersion":"1","creationTimestamp":"2026-11-15T09:07:21+01:00"}"#, r#"{"name":"a","creationTimestamp":"2026-11-15T08:07:21Z"}"#, &[]),
    (true, r#"{"name":"a","resourceVersion":"1","creationTimestamp":"0001-01-01T00:00:00Z"}"#, r#"{"name":"a"}"#, &[]),
    (true, r#"{"name":"a","resourceVersion":"1","deletionTimestamp":"2026-11-15T08:07:21Z","finalizers":["z","y","x"]}"#, r#"{"name":"a","deletionTimestamp":"2026-11-15T08:07:21Z","finalizers":["x"]}"#, &[r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"y", "z"}"#]),
    (true, r#"{"name":"a","resourceVersion":"1","deletionTimestamp":"2026-11-15T08:07:21Z","finalizers":[]}"#, r#"{"name":"a","deletionTimestamp":"2026-11-15T08:07:21Z","finalizers":["x"]}"#, &[]),
    (true, r#"{"name":"a","resourceVersion":"1","labels":{"a b":"c"},"annotations":{"-":"1"},"finalizers":["not a name"]}"#, r#"{"name":"a"}"#, &[r#"metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#, r#"metadata.annotations: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
];

#[test]
fn errors_that_show_all_owners_are_limited() {
    let owner = |number: usize| {
        json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("p{number}"), "uid": format!("u{number}"),
            "controller": true })
    };
    let object = |owners: usize| {
        let owners: Vec<Value> = (0..owners).map(owner).collect();
        json!({ "metadata": { "ownerReferences": owners } })
    };
    let errors = |owners| validate_owner_references(&object(owners), &FieldPath::new("owners")).len();
    assert_eq!((errors(1), errors(2), errors(50)), (0, 1, 49));
    assert_eq!(errors(4000), 3);
}

#[test]
fn errors_that_show_a_long_manager_are_limited() {
    let errors = |manager: &str| validate_field_manager(manager, &FieldPath::new("manager")).len();
    assert_eq!((errors("a"), errors("\u{1}\u{2}"), errors(&"a".repeat(1000))), (0, 2, 1));
    assert_eq!(errors(&"\u{1}".repeat(1000)), 2);
}
