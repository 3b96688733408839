//! Roles, bindings and tokens are never placed. Workloads of controllers are placed only on clusters that
//! allow them.

use atoll_testkit::{Client, Watch};
use serde_json::{Value, json};

use crate::{CLUSTERS, DEPLOYMENTS, deployment, eventually, on, path, placement_path, with_clusters};

const VIEW: &str = "/services/sync/east";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Returns the next line that is not a keepalive.
async fn next_line(view: &mut Watch) -> Value {
    loop {
        let line = view.line().await;
        if line["type"] != "Alive" {
            return line;
        }
    }
}

async fn record(admin: &Client, name: &str) -> Value {
    let uid = admin.get(&path(name)).await.expect(200)["metadata"]["uid"].as_str().unwrap().to_string();
    let at = format!("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses/{uid}.east");
    let answer = admin.get(&at).await;
    if answer.status == 200 { answer.json() } else { Value::Null }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_bindings_and_tokens_are_not_placed() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    let east = || on(json!([{ "name": "east" }]));
    admin.post("/api/v1/namespaces", json!({ "metadata": { "name": "atoll-system" } })).await.expect(201);
    let objects = [
        (format!("{RBAC}/namespaces/default/roles"), json!({ "rules": [] }), 404),
        (
            format!("{RBAC}/namespaces/default/rolebindings"),
            json!({ "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a" } }),
            404,
        ),
        (format!("{RBAC}/clusterroles"), json!({ "rules": [] }), 404),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_string(),
            json!({ "webhooks": [] }),
            404,
        ),
        (
            "/api/v1/namespaces/default/secrets".to_string(),
            json!({
                "type": "kubernetes.io/service-account-token",
                "metadata": { "annotations": { "kubernetes.io/service-account.name": "default" } },
            }),
            422,
        ),
        (
            "/api/v1/namespaces/atoll-system/secrets".to_string(),
            json!({ "stringData": { "kubeconfig": "x" } }),
            422,
        ),
        ("/api/v1/namespaces/default/secrets".to_string(), json!({ "stringData": { "a": "b" } }), 200),
    ];
    for (number, (collection, mut object, code)) in objects.into_iter().enumerate() {
        let name = format!("a{number}");
        object["metadata"]["name"] = name.as_str().into();
        admin.post(&collection, object).await.expect(201);
        let placed = admin.put(&format!("{collection}/{name}/placement"), east()).await;
        assert_eq!(placed.status, code, "{collection}: {}", placed.text());
    }
    let secrets = "/api/v1/namespaces/default/secrets";
    admin.post(secrets, json!({ "metadata": { "name": "atoll-api-a" } })).await.expect(201);
    let placed = admin.put(&format!("{secrets}/atoll-api-a/placement"), east()).await;
    assert_eq!(placed.status, 422, "{}", placed.text());
    let mut view = Watch::open(&admin, VIEW).await;
    assert_eq!(next_line(&mut view).await["name"], "a6");
    assert_eq!(next_line(&mut view).await["type"], "Synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_are_placed_on_clusters_that_allow_them() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    for name in ["operator", "quiet", "web"] {
        let mut object = deployment(name);
        object["spec"]["template"]["spec"]["serviceAccountName"] =
            if name == "web" { "web" } else { "operator" }.into();
        if name == "quiet" {
            object["spec"]["template"]["spec"]["automountServiceAccountToken"] = false.into();
        }
        admin.post(DEPLOYMENTS, object).await.expect(201);
    }
    let role = json!({ "metadata": { "name": "r" }, "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }] });
    let binding = json!({
        "metadata": { "name": "b" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "ServiceAccount", "name": "operator", "namespace": "default" }],
    });
    admin.post(&format!("{RBAC}/namespaces/default/roles"), role).await.expect(201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    admin.post(&bindings, binding.clone()).await.expect(201);
    for name in ["operator", "quiet", "web"] {
        admin.put(&placement_path(name), on(json!([{ "name": "east" }]))).await.expect(200);
    }
    let mut view = Watch::open(&admin, VIEW).await;
    let mut names = [next_line(&mut view).await["name"].clone(), next_line(&mut view).await["name"].clone()];
    names.sort_by_key(Value::to_string);
    assert_eq!(names, ["quiet", "web"], "a workload whose Pods get no token is no controller");
    assert_eq!(next_line(&mut view).await["type"], "Synced");
    let refused = record(&admin, "operator").await;
    assert_eq!(refused["status"]["state"], "Refused");
    let message = refused["status"]["message"].as_str().unwrap().to_string();
    assert!(message.contains("ServiceAccount operator has rights") && message.contains("spec"), "{message}");

    // An administrator allows controllers. A controller that is placed stays when that is revoked.
    let east = format!("{CLUSTERS}/east");
    admin.merge(&east, json!({ "spec": { "controllers": "maybe" } })).await.expect_status(422, "Invalid");
    admin.merge(&east, json!({ "spec": { "controllers": "allow" } })).await.expect(200);
    let line = next_line(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("operator")));
    admin.merge(&east, json!({ "spec": { "controllers": "refuse" } })).await.expect(200);
    eventually("the object is rejected again", async || {
        record(&admin, "operator").await["status"]["state"] == "Refused"
    })
    .await;
    admin.merge(&path("web"), json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    assert_eq!(next_line(&mut view).await["name"], "web", "no object may have been removed");
    // Without rights it is an ordinary workload.
    admin.delete(&format!("{bindings}/b")).await.expect(200);
    let line = next_line(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("operator")));
}
