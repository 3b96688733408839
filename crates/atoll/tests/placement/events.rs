//! A cluster reports events of objects that are placed on it, and cannot write other events.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::{CLUSTERS, DEPLOYMENTS, cluster, deployment, on, placement_path, with_clusters};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Returns the report of an event of a Deployment.
fn event_report(object: &Value, id: &str, message: &str) -> Value {
    let metadata = &object["metadata"];
    json!({
        "resource": { "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment" },
        "workspace": "root", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
        "id": id, "event": { "reason": "Told", "message": message, "type": "Normal", "count": 1 },
    })
}

/// Returns the report of an event of an object owned by a Deployment.
fn owned_event_report(object: &Value, id: &str, about: Value) -> Value {
    let mut event_report = event_report(object, id, "of what was made");
    event_report["about"] = about;
    event_report
}

async fn report(admin: &Client, cluster: &str, event: Value) {
    admin.post(&format!("/services/sync/{cluster}"), json!({ "events": [event] })).await.expect(200);
}

async fn events(admin: &Client) -> Vec<Value> {
    admin.get(EVENTS).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn create_placed(admin: &Client, name: &str, on_cluster: &str) -> Value {
    let created = admin.post(DEPLOYMENTS, deployment(name)).await.expect(201);
    admin.put(&placement_path(name), on(json!([{ "name": on_cluster }]))).await.expect(200);
    created
}

#[tokio::test]
async fn events_of_other_sources_are_not_overwritten() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    let web = create_placed(&admin, "web", "east").await;
    report(&admin, "east", event_report(&web, "e1", "once")).await;
    let name = events(&admin).await[0]["metadata"]["name"].as_str().unwrap().to_string();
    let path = format!("{EVENTS}/{name}");

    // A repeated event replaces the previous one.
    report(&admin, "east", event_report(&web, "e1", "twice")).await;
    let own = admin.get(&path).await.expect(200);
    assert_eq!(own["message"], "[east] twice");
    assert_eq!(events(&admin).await.len(), 1);

    // An event of the same name that belongs to another cluster or to no cluster is not overwritten.
    for annotations in [json!({ "atoll.dev/cluster": "west" }), Value::Null] {
        admin.delete(&path).await.expect(200);
        let original = json!({
            "metadata": { "name": name, "annotations": annotations }, "reason": "Original", "type": "Warning",
            "involvedObject": { "kind": "Deployment", "namespace": "default", "name": "other" }, "message": "as it was",
        });
        let original = admin.post(EVENTS, original).await.expect(201);
        report(&admin, "east", event_report(&web, "e1", "thrice")).await;
        assert_eq!(admin.get(&path).await.expect(200), original);
    }
    // Other events are still accepted.
    report(&admin, "east", event_report(&web, "e2", "another")).await;
    assert!(events(&admin).await.iter().any(|event| event["message"] == "[east] another"));
}

#[tokio::test]
async fn cluster_reports_events_of_its_placed_objects_only() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin
        .post("/apis/atoll.dev/v1alpha1/workspaces", json!({ "metadata": { "name": "team" } }))
        .await
        .expect(201);
    let team = admin.workspace("root:team");
    team.post(CLUSTERS, cluster("north")).await.expect(201);
    let (here, there) =
        (create_placed(&admin, "here", "east").await, create_placed(&admin, "there", "west").await);
    let unplaced = admin.post(DEPLOYMENTS, deployment("unplaced")).await.expect(201);
    let account = json!({ "metadata": { "name": "default" } });
    admin.post("/api/v1/namespaces/default/serviceaccounts", account).await.expect(201);
    let pod =
        json!({ "metadata": { "name": "own" }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    let pod = admin.post("/api/v1/namespaces/default/pods", pod).await.expect(201);

    let about = |version: &str, kind: &str, object: &Value| {
        let metadata = &object["metadata"];
        json!({ "apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"] })
    };
    let mut another = here.clone();
    another["metadata"]["uid"] = "another".into();
    let mut elsewhere = here.clone();
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    for (what, event) in [
        ("on another cluster", event_report(&there, "e", "x")),
        ("on none", event_report(&unplaced, "e", "x")),
        ("of that name", event_report(&another, "e", "x")),
        ("of that name elsewhere", event_report(&elsewhere, "e", "x")),
        ("by way of another", owned_event_report(&here, "e", about("apps/v1", "Deployment", &there))),
        (
            "of a kind that is not made of others",
            owned_event_report(&here, "e", about("v1", "Secret", &there)),
        ),
        ("of no kind", owned_event_report(&here, "e", json!({ "name": "there" }))),
        ("a Pod from above", owned_event_report(&here, "e", about("v1", "Pod", &pod))),
    ] {
        report(&admin, "east", event).await;
        assert_eq!(events(&admin).await, Vec::<Value>::new(), "{what}");
    }
    // A cluster of a child workspace cannot report events of objects above.
    report(&team, "north", event_report(&here, "e", "x")).await;
    assert_eq!(events(&admin).await, Vec::<Value>::new());

    report(&admin, "east", event_report(&here, "e1", "itself")).await;
    let below = json!({ "metadata": { "name": "here-1", "uid": "of-a-pod" } });
    report(&admin, "east", owned_event_report(&here, "e2", about("v1", "Pod", &below))).await;
    let mut heard: Vec<Value> =
        events(&admin).await.iter().map(|event| event["involvedObject"]["name"].clone()).collect();
    heard.sort_by_key(Value::to_string);
    assert_eq!(heard, [json!("here"), json!("here-1")]);
}
