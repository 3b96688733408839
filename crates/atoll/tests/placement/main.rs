//! Placements, and the sync view and reports of a cluster.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod divided;
mod duplicates;
mod events;
mod excluded;
mod intents;
mod policies;
#[path = "../support/support.rs"]
mod support;
mod view;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::support::{shares, without_uids};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ANNOTATION: &str = "atoll.dev/placement";

fn cluster(name: &str) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name } })
}

fn deployment(name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "example/app:1" }] },
            },
        },
    })
}

fn on(clusters: Value) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Placement", "spec": { "clusters": clusters } })
}

/// Starts a server with clusters of these names.
async fn with_clusters(names: &[&str]) -> (Atoll, Client) {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for name in names {
        admin.post(CLUSTERS, cluster(name)).await.expect(201);
    }
    (atoll, admin)
}

fn path(name: &str) -> String {
    format!("{DEPLOYMENTS}/{name}")
}

fn placement_path(name: &str) -> String {
    format!("{DEPLOYMENTS}/{name}/placement")
}

fn placement(object: &Value) -> String {
    without_uids(object["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default())
}

#[tokio::test]
async fn placement_is_written_through_the_subresource_only() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    let mut forged = deployment("web");
    forged["metadata"]["annotations"] =
        json!({ ANNOTATION: "{\"clusters\":[{\"name\":\"east\"}]}", "other": "x" });
    let created = admin.post(DEPLOYMENTS, forged).await.expect(201);
    assert_eq!(created["metadata"]["annotations"], json!({ "other": "x" }));

    let wanted = on(json!([{ "name": "east", "replicas": 2 }, { "name": "west", "replicas": 1 }]));
    let placed = admin.put(&placement_path("web"), wanted).await.expect(200);
    assert_eq!(placed["kind"], "Placement");
    assert_eq!(placed["spec"]["by"], "hand");
    let expected = r#"{"clusters":[{"name":"east","replicas":2},{"name":"west","replicas":1}],"by":"hand"}"#;
    let object = admin.get(&path("web")).await.expect(200);
    assert_eq!(placement(&object), expected);
    assert_eq!(object["metadata"]["generation"], created["metadata"]["generation"]);
    assert!(
        !object["metadata"]["managedFields"].to_string().contains(ANNOTATION),
        "no field manager may own it"
    );

    // Writes to the object do not change it.
    let mut replaced = deployment("web");
    replaced["spec"]["replicas"] = 5.into();
    let object = admin.put(&path("web"), replaced).await.expect(200);
    assert_eq!((placement(&object).as_str(), &object["spec"]["replicas"]), (expected, &json!(5)));
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: null } } });
    assert_eq!(placement(&admin.merge(&path("web"), patch).await.expect(200)), expected);
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: "{}" } }, "status": { "replicas": 1 } });
    assert_eq!(
        placement(&admin.merge(&format!("{}/status", path("web")), patch).await.expect(200)),
        expected
    );
    let mut config = deployment("web");
    config["metadata"]["annotations"] = json!({ ANNOTATION: "" });
    let applying = format!("{}?fieldManager=me&force=true", path("web"));
    let applied = admin.apply(&applying, config).await.expect(200);
    assert_eq!(placement(&applied), expected);

    // Patches of the placement subresource change it.
    let patch = json!({ "spec": { "clusters": [{ "name": "west" }] } });
    let patched = admin.merge(&placement_path("web"), patch).await.expect(200);
    assert_eq!(shares(&patched), json!([{ "name": "west" }]));
    let west = admin.get(&format!("{CLUSTERS}/west")).await.expect(200);
    assert_eq!(patched["spec"]["clusters"][0]["uid"], west["metadata"]["uid"]);
    assert_eq!(patched["status"]["leaving"], json!(["east"]));
    let read = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!(read, patched);
}

#[tokio::test]
async fn placements_are_validated() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    for (clusters, expected) in [
        (json!([{ "name": "nowhere" }]), "spec.clusters[0].name: Not found: \"nowhere\""),
        (json!([{ "name": "east" }, { "name": "east" }]), "spec.clusters[1].name: Duplicate value: \"east\""),
        (json!([{}]), "spec.clusters[0].name: Required value"),
        (
            json!([{ "name": "east", "replicas": -1 }]),
            "spec.clusters[0].replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (json!([{ "name": "east", "uid": "another" }]), "spec.clusters[0].uid: Not found: \"another\""),
        (json!("east"), "spec.clusters: Invalid value: \"east\": must be a list"),
    ] {
        let refused = admin.put(&placement_path("web"), on(clusters)).await.expect_status(422, "Invalid");
        assert_eq!(refused, format!("Placement.atoll.dev \"web\" is invalid: {expected}"));
    }
    let mut stale = on(json!([{ "name": "east" }]));
    stale["metadata"] = json!({ "resourceVersion": "1" });
    admin.put(&placement_path("web"), stale).await.expect_status(409, "Conflict");
    admin
        .get("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/a/placement")
        .await
        .expect_status_code(404);
    admin.post(&placement_path("web"), on(json!([]))).await.expect_status_code(405);
    admin.get(&placement_path("missing")).await.expect_status(404, "NotFound");
}

#[tokio::test]
async fn placing_needs_its_own_right() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "editor" },
        "rules": [{ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"] }],
    });
    admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", role).await.expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "ann" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann" }],
        "roleRef": { "kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "editor" },
    });
    admin
        .post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
        .await
        .expect(201);
    let ann = admin.acting_as("ann", &[]);
    ann.merge(&path("web"), json!({ "spec": { "replicas": 1 } })).await.expect(200);
    let wanted = on(json!([{ "name": "east" }]));
    ann.put(&placement_path("web"), wanted).await.expect_status(403, "Forbidden");
    ann.get("/services/sync/east").await.expect_status(403, "Forbidden");
}

#[tokio::test]
async fn heartbeats_are_shown_in_the_cluster_status() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    let east = admin.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(east["spec"], json!({ "mode": "push", "access": "manage" }));
    let mut inline = cluster("west");
    inline["spec"] = json!({ "kubeconfig": "a secret" });
    let refused = admin.post(CLUSTERS, inline).await.expect_status(422, "Invalid");
    assert!(refused.contains("spec.credentials.secret"), "{refused}");
    let heartbeat = json!({ "heartbeat": {
        "id": "a", "kubernetesVersion": "v1.36.4", "nodes": { "total": 3, "ready": 2 }, "region": "lab",
        "requested": { "cpu": "1", "memory": "2Gi" }, "allocatable": { "cpu": "4", "memory": "8Gi" },
        "syncer": { "lastHeartbeatTime": "2026-11-15T08:00:00Z" },
    }});
    admin.post("/services/sync/east", heartbeat).await.expect(200);
    let mut http = admin.http1().await.unwrap();
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = http.get_accepting(CLUSTERS, table).await.unwrap().expect(200);
    let cells: Vec<Value> = table["rows"][0]["cells"].as_array().unwrap()[..8].to_vec();
    assert_eq!(
        Value::from(cells),
        json!(["east", "push", "Unknown", "v1.36.4", "2/3", "1/4", "2Gi/8Gi", "lab"])
    );
    // A different cluster under the same name is not accepted.
    let another = json!({ "heartbeat": { "id": "b", "reason": "AnotherCluster", "message": "another one" } });
    admin.post("/services/sync/east", another).await.expect(200);
    let status = admin.get(&format!("{CLUSTERS}/east")).await.expect(200)["status"].clone();
    assert_eq!((&status["id"], &status["problem"]["reason"]), (&json!("a"), &json!("AnotherCluster")));
    let forged = json!({ "status": { "id": "b" } });
    admin.merge(&format!("{CLUSTERS}/east/status"), forged).await.expect_status(422, "Invalid");
}

/// Waits until an object is deleted.
async fn wait_until_deleted(admin: &Client, path: &str) {
    eventually("the object is deleted", || async { admin.get(path).await.status == 404 }).await;
}
