//! Affinity and anti-affinity: workloads are decided about again when those that their rules are about change.

use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, condition, deployment, expect_placed, path, report_gone, report_pods,
    wait_until, with_clusters,
};

#[tokio::test(flavor = "multi_thread")]
async fn workloads_follow_those_that_their_rules_are_about() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "apart" },
        "spec": {
            "objects": [{ "kind": "Deployment", "name": "web" }], "clusters": { "names": ["east"] },
            "antiAffinity": [{ "selector": { "matchLabels": { "app": "noisy" } } }],
        },
    });
    admin.post("/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies", policy).await.expect(201);
    let (noisy, web) = (path("noisy"), path("web"));
    admin.post(DEPLOYMENTS, annotated(deployment("noisy", 1, 100), "east")).await.expect(201);
    expect_placed(&admin, &noisy, "east=1 by annotation").await;
    report_pods(&admin, &noisy, "east", 1).await;
    admin.post(DEPLOYMENTS, deployment("web", 1, 100)).await.expect(201);
    let waits = |web: &Value| condition(web, "Placed").2.contains("which must be avoided");
    wait_until(&admin, &web, "it must not be beside the other one", waits).await;
    // Other labels of the other one are enough.
    let label = |value: &str| json!({ "metadata": { "labels": { "app": value } } });
    admin.merge(&noisy, label("quiet")).await.expect(200);
    expect_placed(&admin, &web, "east=1 by placementpolicy/apart").await;
    admin.merge(&noisy, label("noisy")).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("last", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("last"), "east=1 by default").await;
    // A new one waits until the other one has moved.
    admin.delete(&web).await.expect(200);
    report_gone(&admin, &web, "east").await;
    admin.post(DEPLOYMENTS, deployment("web", 1, 100)).await.expect(201);
    wait_until(&admin, &web, "it waits again", waits).await;
    annotate(&admin, &noisy, Some("west")).await;
    expect_placed(&admin, &noisy, "east=1 west=1 by annotation").await;
    report_pods(&admin, &noisy, "west", 1).await;
    expect_placed(&admin, &noisy, "west=1 by annotation").await;
    expect_placed(&admin, &web, "east=1 by placementpolicy/apart").await;
}
