//! Events of objects in clusters are reported above, about the objects above.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::{Fleet, Mode, create, object};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str, more: Value) -> Value {
    let mut spec = json!({ "containers": [{ "name": "web", "image": "web:1" }] });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let template = json!({ "metadata": { "labels": { "app": name } }, "spec": spec });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": template });
    object("apps/v1", "Deployment", name, json!({ "spec": spec }))
}

/// Waits for an event for which `wanted` holds.
async fn wait_for_event(above: &Client, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    eventually(what, async || {
        let list = above.get(EVENTS).await.expect(200);
        found = list["items"].as_array().unwrap().iter().find(|event| wanted(event)).cloned();
        found.is_some()
    })
    .await;
    found.unwrap()
}

fn event(name: &str, about: &Value, reason: &str, message: &str) -> Value {
    let metadata = &about["metadata"];
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": metadata["namespace"] },
        "involvedObject": {
            "apiVersion": about["apiVersion"], "kind": about["kind"], "namespace": metadata["namespace"],
            "name": metadata["name"], "uid": metadata["uid"],
        },
        "reason": reason, "message": message, "type": "Warning", "count": 1,
        "source": { "component": "somebody", "host": "node-1" },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_placed_objects_are_reported_above() {
    // The scheduler would not place a workload that fits no node.
    let fleet = Fleet::start_unscheduled(Mode::Push, &["east"]);
    let (above, east) = (fleet.admin(), fleet.clusters[0].admin());
    // A Deployment whose pods cannot be scheduled.
    let created =
        create(&above, DEPLOYMENTS, deployment("lost", json!({ "nodeSelector": { "no": "such" } }))).await;
    fleet.place("deployments/lost", "east");
    let reported = wait_for_event(&above, "the scheduling failure is reported", |event| {
        event["reason"] == "FailedScheduling"
    })
    .await;
    assert_eq!(reported["involvedObject"]["kind"], "Pod");
    assert_eq!(reported["involvedObject"]["namespace"], "default");
    assert!(reported["involvedObject"]["name"].as_str().unwrap().starts_with("lost-"), "{reported}");
    assert!(reported["message"].as_str().unwrap().starts_with("[east] "), "{reported}");
    assert_eq!(reported["metadata"]["annotations"]["atoll.dev/cluster"], "east");
    let scaled =
        wait_for_event(&above, "the scaling is reported", |event| event["reason"] == "ScalingReplicaSet")
            .await;
    assert_eq!(
        scaled["involvedObject"]["uid"], created["metadata"]["uid"],
        "the event must refer to the object above"
    );
    assert_eq!(scaled["source"], json!({ "component": "deployment-controller", "host": "east" }));
    // With the field selector of `kubectl describe`.
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let described = above.get(&format!("{EVENTS}?fieldSelector=involvedObject.uid={uid}")).await.expect(200);
    assert!(!described["items"].as_array().unwrap().is_empty());

    // A repeated event increments the count.
    let below = east.get(&format!("{DEPLOYMENTS}/lost")).await.expect(200);
    create(&east, EVENTS, event("again", &below, "Again", "once more")).await;
    let first = wait_for_event(&above, "the event is reported", |event| event["reason"] == "Again").await;
    assert_eq!((&first["message"], &first["count"]), (&json!("[east] once more"), &json!(1)));
    assert_eq!(first["source"]["host"], "east/node-1");
    east.merge(&format!("{EVENTS}/again"), json!({ "count": 7 })).await.expect(200);
    let again = wait_for_event(&above, "the count is updated", |event| {
        event["reason"] == "Again" && event["count"] == 7
    })
    .await;
    assert_eq!(again["metadata"]["uid"], first["metadata"]["uid"]);

    // Events of objects that are not placed are not reported, whatever their names are.
    let foreign = create(&east, DEPLOYMENTS, deployment("foreign", json!({}))).await;
    create(&east, EVENTS, event("theirs", &foreign, "Theirs", "of somebody else")).await;
    let mut impostor = below.clone();
    impostor["metadata"]["uid"] = "another".into();
    create(&east, EVENTS, event("impostor", &impostor, "Theirs", "of one of that name")).await;
    create(&east, EVENTS, event("last", &below, "Last", "after all")).await;
    wait_for_event(&above, "the last event is reported", |event| event["reason"] == "Last").await;
    let list = above.get(EVENTS).await.expect(200);
    let events = list["items"].as_array().unwrap();
    let is_foreign = |event: &&Value| {
        event["reason"] == "Theirs"
            || event["involvedObject"]["name"].as_str().unwrap().starts_with("foreign")
    };
    assert_eq!(events.iter().find(is_foreign), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_objects_on_other_clusters_are_ignored() {
    let fleet = Fleet::start_unscheduled(Mode::Push, &["east"]);
    let above = fleet.admin();
    let created = create(&above, DEPLOYMENTS, deployment("here", json!({}))).await;
    let event_report = |uid: &Value| {
        json!({ "events": [{
            "resource": { "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment" },
            "workspace": "root", "namespace": "default", "name": "here", "uid": uid, "id": "e",
            "event": { "reason": "Invented", "message": "by a syncer", "type": "Normal" },
        }] })
    };
    // Not placed there.
    above.post("/services/sync/east", event_report(&created["metadata"]["uid"])).await.expect(200);
    fleet.place("deployments/here", "east");
    // A different uid.
    above.post("/services/sync/east", event_report(&json!("another"))).await.expect(200);
    let list = above.get(EVENTS).await.expect(200);
    assert!(list["items"].as_array().unwrap().iter().all(|event| event["reason"] != "Invented"), "{list}");
    above.post("/services/sync/east", event_report(&created["metadata"]["uid"])).await.expect(200);
    wait_for_event(&above, "the event is accepted", |event| event["message"] == "[east] by a syncer").await;
}
