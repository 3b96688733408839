use atoll_informer::resources;
use serde_json::json;

use super::*;

fn sets() -> Arc<Resource> {
    Arc::new(resources::REPLICA_SETS.clone())
}

fn pods() -> Arc<Resource> {
    Arc::new(resources::PODS.clone())
}

fn key(name: &str) -> Key {
    Key::new("w", "n", name)
}

fn node(uid: &str) -> GraphNode {
    GraphNode { workspace: "w".into(), uid: uid.into() }
}

fn object(uid: &str, owners: &[(&str, bool)], deleting: Option<&[&str]>) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(uid, blocks)| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid,
                "blockOwnerDeletion": blocks})
        })
        .collect();
    let mut object = json!({"metadata": {"uid": uid, "ownerReferences": owners}});
    if let Some(finalizers) = deleting {
        object::set_deletion_timestamp(&mut object, "2026-11-15T08:00:00Z");
        object::set_finalizers(&mut object, finalizers);
    }
    object
}

fn work(mut work: Work) -> Vec<String> {
    work.sort();
    work.dedup();
    work.into_iter().map(|node| node.uid.to_string()).collect()
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn owners_are_looked_up_once() {
    let mut graph = Graph::default();
    assert_eq!(work(graph.update(&sets(), key("s"), &object("s", &[], None))), NOTHING);
    assert!(graph.get(&node("s")).is_none(), "objects without owners are not stored");
    assert_eq!(work(graph.update(&pods(), key("p"), &object("p", &[("s", true)], None))), ["p"]);
    let item = graph.get(&node("p")).expect("it has an owner");
    assert!(!graph.is_known_owner(&item, &item.owners[0]));
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert!(graph.is_known_owner(&item, &item.owners[0]));
    assert_eq!(work(graph.update(&pods(), key("q"), &object("q", &[("s", true)], None))), NOTHING);
    assert_eq!(work(graph.update(&pods(), key("p"), &object("p", &[("s", true)], None))), NOTHING);
    let elsewhere = Key::new("w", "m", "r");
    assert_eq!(work(graph.update(&pods(), elsewhere, &object("r", &[("s", true)], None))), ["r"]);
}

#[test]
fn owned_objects_are_processed_when_their_owner_is_deleted() {
    let mut graph = Graph::default();
    graph.update(&pods(), key("p"), &object("p", &[("s", true)], None));
    graph.update(&pods(), key("q"), &object("q", &[("s", false)], None));
    let item = graph.get(&node("p")).expect("it has an owner");
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert_eq!(work(graph.remove(&node("s"))), ["p", "q"]);
    assert!(!graph.is_known_owner(&item, &item.owners[0]));
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert!(!graph.is_known_owner(&item, &item.owners[0]), "the owner was deleted meanwhile");
    assert_eq!(work(graph.remove(&node("p"))), NOTHING);
    assert_eq!(graph.dependents(&node("s")).len(), 1);
}

#[test]
fn waiting_owners_are_processed() {
    let mut graph = Graph::default();
    graph.update(&pods(), key("p"), &object("p", &[("s", true)], None));
    graph.update(&pods(), key("q"), &object("q", &[("s", true)], None));
    let waiting = object("s", &[], Some(&[FOREGROUND]));
    assert_eq!(work(graph.update(&sets(), key("s"), &waiting)), ["p", "q", "s"]);
    assert_eq!(work(graph.update(&sets(), key("s"), &waiting)), NOTHING, "it is already waiting");
    assert_eq!(work(graph.remove(&node("p"))), ["s"]);
    let freed = object("q", &[("s", false)], None);
    assert_eq!(work(graph.update(&pods(), key("q"), &freed)), ["q", "s"], "it is not blocking any more");
    let disowned = object("q", &[], None);
    assert_eq!(work(graph.update(&pods(), key("q"), &disowned)), NOTHING);
    assert!(graph.dependents(&node("s")).is_empty());
}

#[test]
fn orphaning_takes_precedence() {
    let mut graph = Graph::default();
    graph.update(&pods(), key("p"), &object("p", &[("s", true)], None));
    let orphaning = object("s", &[], Some(&[ORPHAN]));
    assert_eq!(work(graph.update(&sets(), key("s"), &orphaning)), ["s"]);
    assert!(graph.get(&node("s")).is_some_and(|item| item.orphans && !item.waits));
}

#[test]
fn objects_missing_in_a_list_are_removed() {
    let mut graph = Graph::default();
    graph.update(&pods(), key("p"), &object("p", &[("s", true)], None));
    graph.update(&pods(), key("q"), &object("q", &[("s", true)], None));
    let item = graph.get(&node("p")).expect("it has an owner");
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert_eq!(work(graph.retain_listed(&sets(), |place| place == "elsewhere", &HashSet::new())), NOTHING);
    assert_eq!(work(graph.retain_listed(&sets(), |_| true, &HashSet::from(["s".to_string()]))), NOTHING);
    assert_eq!(
        work(graph.retain_listed(&sets(), |_| true, &HashSet::new())),
        ["p", "q"],
        "their owner is gone"
    );
    graph.retain_listed(&pods(), |place| place == "w", &HashSet::from(["q".to_string()]));
    assert!(graph.get(&node("p")).is_none() && graph.get(&node("q")).is_some());
}

#[test]
fn objects_that_may_be_in_another_list_are_looked_at_again() {
    let mut graph = Graph::default();
    graph.update(&pods(), key("p"), &object("p", &[("s", true)], None));
    let item = graph.get(&node("p")).expect("it has an owner");
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert_eq!(work(graph.look_again(&sets(), |place| place == "elsewhere", &HashSet::new())), NOTHING);
    assert_eq!(work(graph.look_again(&sets(), |_| true, &HashSet::new())), ["p", "s"]);
    assert!(!graph.is_known_owner(&item, &item.owners[0]), "the owner is read again");
    assert_eq!(work(graph.look_again(&pods(), |_| true, &HashSet::new())), ["p"]);
    assert!(graph.get(&node("p")).is_some());
    graph.add_known_owner(&item, &item.owners[0], &sets());
    assert!(graph.is_known_owner(&item, &item.owners[0]), "it may exist");
}

#[test]
fn owners_are_in_the_workspace_of_what_they_own() {
    let mut graph = Graph::default();
    let owned = |uid: &str| object(uid, &[("s", true)], None);
    graph.update(&pods(), key("p"), &owned("p"));
    let item = graph.get(&node("p")).expect("it has an owner");
    graph.add_known_owner(&item, &item.owners[0], &sets());
    // The same references in another workspace.
    let elsewhere = Key::new("x", "n", "q");
    assert_eq!(work(graph.update(&pods(), elsewhere.clone(), &owned("q"))), ["q"], "it is looked up there");
    let other = graph.get(&GraphNode { workspace: "x".into(), uid: "q".into() }).expect("it has an owner");
    assert!(graph.is_known_owner(&item, &item.owners[0]) && !graph.is_known_owner(&other, &other.owners[0]));
    let names = |items: Vec<Item>| items.into_iter().map(|item| item.uid.to_string()).collect::<Vec<_>>();
    assert_eq!(names(graph.dependents(&node("s"))), ["p"]);
    // Owners in other workspaces do not wait, and are not processed.
    let waiting = object("s", &[], Some(&[FOREGROUND]));
    assert_eq!(work(graph.update(&sets(), key("s"), &waiting)), ["p", "s"]);
    let freed = object("q", &[], None);
    assert_eq!(work(graph.update(&pods(), elsewhere, &freed)), NOTHING);
    assert_eq!(work(graph.remove(&GraphNode { workspace: "x".into(), uid: "s".into() })), NOTHING);
    assert_eq!(work(graph.remove(&node("s"))), ["p"]);
}
