//! Objects that select Pods are placed with the workloads.

use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, path, report_object, report_pods,
    wait_until, with_clusters,
};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn service(name: &str, selector: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "selector": selector, "ports": [{ "port": 80 }] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_budgets_go_where_their_pods_are() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let (web, at, budget) = (path("web"), format!("{SERVICES}/web"), format!("{BUDGETS}/web"));
    admin.post(SERVICES, service("web", json!({ "app": "web" }))).await.expect(201);
    admin.post(SERVICES, service("other", json!({ "app": "other" }))).await.expect(201);
    admin.post(DEPLOYMENTS, annotated(deployment("web", 4, 100), "east=1,west=1")).await.expect(201);
    expect_placed(&admin, &at, "east west by reference").await;
    // A budget that is created later is divided, and follows the replicas.
    let selector = json!({ "matchLabels": { "app": "web" } });
    let object =
        json!({ "metadata": { "name": "web" }, "spec": { "selector": selector, "maxUnavailable": 2 } });
    admin.post(BUDGETS, object).await.expect(201);
    expect_placed(&admin, &budget, "east=1 west=1 by reference").await;
    let other = admin.get(&format!("{SERVICES}/other/placement")).await.expect(200);
    assert_eq!(other["spec"]["clusters"], json!([]));

    for cluster in ["east", "west"] {
        report_pods(&admin, &web, cluster, 2).await;
    }
    annotate(&admin, &web, Some("west")).await;
    expect_placed(&admin, &web, "east=2 west=4 by annotation").await;
    expect_placed(&admin, &at, "east west by reference").await;
    report_pods(&admin, &web, "west", 4).await;
    // The replicas count when the Service is there too.
    report_object(&admin, &at, "west", json!({ "state": "Applied" })).await;
    expect_placed(&admin, &web, "west=4 by annotation").await;
    expect_placed(&admin, &at, "west by reference").await;
    expect_placed(&admin, &budget, "west by reference").await;

    // A Service with an intent of its own, and one without Pods, are on no cluster.
    annotate(&admin, &at, Some("none")).await;
    wait_until(&admin, &at, "the Service leaves", |object| {
        atoll_fleet::Placement::of(object).clusters.is_empty()
    })
    .await;
    admin.delete(&web).await.expect(200);
    wait_until(&admin, &budget, "the budget leaves", |object| {
        atoll_fleet::Placement::of(object).clusters.is_empty()
    })
    .await;
}
