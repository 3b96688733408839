use serde_json::json;

use super::*;
use crate::resources;

fn pod(name: &str, uid: &str, revision: u64, owner: Option<&str>) -> Value {
    let owners = owner.map(|uid| json!([{"kind": "ReplicaSet", "name": "r", "uid": uid}]));
    json!({"metadata": {
        "namespace": "n", "name": name, "uid": uid, "resourceVersion": revision.to_string(),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": owners.unwrap_or(json!([])), "managedFields": [{"manager": "m"}],
    }})
}

fn names(objects: &[Arc<Value>]) -> Vec<&str> {
    objects.iter().map(|object| object::name(object)).collect()
}

fn cache() -> Cache {
    Cache::new(resources::PODS.clone())
}

#[test]
fn newest_version_wins() {
    let cache = cache();
    cache.store(pod("a", "1", 5, None));
    cache.wrote(&pod("a", "1", 7, Some("o")));
    cache.store(pod("a", "1", 6, None));
    let owner = Key::new("", "n", "owner");
    assert_eq!(names(&cache.owned_by(&owner, "o")), ["a"]);
    for elsewhere in [Key::new("w", "n", "owner"), Key::new("", "m", "owner")] {
        assert!(cache.owned_by(&elsewhere, "o").is_empty(), "{elsewhere}");
    }
    let held = cache.get(&Key::new("", "n", "a")).unwrap();
    assert_eq!(object::resource_version(&held), "7");
    assert!(held["metadata"].get("managedFields").is_none());
    cache.store(pod("a", "1", 8, None));
    assert!(cache.owned_by(&owner, "o").is_empty(), "the newest version has no owner");
}

#[test]
fn deleted_object_does_not_return_but_a_new_one_may() {
    let cache = cache();
    cache.store(pod("a", "1", 5, None));
    cache.remove(&pod("a", "1", 9, None));
    cache.wrote(&pod("a", "1", 7, None));
    assert!(cache.is_empty(), "a late response is ignored");
    cache.store(pod("a", "2", 11, None));
    assert_eq!(cache.len(), 1);
    cache.remove(&pod("a", "1", 9, None));
    assert_eq!(cache.len(), 1, "the deletion was of the previous object");
}

#[test]
fn panicking_listener_stops_nothing() {
    let (cache, seen) = (cache(), Arc::new(Mutex::new(Vec::new())));
    cache.listen(|change| assert_ne!(&*change.key.name, "bad"));
    let seeing = seen.clone();
    cache.listen(move |change| seeing.lock().unwrap().push(change.key.name.to_string()));
    cache.store(pod("bad", "1", 5, None));
    cache.store(pod("good", "2", 6, None));
    assert_eq!(*seen.lock().unwrap(), ["bad", "good"]);
    assert_eq!(cache.len(), 2);
}

#[test]
fn requested_deletion_overrides_older_versions() {
    let cache = cache();
    let key = Key::new("", "n", "a");
    cache.store(pod("a", "1", 5, None));
    cache.deleting(&key, "another");
    assert!(!object::is_being_deleted(&cache.get(&key).unwrap()));
    cache.deleting(&key, "1");
    assert!(object::is_being_deleted(&cache.get(&key).unwrap()));
    cache.store(pod("a", "1", 6, None));
    assert!(object::is_being_deleted(&cache.get(&key).unwrap()));
    cache.remove(&pod("a", "1", 7, None));
    cache.store(pod("a", "2", 8, None));
    assert!(!object::is_being_deleted(&cache.get(&key).unwrap()));
}

#[test]
fn lists_cover_a_namespace_or_a_workspace() {
    let cache = cache();
    for (workspace, namespace, name) in [("w", "n", "b"), ("w", "n", "a"), ("w", "o", "c"), ("v", "n", "d")] {
        let mut pod = pod(name, name, 1, None);
        object::set_namespace(&mut pod, namespace);
        object::set_annotation(&mut pod, crate::WORKSPACE, workspace);
        cache.store(pod);
    }
    assert_eq!(names(&cache.list("w", "n")), ["a", "b"]);
    assert_eq!(names(&cache.list("w", "")), ["a", "b", "c"]);
    assert_eq!(names(&cache.list("v", "")), ["d"]);
    assert!(cache.list("", "n").is_empty());
    assert_eq!(cache.all().len(), 4);
}

#[test]
fn indices_cover_existing_and_changed_objects() {
    fn by_node(pod: &Value) -> Vec<String> {
        pod["spec"]["nodeName"].as_str().map(String::from).into_iter().collect()
    }
    let cache = cache();
    let on = |name: &str, revision, node: &str| {
        let mut pod = pod(name, name, revision, None);
        pod["spec"]["nodeName"] = node.into();
        pod
    };
    cache.store(on("a", 1, "x"));
    let index = cache.index(by_node);
    assert_eq!(index, cache.index(by_node));
    cache.store(on("b", 2, "x"));
    assert_eq!(names(&cache.by_index(index, "x")), ["a", "b"]);
    cache.store(on("a", 3, "y"));
    cache.remove(&on("b", 4, "x"));
    assert!(cache.by_index(index, "x").is_empty());
    assert_eq!(names(&cache.by_index(index, "y")), ["a"]);
}

#[test]
fn listeners_receive_all_changes_in_order() {
    let cache = cache();
    cache.store(pod("a", "1", 1, None));
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let receiving = received.clone();
    cache.listen(move |change| {
        let revision = |object: &Option<Arc<Value>>| {
            object.as_ref().map_or("-".to_string(), |object| object::resource_version(object).to_string())
        };
        let line = format!("{} {}>{}", change.key, revision(&change.old), revision(&change.new));
        receiving.lock().unwrap().push(line);
    });
    cache.store(pod("a", "1", 2, None));
    cache.store(pod("a", "1", 2, None));
    cache.store(pod("b", "2", 3, None));
    cache.retain(&HashSet::from(["2".to_string()]), 3);
    let received = received.lock().unwrap();
    assert_eq!(*received, ["n/a ->1", "n/a 1>2", "n/b ->3", "n/a 2>-"]);
}
