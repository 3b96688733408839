//! The stored form and responses built from it.

use serde_json::json;

use super::*;
use crate::json::parse;

fn encoded(object: &Value) -> String {
    String::from_utf8(encode_object(object)).unwrap()
}

#[test]
fn the_order_is_fixed() {
    let object = json!({
        "spec": {"a": 1},
        "apiVersion": "v1",
        "data": {"<": "b"},
        "kind": "ConfigMap",
        "metadata": {
            "managedFields": [], "finalizers": ["f"], "ownerReferences": [], "labels": {"a": "b"},
            "deletionGracePeriodSeconds": 1, "deletionTimestamp": "d", "creationTimestamp": "c", "generation": 2,
            "uid": "u", "namespace": "n", "generateName": "g", "name": "a", "annotations": {"k": "v"},
            "selfLink": "s", "resourceVersion": "5"
        }
    });
    let expected = concat!(
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"annotations":{"k":"v"},"name":"a","generateName":"g","#,
        r#""namespace":"n","uid":"u","generation":2,"creationTimestamp":"c","deletionTimestamp":"d","#,
        r#""deletionGracePeriodSeconds":1,"labels":{"a":"b"},"ownerReferences":[],"finalizers":["f"],"#,
        r#""managedFields":[],"selfLink":"s"},"data":{"\u003c":"b"},"spec":{"a":1}}"#
    );
    assert_eq!(encoded(&object), expected);
}

#[test]
fn nothing_but_the_resource_version_is_lost() {
    let mut object = json!({"kind": "K", "apiVersion": "g/v1", "metadata": {"name": "a", "resourceVersion": "5"},
        "status": {"x": [1, {"y": null}]}});
    let stored = encode_object(&object);
    assert_eq!(parse(&splice_resource_version(&stored, 5)).unwrap().value, object);
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(parse(&stored).unwrap().value, object);
}

#[test]
fn prefix_is_always_the_same() {
    for object in
        [json!({}), json!(null), json!({"metadata": null}), json!({"metadata": {"resourceVersion": "1"}})]
    {
        assert_eq!(encoded(&object), r#"{"kind":"","apiVersion":"","metadata":{}}"#);
    }
}

#[test]
fn the_resource_version_goes_first() {
    let spliced = |object: &Value, revision| {
        String::from_utf8(splice_resource_version(&encode_object(object), revision)).unwrap()
    };
    let object = json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": "a"}, "x": 1});
    assert_eq!(
        spliced(&object, 42),
        r#"{"kind":"K","apiVersion":"v1","metadata":{"resourceVersion":"42","name":"a"},"x":1}"#
    );
    assert_eq!(
        spliced(&json!({}), u64::MAX),
        r#"{"kind":"","apiVersion":"","metadata":{"resourceVersion":"18446744073709551615"}}"#
    );
}

#[test]
fn an_item_has_no_type() {
    // A kind that looks like the search string must not cause a false match.
    let object =
        json!({"kind": "a\"metadata\":{\\", "apiVersion": "b\",\"metadata\":{", "metadata": {"name": "a"}});
    let stored = encode_object(&object);
    let item = [b"{", &stored[prefix_len(&stored)..]].concat();
    assert_eq!(String::from_utf8(item).unwrap(), r#"{"metadata":{"name":"a"}}"#);
    let spliced = parse(&splice_resource_version(&stored, 1)).unwrap().value;
    assert_eq!((&spliced["kind"], &spliced["metadata"]["resourceVersion"]), (&object["kind"], &json!("1")));
}

#[test]
fn metadata_is_found_unchanged() {
    let object = json!({
        "kind": "K", "apiVersion": "v1", "spec": {"x": "}"},
        "metadata": {"name": "a", "labels": {"}": "{\"", "b": "\\"}, "finalizers": ["[", {}]},
    });
    let stored = encode_object(&object);
    assert_eq!(parse(metadata_of(&stored).unwrap()).unwrap().value, object["metadata"]);
    assert_eq!(metadata_of(&encode_object(&json!({}))), Some(&b"{}"[..]));
    assert_eq!(metadata_of(b"{\"metadata\":{}}"), None);
    assert_eq!(metadata_of(&stored[..stored.len() / 2]), None);
}

#[test]
fn other_input_is_unchanged() {
    let others: [&[u8]; 7] = [
        b"",
        b"{}",
        b"{\"metadata\":{}}",
        b"{\"kind\":\"K",
        b"{\"kind\":\"K\\",
        b"{\"kind\":\"K\",\"apiVersion\":1,\"metadata\":{}}",
        b"{\"kind\":\"K\",\"apiVersion\":\"v1\",\"spec\":{}}",
    ];
    for other in others {
        assert_eq!(prefix_len(other), 1);
        assert_eq!(splice_resource_version(other, 7), other);
    }
}

#[test]
fn fields_of_the_metadata_are_read_alone() {
    let object = json!({
        "kind": "K",
        "apiVersion": "v1",
        "metadata": {
            "name": "a\"}",
            "generation": 3,
            "annotations": { "x": "{\"name\":\"b\"},[", "name": "c" },
            "finalizers": [],
            "managedFields": [{ "name": "d", "fieldsV1": { "f:name": {} } }],
        },
        "spec": { "name": "e" },
    });
    let stored = encode_object(&object);
    for encoded in [stored.clone(), splice_resource_version(&stored, 12)] {
        let whole = parse(&encoded).unwrap().value;
        for names in [
            &["name"][..],
            &["generation", "finalizers"],
            &["annotations", "deletionTimestamp"],
            &["managedFields", "resourceVersion"],
            &[],
        ] {
            let fields = metadata_fields(&encoded, names).unwrap();
            let expected: serde_json::Map<String, Value> = names
                .iter()
                .filter_map(|name| Some(((*name).to_string(), whole["metadata"].get(name)?.clone())))
                .collect();
            assert_eq!(fields, json!({ "metadata": expected }), "{names:?}");
        }
        for cut in 0..encoded.len() - 30 {
            // Text that was cut is not mistaken for complete metadata with other fields.
            let fields = metadata_fields(&encoded[..cut], &["name"]);
            assert!(fields.is_none_or(|fields| fields["metadata"]["name"] == "a\"}"), "{cut}");
        }
    }
    assert_eq!(metadata_fields(&encode_object(&json!({})), &["name"]), Some(json!({ "metadata": {} })));
    assert_eq!(metadata_fields(b"{\"metadata\":{}}", &["name"]), None);
}
