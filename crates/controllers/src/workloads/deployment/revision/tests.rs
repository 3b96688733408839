use std::sync::Arc;

use super::*;

fn deployment(annotations: Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "d", "annotations": annotations},
        "spec": {
            "replicas": 3, "minReadySeconds": 5,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
        "status": {},
    })
}

fn set(name: &str, created: &str, image: &str, revision: Value) -> Set {
    let mut set = json!({
        "metadata": {"name": name, "creationTimestamp": created, "annotations": {}},
        "spec": {"minReadySeconds": 5, "template": {
            "metadata": {"labels": {"app": "web", TEMPLATE_HASH: name}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }},
    });
    if !revision.is_null() {
        set["metadata"]["annotations"][REVISION] = revision;
    }
    Set::new(Arc::new(set))
}

#[test]
fn the_new_set_is_the_oldest_with_the_template() {
    let sets = vec![
        set("c", "2026-11-15T08:00:02Z", "i", Value::Null),
        set("b", "2026-11-15T08:00:01Z", "i", Value::Null),
        set("a", "2026-11-15T08:00:00Z", "j", Value::Null),
    ];
    let (new, old) = split(&deployment(json!({})), sets);
    assert_eq!(new.as_ref().map(Set::name), Some("b"));
    assert_eq!(old.iter().map(Set::name).collect::<Vec<_>>(), ["a", "c"]);
    let (new, old) = split(&deployment(json!({})), vec![set("a", "2026-11-15T08:00:00Z", "j", Value::Null)]);
    assert!(new.is_none() && old.len() == 1);
}

#[test]
fn revisions_grow() {
    let old = |revisions: &[&str]| -> Vec<Set> {
        revisions.iter().map(|own| set("a", "2026-11-15T08:00:00Z", "i", json!(own))).collect()
    };
    for (revisions, next) in [(vec![], 1), (vec!["1"], 2), (vec!["3", "7", "5"], 8), (vec!["x", "2"], 3)] {
        assert_eq!(next_revision(&old(&revisions)), next, "{revisions:?}");
    }
}

#[test]
fn sets_copy_annotations_of_their_deployment() {
    let deployment = deployment(json!({
        "note": "new", REVISION: "9", DESIRED_REPLICAS: "9",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }));
    // The previous revision; annotations after it became revision 4.
    let cases = [
        (Value::Null, json!({"note": "new", REVISION: "4"})),
        (json!("4"), json!({"note": "new", REVISION: "4"})),
        (json!("6"), json!({"note": "new", REVISION: "6"})),
        (json!("2"), json!({"note": "new", REVISION: "4", REVISION_HISTORY: "2"})),
        (json!("x"), json!({"note": "new", REVISION: "x"})),
    ];
    for (before, wanted) in cases {
        let mut new = set("a", "2026-11-15T08:00:00Z", "i", before);
        sync_with_deployment(&deployment, &mut new, 4);
        assert_eq!(new.object()["metadata"]["annotations"], wanted);
        let mut again = Set::new(Arc::new(new.object().clone()));
        sync_with_deployment(&deployment, &mut again, 4);
        assert!(again.next.is_none(), "no change");
    }
    let mut set_with_old_delay = set("a", "2026-11-15T08:00:00Z", "i", json!("4"));
    set_with_old_delay.change()["spec"]["minReadySeconds"] = json!(1);
    let mut set_with_old_delay = Set::new(Arc::new(set_with_old_delay.object().clone()));
    sync_with_deployment(&deployment, &mut set_with_old_delay, 4);
    assert_eq!(set_with_old_delay.object()["spec"]["minReadySeconds"], 5);
}

#[test]
fn revision_history_is_truncated() {
    assert_eq!(append_revision("", "1").as_deref(), Some("1"));
    assert_eq!(append_revision("1,3", "5").as_deref(), Some("1,3,5"));
    let full: Vec<String> = (1000..1400).map(|own| own.to_string()).collect();
    let full = full.join(",");
    assert_eq!(full.len(), 1999);
    let longer = append_revision(&full, "1400").expect("room for the latest revision");
    assert!(
        longer.len() <= MAX_HISTORY_LENGTH && longer.starts_with("1001,") && longer.ends_with(",1399,1400")
    );
}

#[test]
fn new_sets_are_made_from_templates() {
    let deployment = deployment(json!({"note": "x"}));
    let created = new_replica_set(&deployment, 2, 7);
    let hash = template_hash(&deployment["spec"]["template"], None);
    let labels = json!({"app": "web", TEMPLATE_HASH: hash});
    assert_eq!(object::name(&created), format!("web-{hash}"));
    assert_eq!(created["metadata"]["labels"], labels);
    assert_eq!(created["spec"]["selector"], json!({"matchLabels": labels}));
    assert_eq!(created["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        (created["spec"]["replicas"].as_i64(), created["spec"]["minReadySeconds"].as_i64()),
        (Some(2), Some(5))
    );
    let annotations = json!({"note": "x", REVISION: "7", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"});
    assert_eq!(created["metadata"]["annotations"], annotations);
    assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "d");
    assert!(is_same_template(&created["spec"]["template"], &deployment["spec"]["template"]));
}

#[test]
fn hashes_differ_with_collisions() {
    let template = json!({"spec": {"containers": []}});
    let hash = template_hash(&template, None);
    assert!((1..=10).contains(&hash.len()) && hash.bytes().all(|byte| ALPHABET.contains(&byte)), "{hash}");
    assert_eq!(hash, template_hash(&template, Some(0)), "zero collisions");
    assert_ne!(hash, template_hash(&template, Some(1)));
    assert_ne!(hash, template_hash(&json!({"spec": {}}), None));
    assert_eq!(set_name(&"d".repeat(253), "abc"), format!("{}-abc", "d".repeat(249)));
}
