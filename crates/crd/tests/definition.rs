//! Parts of a definition besides its schema: columns, scale, selectable fields, versions, OpenAPI.

use atoll_crd::{Definition, publish};
use atoll_meta::Deadline;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

fn definition() -> Definition {
    Definition::compile(&json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Ratio", "type": "number", "jsonPath": ".status.ratio"},
                    {"name": "On", "type": "boolean", "jsonPath": ".status.on"},
                    {"name": "Since", "type": "date", "jsonPath": ".status.since"},
                    {"name": "All", "type": "string", "jsonPath": ".status.list", "description": "everything"},
                ],
                "selectableFields": [{"jsonPath": ".spec.replicas"}, {"jsonPath": ".spec.color"}],
            },
            {"name": "v1beta1", "served": true, "storage": false, "deprecated": true},
            {"name": "v1alpha1", "served": false, "storage": false, "deprecated": true, "deprecationWarning": "gone"},
        ],
    }}))
}

#[test]
fn versions_have_warnings_and_types() {
    let definition = definition();
    let warnings: Vec<Option<&str>> =
        definition.versions().iter().map(|version| version.warning.as_deref()).collect();
    assert_eq!(warnings, [None, Some("example.com/v1beta1 Thing is deprecated"), Some("gone")]);
    assert_eq!(definition.storage_version().map(|version| &*version.name), Some("v1"));
    assert_eq!(&*definition.names().short_names, ["th".into()]);
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": 1}});
    definition.convert(&mut object, "v1beta1");
    assert_eq!(object["apiVersion"], "example.com/v1beta1");
    let errors = definition.validate_type(&object, "v1");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["apiVersion: Invalid value: \"example.com/v1beta1\": must be example.com/v1"]);
}

#[test]
fn cells_are_the_same_as_in_upstream() {
    let definition = definition();
    let version = &definition.versions()[0];
    let now = Timestamp::new(1_700_000_100, 0);
    let cells = |object: Value| -> Vec<Value> {
        version.columns.iter().map(|column| column.cell(&object, now)).collect()
    };
    let status = json!({
        "conditions": [{"type": "Ready", "status": "True"}], "ratio": 2, "on": true, "since": "2023-11-14T22:13:20Z",
        "list": [1, {"a": "<"}],
    });
    assert_eq!(
        cells(json!({"spec": {"replicas": 3}, "status": status})),
        [json!(3), json!("True"), json!(2.0), json!(true), json!("100s"), json!("[1,{\"a\":\"\\u003c\"}]")]
    );
    let status = json!({"ratio": "x", "on": 1, "since": "yesterday", "list": null});
    assert_eq!(
        cells(json!({"spec": {"replicas": 2.7}, "status": status})),
        [json!(2), json!(null), json!(null), json!(null), json!("<invalid>"), json!("<no value>")]
    );
    let mut described =
        version.columns.iter().map(|column| column.description.as_deref().unwrap_or_default());
    let first = "Custom resource definition column (in JSONPath format): .spec.replicas";
    assert_eq!(described.next(), Some(first));
    assert_eq!(described.next_back(), Some("everything"));
    let columns: Vec<&str> = definition.versions()[1].columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["Age"]);
}

#[test]
fn selectable_fields_are_printed_as_in_go() {
    let definition = definition();
    let object = json!({"spec": {"replicas": 3}});
    let fields: Vec<(&str, String)> = definition.versions()[0]
        .selectable
        .iter()
        .map(|field| (&*field.name, field.value(&object)))
        .collect();
    assert_eq!(fields, [("spec.replicas", "3".to_owned()), ("spec.color", String::new())]);
}

#[test]
fn scales_are_read_written_and_validated() {
    let definition = definition();
    let version = &definition.versions()[0];
    let scale = version.scale.as_ref().expect("the version has a scale");
    let mut object = json!({
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"},
    });
    let shown = scale.read(&object).expect("the object has replicas");
    assert_eq!(
        shown,
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"},
        })
    );
    scale.write(&mut object, 5).expect("the field can be set");
    assert_eq!(object["spec"]["replicas"], 5);
    let absent = scale.read(&json!({})).expect_err("the replicas are missing").to_string();
    assert_eq!(absent, "the spec replicas field \".spec.replicas\" does not exist");
    let cases = [
        (
            json!({"spec": {"replicas": -1}}),
            ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_i64}}),
            ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
        ),
        (
            json!({"status": {"replicas": "x"}}),
            ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
        ),
        (
            json!({"status": {"selector": 1}}),
            ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
        ),
        (
            json!({"status": [1]}),
            ".status.replicas: Invalid value: 0: .status.replicas accessor error: [1] is of the type []interface {}, expected map[string]interface{}",
        ),
    ];
    for (object, expected) in cases {
        let mut findings = atoll_crd::ValidationResult::default();
        version.validate_create(&object, &mut findings, &Deadline::never());
        let errors: Vec<String> = findings.errors.iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error == expected), "{object}: {errors:?}");
    }
}

#[test]
fn openapi_v2_omits_unsupported_keywords() {
    let schema = json!({
        "type": "object", "required": ["a", "b"], "anyOf": [{"required": ["a"]}],
        "properties": {
            "a": {"type": "object", "nullable": true, "required": ["x"], "properties": {"x": {"type": "string"}}},
            "b": {"x-kubernetes-int-or-string": true},
            "c": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "string"}},
        },
    });
    assert_eq!(
        publish::v3(&schema)["properties"]["b"],
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
    assert_eq!(
        publish::v2(&schema),
        json!({
            "type": "object", "required": ["b"],
            "properties": {
                "a": {"required": ["x"]}, "b": {"x-kubernetes-int-or-string": true},
                "c": {"x-kubernetes-preserve-unknown-fields": true},
            },
        })
    );
}
