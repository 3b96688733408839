use super::*;

#[test]
fn hashes_equal_upstream() {
    // FNV-1 of nothing is its offset basis, 2166136261; each digit's code modulo 27 is a letter.
    assert_eq!(safe("2166136261"), {
        let letters = b"bcdfghjklmnpqrstvwxz2456789";
        "2166136261".bytes().map(|byte| char::from(letters[usize::from(byte) % 27])).collect::<String>()
    });
    let mut sum = Fnv::default();
    sum.add(b"a");
    assert_eq!(sum.0, 0x050c_5d7e, "FNV-1, not FNV-1a");
    let data = json!({"spec": {"template": {"$patch": "replace"}}});
    assert_ne!(hash(&data, Some(0)), hash(&data, Some(1)));
    assert_ne!(hash(&data, None), hash(&data, Some(0)));
}

#[test]
fn names_are_truncated() {
    assert_eq!(name("web", "abc"), "web-abc");
    assert_eq!(name(&"x".repeat(253), "abc").len(), 227);
}

#[test]
fn snapshots_restore_templates() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
    let owner = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": template}});
    let data = snapshot(&owner);
    assert_eq!(data["spec"]["template"]["$patch"], "replace");
    assert_eq!(data["spec"].as_object().map(Map::len), Some(1), "only the template");
    assert_eq!(template_of(&json!({"data": data})), template);
}

#[test]
fn nulls_are_absent() {
    for (one, other, expected) in [
        (json!({"a": 1}), json!({"a": 1}), true),
        (json!({"a": 1, "b": null}), json!({"a": 1}), true),
        (json!({"a": 1}), json!({"a": 1, "b": null}), true),
        (json!({"a": null}), json!({"b": null}), true),
        (json!({"a": {"b": [{"c": null}]}}), json!({"a": {"b": [{}]}}), true),
        (json!({"a": 1}), json!({"a": 2}), false),
        (json!({"a": 1}), json!({"b": 1}), false),
        (json!({"a": 1, "b": 1}), json!({"a": 1}), false),
        (json!([1]), json!([1, 2]), false),
    ] {
        assert_eq!(same(&one, &other), expected, "{one} {other}");
    }
}

#[test]
fn revisions_are_in_order() {
    let made = |name: &str, number: i64, created: &str| json!({"metadata": {"name": name, "creationTimestamp": created}, "revision": number});
    let mut all = [
        made("d", 2, "2026-01-01T00:00:00Z"),
        made("b", 1, "2026-01-02T00:00:00Z"),
        made("a", 1, "2026-01-02T00:00:00Z"),
        made("c", 1, "2026-01-01T00:00:00Z"),
    ];
    all.sort_by(in_order);
    assert_eq!(all.iter().map(object::name).collect::<String>(), "cabd");
}

#[test]
fn revisions_copy_metadata_of_their_owner() {
    let owner = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "annotations": {"k": "v", WORKSPACE: "w"}},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}}}},
    });
    let made = revision(&owner, &resources::STATEFUL_SETS, json!({}), 7, HASH_LABEL, "xyz");
    assert_eq!(made["metadata"]["labels"], json!({"app": "web", HASH_LABEL: "xyz"}));
    assert_eq!(made["metadata"]["annotations"], json!({"k": "v"}));
    assert_eq!(made["metadata"]["name"], "web-xyz");
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
    assert_eq!(made["revision"], 7);
}
