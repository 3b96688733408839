//! Rebalancing: a new cluster gets its part, and replicas leave clusters that cannot run them.

use atoll_testkit::Client;
use serde_json::json;

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, deployment, expect_placed, join, path, report_object, report_pods, with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";

async fn divide_evenly(admin: &Client) {
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "even" },
        "spec": { "replicas": { "division": "Even" }, "disruption": { "maxMoving": 1 } },
    });
    admin.post(POLICIES, policy).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_gets_its_part_one_replica_after_the_other() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    divide_evenly(&admin).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 6, 100)).await.expect(201);
    let by = "by placementpolicy/even";
    expect_placed(&admin, &web, &format!("east=3 west=3 {by}")).await;
    report_pods(&admin, &web, "east", 3).await;
    report_pods(&admin, &web, "west", 3).await;
    join(&admin, "north", 8).await;
    expect_placed(&admin, &web, &format!("east=3 north=1 west=3 {by}")).await;
    report_pods(&admin, &web, "north", 1).await;
    // One leaves, and the next one starts.
    expect_placed(&admin, &web, &format!("east=2 north=2 west=3 {by}")).await;
    report_pods(&admin, &web, "north", 2).await;
    expect_placed(&admin, &web, &format!("east=2 north=2 west=2 {by}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn taints_and_unschedulable_replicas_lead_elsewhere() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    divide_evenly(&admin).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 4, 100)).await.expect(201);
    let by = "by placementpolicy/even";
    expect_placed(&admin, &web, &format!("east=2 west=2 {by}")).await;
    // The nodes of west are gone, and its pods are pending.
    let status = json!({ "status": { "free": [] } });
    admin.merge(&format!("{CLUSTERS}/west/status"), status).await.expect(200);
    let pods = json!({ "total": 2, "ready": 0, "pending": 2, "unschedulable": 2, "bound": 0 });
    report_object(&admin, &web, "west", json!({ "state": "Applied", "pods": pods })).await;
    expect_placed(&admin, &web, &format!("east=4 {by}")).await;
    // A taint that evicts empties a cluster as soon as others are ready.
    report_pods(&admin, &web, "east", 4).await;
    join(&admin, "north", 8).await;
    let taint = json!({ "spec": { "taints": [{ "key": "old", "effect": "NoExecute" }] } });
    admin.merge(&format!("{CLUSTERS}/east"), taint).await.expect(200);
    expect_placed(&admin, &web, &format!("east=4 north=1 {by}")).await;
    for ready in 1..=4 {
        report_pods(&admin, &web, "north", ready).await;
        report_pods(&admin, &web, "east", 4 - ready).await;
    }
    expect_placed(&admin, &web, &format!("north=4 {by}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_grows_or_shrinks_leads_to_a_new_division() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "room" },
        "spec": { "replicas": { "division": "Capacity" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 8, 1000)).await.expect(201);
    let by = "by placementpolicy/room";
    expect_placed(&admin, &web, &format!("east=4 west=4 {by}")).await;
    for cluster in ["east", "west"] {
        report_pods(&admin, &web, cluster, 4).await;
    }
    // As many nodes with more cores, and then with fewer.
    let resized = async |cores: i64| {
        let amounts = json!({ "cpu": cores.to_string(), "memory": "64Gi", "pods": "1000" });
        let free = json!([{ "nodes": 1, "labels": {}, "taints": [], "resources": amounts }]);
        let status = json!({ "status": { "allocatable": amounts, "free": free } });
        admin.merge(&format!("{CLUSTERS}/west/status"), status).await.expect(200);
    };
    resized(24).await;
    expect_placed(&admin, &web, &format!("east=4 west=6 {by}")).await;
    report_pods(&admin, &web, "west", 6).await;
    expect_placed(&admin, &web, &format!("east=2 west=6 {by}")).await;
    report_pods(&admin, &web, "east", 2).await;
    resized(8).await;
    expect_placed(&admin, &web, &format!("east=4 west=6 {by}")).await;
    report_pods(&admin, &web, "east", 4).await;
    expect_placed(&admin, &web, &format!("east=4 west=4 {by}")).await;
}
