//! A CustomResourceDefinition that was placed on a cluster is never deleted there, because other users may
//! have objects of its kind.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, wait_for, wait_until_deleted};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const NAME: &str = "widgets.example.com";

fn at(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "size": 3 })
}

fn is_marked(object: &Value) -> bool {
    object["metadata"].to_string().contains("atoll.dev/")
}

fn has_control_plane_label(object: &Value) -> bool {
    object["metadata"]["labels"]["atoll.dev/control-plane"].is_string()
}

/// Asserts that the definition and another user's Widget exist and have no trace of Atoll.
async fn assert_kept_without_traces(below: &Client) {
    let found = wait_for("the definition has no marks", below, &at(NAME), |found| !is_marked(found)).await;
    assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null);
    let managers = found["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().all(|entry| entry["manager"] != "atoll"), "{managers:?}");
    assert_eq!(below.get(&format!("{WIDGETS}/foreign")).await.expect(200)["size"], 3);
}

/// Waits for the event which says that the definition is kept, and how to delete it.
async fn wait_for_kept_event(above: &Client, uid: &str) {
    wait_for("an event says that it stays", above, "/api/v1/namespaces/default/events", |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["uid"] == uid
                && event["reason"] == "Retained"
                && message.starts_with("[east] ")
                && message.ends_with(
                    "kubeconfig of cluster east: kubectl delete customresourcedefinition widgets.example.com",
                )
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_objects_of_other_users_are_never_deleted() {
    let fleet = TestFleet::not_joined();
    fleet.run(&format!(
        "cluster join east --groups example.com --kubeconfig {}",
        fleet.east.kubeconfig().display()
    ));
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_string();
    let first = uid(&create(&above, DEFINITIONS, definition("widgets", "Widget")).await);
    fleet.run(&format!("place crd/{NAME} --on east"));
    wait_for("the object exists below", &below, &at(NAME), has_control_plane_label).await;
    let created = async |name: &str| below.post(WIDGETS, widget(name)).await.status == 201;
    eventually("Widgets are served", async || created("foreign").await).await;

    // Removed from its placement.
    fleet.run(&format!("place crd/{NAME} --on none"));
    assert_kept_without_traces(&below).await;
    wait_for_kept_event(&above, &first).await;
    wait_for("the definition is placed nowhere", &above, &at(NAME), |found| {
        found["metadata"]["annotations"]["atoll.dev/placement"].is_null()
    })
    .await;

    // Adopted, and then deleted above: placed objects of its kind are deleted, others are kept.
    let adopt = format!("adopt crd/{NAME} --cluster east");
    fleet.run(&adopt);
    wait_for("the definition has marks", &below, &at(NAME), has_control_plane_label).await;
    create(&above, WIDGETS, widget("own")).await;
    fleet.run("place widgets.example.com/own --on east");
    wait_for("the object exists below", &below, &format!("{WIDGETS}/own"), has_control_plane_label).await;
    above.delete(&at(NAME)).await.expect(200);
    wait_until_deleted(&above, &at(NAME)).await;
    wait_until_deleted(&below, &format!("{WIDGETS}/own")).await;
    assert_kept_without_traces(&below).await;
    wait_for_kept_event(&above, &first).await;

    // Unknown above after an old backup was restored, and pruned.
    let backup = fleet.above.directory.join("backup");
    fleet.run(&format!("snapshot save {}", backup.display()));
    fleet.run(&adopt);
    wait_for("the definition has marks", &below, &at(NAME), has_control_plane_label).await;
    fleet.run(&format!("snapshot restore {} --yes", backup.display()));
    fleet.run("resume --workspace root");
    let listed = fleet.run("orphans list");
    assert!(listed.contains("kept there, because other users may have objects of its type"), "{listed}");
    let printed = fleet.run("orphans prune --yes");
    assert!(printed.contains("Deleted: 0.\nReleased: 1.\n"), "{printed}");
    assert_kept_without_traces(&below).await;

    // Together with its cluster.
    fleet.run(&adopt);
    wait_for("the definition has marks", &below, &at(NAME), has_control_plane_label).await;
    let printed = fleet.run("cluster remove east --yes");
    assert!(
        printed.contains("\n  kubectl delete customresourcedefinition widgets.example.com\n"),
        "{printed}"
    );
    assert_kept_without_traces(&below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_syncer_does_not_delete_definitions() {
    let mut fleet = TestFleet::with_agent();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let made = create(&above, DEFINITIONS, definition("widgets", "Widget")).await;
    fleet.run(&format!("place crd/{NAME} --on east"));
    wait_for("the object exists below", &below, &at(NAME), has_control_plane_label).await;
    eventually("Widgets are served", async || below.post(WIDGETS, widget("foreign")).await.status == 201)
        .await;
    fleet.stop_agent();
    above.delete(&at(NAME)).await.expect(200);
    above.get(&at(NAME)).await.expect(200);
    fleet.start_agent();
    wait_until_deleted(&above, &at(NAME)).await;
    assert_kept_without_traces(&below).await;
    wait_for_kept_event(&above, made["metadata"]["uid"].as_str().unwrap()).await;
    // The syncer's account has no right to delete it.
    let role = below.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer").await.expect(200);
    let rules = role["rules"].as_array().unwrap();
    let about = rules.iter().find(|rule| rule["resources"] == json!(["customresourcedefinitions"])).unwrap();
    assert!(!about["verbs"].as_array().unwrap().contains(&json!("delete")), "{about}");
}
