use atoll_meta::object;
use atoll_store::key::custom_group;
use serde_json::json;

use super::*;
use crate::testing::{keys, registry};
use crate::{DeleteOptions, NoAdmission, ObjectRef};

const WORKSPACE: &str = "aaaaaaaaaaaaaaa";

fn definition(plural: &str, group: &str) -> (Key, Value) {
    let name = format!("{plural}.{group}");
    let names = json!({ "plural": plural, "singular": "one", "kind": "One", "listKind": "OneList" });
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "group": group, "scope": "Cluster", "names": names, "conversion": { "strategy": "None" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
        "status": {
            "acceptedNames": names, "storedVersions": ["v1"],
            "conditions": [{ "type": "NamesAccepted", "status": "True" }, { "type": "Established", "status": "True" }],
        },
    });
    (Key::object(GROUP, RESOURCE, WORKSPACE, "", &name), object)
}

fn custom(group: &str, plural: &str, name: &str) -> (Key, Value) {
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "One",
        "metadata": { "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
    });
    (Key::custom(group, plural, WORKSPACE, "", name), object)
}

#[tokio::test]
async fn a_definition_is_found_by_exact_group_and_plural() {
    let registry = registry(&[definition("foo", "bar.example.com")]).await;
    for workspace in [Some(WORKSPACE), None] {
        assert!(registry.find(workspace, "bar.example.com", "v1", "foo").is_some());
        assert!(registry.find(workspace, "example.com", "v1", "foo.bar").is_none(), "{workspace:?}");
    }
}

#[tokio::test]
async fn definition_of_root_counts_in_all_workspaces() {
    let in_root = definition("foo", "bar.example.com");
    let in_root = (Key::object(GROUP, RESOURCE, "root", "", "foo.bar.example.com"), in_root.1);
    let mut own = definition("foo", "bar.example.com");
    own.1["spec"]["versions"][0]["name"] = "v9".into();
    own.1["status"]["storedVersions"] = json!(["v9"]);
    let alone = registry(std::slice::from_ref(&own)).await;
    assert!(alone.find(None, "bar.example.com", "v9", "foo").is_some());
    let registry = registry(&[own, in_root]).await;
    assert!(registry.find(None, "bar.example.com", "v1", "foo").is_some());
    assert!(registry.find(None, "bar.example.com", "v9", "foo").is_none());
}

#[tokio::test]
async fn names_that_only_the_status_contains_are_not_served() {
    let mut written = definition("foo", "fleet.example.com");
    written.1["status"]["acceptedNames"]["plural"] = "clusters".into();
    let (registry, own) = (registry(&[written]).await, "fleet.example.com");
    for plural in ["foo", "clusters"] {
        assert!(registry.find(Some(WORKSPACE), own, "v1", plural).is_none(), "{plural}");
    }
    registry.update_definition_status(WORKSPACE, "foo.fleet.example.com").await;
    let row = registry.find(Some(WORKSPACE), own, "v1", "foo").unwrap();
    assert_eq!(row.resource, "foo", "the name is restored");
}

/// Statuses that tenants may write to a definition before deleting it.
fn statuses() -> Vec<Value> {
    let (_, own) = definition("clusters", "fleet.example.com");
    let mut other = own["status"].clone();
    other["acceptedNames"]["plural"] = "others".into();
    let refused =
        json!([{ "type": "NamesAccepted", "status": "False" }, { "type": "Established", "status": "False" }]);
    let mut unaccepted = own["status"].clone();
    unaccepted["conditions"] = refused;
    let mut silent = own["status"].clone();
    silent["conditions"] = json!([]);
    vec![
        own["status"].clone(),
        silent,
        unaccepted,
        other,
        json!({}),
        json!({ "acceptedNames": { "plural": "", "kind": "" } }),
    ]
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_whatever_its_status() {
    for status in statuses() {
        let (key, mut written) = definition("clusters", "fleet.example.com");
        written["status"] = status.clone();
        let objects = [(key.clone(), written), custom("fleet.example.com", "clusters", "planted")];
        let registry = registry(&objects).await;
        let running = tokio::spawn(run(registry.clone()));
        let row = registry.catalog.find(GROUP, "v1", RESOURCE).unwrap().clone();
        let object_ref =
            ObjectRef { workspace: WORKSPACE, namespace: "", name: "clusters.fleet.example.com" };
        registry.delete(&row, &object_ref, &DeleteOptions::default(), &NoAdmission).await.unwrap();
        let scope = Scope::new(GROUP, RESOURCE, Some(WORKSPACE), None);
        let seen = registry.snapshot();
        let mut watcher = registry.cache.watch(scope, seen.revision).unwrap();
        while registry.snapshot().get(&key).is_some() {
            watcher.next().await.unwrap();
        }
        running.abort();
        assert_eq!(keys(&registry, WORKSPACE), [""; 0], "{status}");
    }
}

#[tokio::test]
async fn nothing_is_created_while_a_definition_terminates() {
    let (key, mut going) = definition("foo", "example.com");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    going["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let registry = registry(&[(key, going)]).await;
    let row = registry.find(Some(WORKSPACE), "example.com", "v1", "foo").unwrap();
    let (_, object) = custom("example.com", "foo", "a");
    let object_ref = ObjectRef { workspace: WORKSPACE, namespace: "", name: object::name(&object) };
    let status =
        registry.create(&row, &object_ref, object.clone(), None, false, &NoAdmission).await.unwrap_err();
    assert_eq!(status.code(), 403, "{status}");
    assert_eq!(registry.snapshot().count(&Scope::new(&custom_group("example.com"), "foo", None, None)), 0);
}
