//! A cluster tells what happens to the objects that are placed on it, and has no say in other events.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::{CLUSTERS, DEPLOYMENTS, cluster, deployment, on, placement_path, with_clusters};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What a cluster says has happened to a Deployment.
fn told(object: &Value, id: &str, message: &str) -> Value {
    let metadata = &object["metadata"];
    json!({
        "resource": { "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment" },
        "workspace": "root", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
        "id": id, "event": { "reason": "Told", "message": message, "type": "Normal", "count": 1 },
    })
}

/// The same of something that it has made of that.
fn told_of(object: &Value, id: &str, about: Value) -> Value {
    let mut told = told(object, id, "of what was made");
    told["about"] = about;
    told
}

async fn tell(admin: &Access, cluster: &str, event: Value) {
    admin.post(&format!("/services/sync/{cluster}"), json!({ "events": [event] })).await.expect(200);
}

async fn events(admin: &Access) -> Vec<Value> {
    admin.get(EVENTS).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn made(admin: &Access, name: &str, on_cluster: &str) -> Value {
    let made = admin.post(DEPLOYMENTS, deployment(name)).await.expect(201);
    admin.put(&placement_path(name), on(json!([{ "name": on_cluster }]))).await.expect(200);
    made
}

#[tokio::test]
async fn nobody_overwrites_events_of_others() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    let web = made(&admin, "web", "east").await;
    tell(&admin, "east", told(&web, "e1", "once")).await;
    let name = events(&admin).await[0]["metadata"]["name"].as_str().unwrap().to_string();
    let path = format!("{EVENTS}/{name}");

    // What is told again takes the place of what was told before.
    tell(&admin, "east", told(&web, "e1", "twice")).await;
    let own = admin.get(&path).await.expect(200);
    assert_eq!(own["message"], "[east] twice");
    assert_eq!(events(&admin).await.len(), 1);

    // The same name, but somebody else's: of another cluster, and of nobody's.
    for annotations in [json!({ "atoll.dev/cluster": "west" }), Value::Null] {
        admin.delete(&path).await.expect(200);
        let original = json!({
            "metadata": { "name": name, "annotations": annotations }, "reason": "Original", "type": "Warning",
            "involvedObject": { "kind": "Deployment", "namespace": "default", "name": "other" }, "message": "as it was",
        });
        let original = admin.post(EVENTS, original).await.expect(201);
        tell(&admin, "east", told(&web, "e1", "thrice")).await;
        assert_eq!(admin.get(&path).await.expect(200), original);
    }
    // Others are still heard.
    tell(&admin, "east", told(&web, "e2", "another")).await;
    assert!(events(&admin).await.iter().any(|event| event["message"] == "[east] another"));
}

#[tokio::test]
async fn a_cluster_tells_of_what_is_placed_on_it_and_of_nothing_else() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin
        .post("/apis/atoll.dev/v1alpha1/workspaces", json!({ "metadata": { "name": "team" } }))
        .await
        .expect(201);
    let team = admin.workspace("root:team");
    team.post(CLUSTERS, cluster("north")).await.expect(201);
    let (here, there) = (made(&admin, "here", "east").await, made(&admin, "there", "west").await);
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
        ("on another cluster", told(&there, "e", "x")),
        ("on none", told(&unplaced, "e", "x")),
        ("of that name", told(&another, "e", "x")),
        ("of that name elsewhere", told(&elsewhere, "e", "x")),
        ("by way of another", told_of(&here, "e", about("apps/v1", "Deployment", &there))),
        ("of a kind that is not made of others", told_of(&here, "e", about("v1", "Secret", &there))),
        ("of no kind", told_of(&here, "e", json!({ "name": "there" }))),
        ("a Pod from above", told_of(&here, "e", about("v1", "Pod", &pod))),
    ] {
        tell(&admin, "east", event).await;
        assert_eq!(events(&admin).await, Vec::<Value>::new(), "{what}");
    }
    // A cluster of a workspace below has no say above.
    tell(&team, "north", told(&here, "e", "x")).await;
    assert_eq!(events(&admin).await, Vec::<Value>::new());

    tell(&admin, "east", told(&here, "e1", "itself")).await;
    let below = json!({ "metadata": { "name": "here-1", "uid": "of-a-pod" } });
    tell(&admin, "east", told_of(&here, "e2", about("v1", "Pod", &below))).await;
    let mut heard: Vec<Value> =
        events(&admin).await.iter().map(|event| event["involvedObject"]["name"].clone()).collect();
    heard.sort_by_key(Value::to_string);
    assert_eq!(heard, [json!("here"), json!("here-1")]);
}
