//! Getters and setters.

use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "generateName": "web-",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-11-15T08:07:21Z",
            "deletionTimestamp": "2026-11-15T09:07:21Z",
            "deletionGracePeriodSeconds": 30,
            "finalizers": ["a", "b"],
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"note": "x"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "2", "controller": true,
                 "blockOwnerDeletion": false}
            ]
        }
    })
}

#[test]
fn reads_metadata() {
    let pod = pod();
    assert_eq!((kind(&pod), api_version(&pod)), ("Pod", "v1"));
    assert_eq!((name(&pod), generate_name(&pod), namespace(&pod)), ("web-0", "web-", "shop"));
    assert_eq!((uid(&pod), resource_version(&pod), generation(&pod)), ("u", "7", 3));
    assert_eq!(creation_timestamp(&pod), Some("2026-11-15T08:07:21Z"));
    assert_eq!(deletion_timestamp(&pod), Some("2026-11-15T09:07:21Z"));
    assert!(is_being_deleted(&pod));
    assert_eq!(deletion_grace_period_seconds(&pod), Some(30));
    assert_eq!(finalizers(&pod).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(labels(&pod).collect::<Vec<_>>(), [("app", "web"), ("tier", "front")]);
    assert_eq!((label(&pod, "app"), label(&pod, "none")), (Some("web"), None));
    assert_eq!(annotations(&pod).collect::<Vec<_>>(), [("note", "x")]);
    assert_eq!((annotation(&pod, "note"), annotation(&pod, "none")), (Some("x"), None));
}

#[test]
fn reads_owners() {
    let pod = pod();
    let owners: Vec<OwnerReference<'_>> = owner_references(&pod).collect();
    assert_eq!(owners.len(), 2);
    assert_eq!((owners[0].name, owners[0].controller, owners[0].block_owner_deletion), ("n", None, None));
    let controller = controller_of(&pod).unwrap();
    assert_eq!(controller, owners[1]);
    assert_eq!((controller.api_version, controller.kind, controller.uid), ("apps/v1", "StatefulSet", "2"));
    assert_eq!(controller.block_owner_deletion, Some(false));
}

#[test]
fn absent_and_malformed_fields_read_as_empty() {
    for malformed in [
        json!({}),
        json!(null),
        json!([]),
        json!({"metadata": 1}),
        json!({"metadata": {"name": 1, "labels": [], "finalizers": {}}}),
    ] {
        assert_eq!((name(&malformed), kind(&malformed), generation(&malformed)), ("", "", 0));
        assert_eq!(
            labels(&malformed).count()
                + finalizers(&malformed).count()
                + owner_references(&malformed).count(),
            0
        );
        assert_eq!((creation_timestamp(&malformed), label(&malformed, "a")), (None, None));
        assert!(!is_being_deleted(&malformed));
    }
}

#[test]
fn api_versions_are_split() {
    let cases = [
        ("v1", Some(("", "v1"))),
        ("apps/v1", Some(("apps", "v1"))),
        ("", Some(("", ""))),
        ("/", Some(("", ""))),
        ("a/b/c", None),
    ];
    for (text, expected) in cases {
        assert_eq!(split_api_version(text), expected);
    }
}

#[test]
fn setters_make_and_clear_fields() {
    let mut object = json!(null);
    set_type(&mut object, "v1", "ConfigMap");
    set_name(&mut object, "a");
    set_namespace(&mut object, "n");
    set_uid(&mut object, "u");
    set_resource_version(&mut object, "1");
    set_generation(&mut object, 2);
    set_creation_timestamp(&mut object, "t");
    set_deletion_timestamp(&mut object, "d");
    set_deletion_grace_period_seconds(&mut object, Some(0));
    set_finalizers(&mut object, &["f"]);
    set_label(&mut object, "l", "1");
    set_annotation(&mut object, "k", "2");
    let full = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "t", "deletionTimestamp": "d", "deletionGracePeriodSeconds": 0,
        "finalizers": ["f"], "labels": {"l": "1"}, "annotations": {"k": "2"}}});
    assert_eq!(object, full);

    set_namespace(&mut object, "");
    set_uid(&mut object, "");
    set_resource_version(&mut object, "");
    set_generation(&mut object, 0);
    set_creation_timestamp(&mut object, "");
    set_deletion_timestamp(&mut object, "");
    set_deletion_grace_period_seconds(&mut object, None);
    set_finalizers::<&str>(&mut object, &[]);
    remove_label(&mut object, "l");
    remove_annotation(&mut object, "k");
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
}

#[test]
fn removing_absent_fields_changes_nothing() {
    let mut object = json!({"metadata": {"labels": {"a": "1"}}});
    remove_label(&mut object, "b");
    remove_annotation(&mut object, "b");
    assert_eq!(remove_metadata(&mut object, "name"), None);
    assert_eq!(object, json!({"metadata": {"labels": {"a": "1"}}}));
    let mut empty = json!({});
    remove_label(&mut empty, "b");
    set_name(&mut empty, "");
    assert_eq!(empty, json!({}));
}
