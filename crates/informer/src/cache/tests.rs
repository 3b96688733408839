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
fn the_newest_counts_whoever_brings_it() {
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
    assert!(cache.owned_by(&owner, "o").is_empty(), "owners are those of the newest");
}

#[test]
fn what_is_gone_does_not_come_back_but_a_successor_may() {
    let cache = cache();
    cache.store(pod("a", "1", 5, None));
    cache.remove(&pod("a", "1", 9, None));
    cache.wrote(&pod("a", "1", 7, None));
    assert!(cache.is_empty(), "an answer that is late");
    cache.store(pod("a", "2", 11, None));
    assert_eq!(cache.len(), 1);
    cache.remove(&pod("a", "1", 9, None));
    assert_eq!(cache.len(), 1, "news of the predecessor's end");
}

#[test]
fn what_was_asked_to_go_is_going_whatever_was_said_before() {
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
fn lists_are_of_a_namespace_or_a_workspace() {
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
fn indices_know_what_was_there_before_and_what_changes() {
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
    assert_eq!(names(&cache.found(index, "x")), ["a", "b"]);
    cache.store(on("a", 3, "y"));
    cache.remove(&on("b", 4, "x"));
    assert!(cache.found(index, "x").is_empty());
    assert_eq!(names(&cache.found(index, "y")), ["a"]);
}

#[test]
fn listeners_hear_all_in_order() {
    let cache = cache();
    cache.store(pod("a", "1", 1, None));
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hearing = heard.clone();
    cache.listen(move |change| {
        let revision = |object: &Option<Arc<Value>>| {
            object.as_ref().map_or("-".to_string(), |object| object::resource_version(object).to_string())
        };
        let line = format!("{} {}>{}", change.key, revision(&change.old), revision(&change.new));
        hearing.lock().unwrap().push(line);
    });
    cache.store(pod("a", "1", 2, None));
    cache.store(pod("a", "1", 2, None));
    cache.store(pod("b", "2", 3, None));
    cache.retain(&HashSet::from(["2".to_string()]), 3);
    let heard = heard.lock().unwrap();
    assert_eq!(*heard, ["n/a ->1", "n/a 1>2", "n/b ->3", "n/a 2>-"]);
}
