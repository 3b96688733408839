//! Workloads that no cluster takes: a reason for each cluster, and another attempt when something helps.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, has_event, join, join_with, path,
    report, summary, wait_until, with_clusters,
};

fn is_unschedulable(web: &Value) -> bool {
    let (status, reason, _) = condition(web, "Placed");
    (status.as_str(), reason.as_str()) == ("False", "Unschedulable") && summary(web) == "nowhere"
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_of_each_cluster_is_told_until_one_joins_that_fits() {
    let (_atoll, admin) = with_clusters(&[("small", 1)]).await;
    join_with(&admin, "closed", 32, json!({ "unschedulable": true })).await;
    let created = admin.post(DEPLOYMENTS, deployment("web", 1, 4000)).await;
    created.expect(201);
    let web = path("web");
    let has_reasons = |web: &Value| {
        let (_, _, message) = condition(web, "Placed");
        message.contains("small ") && message.contains("cpu") && message.contains("closed is cordoned")
    };
    wait_until(&admin, &web, "it is unschedulable for these reasons", |web| {
        is_unschedulable(web) && has_reasons(web)
    })
    .await;
    wait_until(&admin, &web, "clients wait", |web| {
        condition(web, "Available").0 == "False" && condition(web, "Progressing").0 == "True"
    })
    .await;
    eventually("an event says so", async || has_event(&admin, "web", "Unschedulable").await).await;
    join(&admin, "large", 8).await;
    expect_placed(&admin, &web, "large=1 by default").await;
    wait_until(&admin, &web, "the condition is gone", |web| {
        condition(web, "Placed").1 != "Unschedulable" && condition(web, "Progressing").0 != "False"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_of_clusters_are_kept() {
    let (atoll, admin) = with_clusters(&[("east", 16), ("west", 4)]).await;
    let left = json!([{ "workspace": "root", "namespace": "default", "left": { "cpu": "250m" } }]);
    let status = json!({ "status": { "quotas": left } });
    admin.merge(&format!("{CLUSTERS}/east/status"), status).await.expect(200);
    // It has most room, and its ResourceQuota leaves room for two of three.
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "west=3 by default").await;
    admin.post(DEPLOYMENTS, annotated(deployment("large", 1, 300), "east")).await.expect(201);
    wait_until(&admin, &path("large"), "the quota is the reason", |large| {
        condition(large, "Placed")
            .2
            .contains("east has a ResourceQuota of cpu in the namespace that leaves room for no replica")
    })
    .await;
    assert!(atoll.run("explain deploy/large").contains("ResourceQuota of cpu"));
    // More is left: it is tried again.
    let left = json!([{ "workspace": "root", "namespace": "default", "left": { "cpu": "300m" } }]);
    admin
        .merge(&format!("{CLUSTERS}/east/status"), json!({ "status": { "quotas": left } }))
        .await
        .expect(200);
    expect_placed(&admin, &path("large"), "east=1 by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_may_help_leads_to_another_attempt() {
    let (_atoll, admin) = with_clusters(&[("east", 2)]).await;
    let (first, second) = (path("first"), path("second"));
    admin.post(DEPLOYMENTS, deployment("first", 1, 1500)).await.expect(201);
    expect_placed(&admin, &first, "east=1 by default").await;
    admin.post(DEPLOYMENTS, deployment("second", 1, 1500)).await.expect(201);
    wait_until(&admin, &second, "there is no room for the second", is_unschedulable).await;
    // Another object leaves.
    admin.delete(&first).await.expect(200);
    let target = json!({ "spec": { "clusters": [] } });
    admin.merge(&format!("{first}/placement"), target).await;
    release(&admin, "first").await;
    expect_placed(&admin, &second, "east=1 by default").await;
    // The cluster grows.
    admin.post(DEPLOYMENTS, deployment("third", 1, 1500)).await.expect(201);
    wait_until(&admin, &path("third"), "there is no room for the third", is_unschedulable).await;
    report(&admin, "east", 8).await;
    expect_placed(&admin, &path("third"), "east=1 by default").await;
    // The cluster is opened.
    let cordoned = |is: bool| json!({ "spec": { "unschedulable": is } });
    admin.merge(&format!("{CLUSTERS}/east"), cordoned(true)).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("fourth", 1, 100)).await.expect(201);
    wait_until(&admin, &path("fourth"), "the cluster is closed", is_unschedulable).await;
    admin.merge(&format!("{CLUSTERS}/east"), cordoned(false)).await.expect(200);
    expect_placed(&admin, &path("fourth"), "east=1 by default").await;
}

/// Reports, as a syncer would, that a Deployment is gone from the cluster.
async fn release(admin: &atoll_testkit::Client, name: &str) {
    let found = admin.get(&path(name)).await;
    if found.status != 200 {
        return;
    }
    let object = found.json();
    let resource = json!({ "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment", "namespaced": true });
    let record = json!({
        "resource": resource, "workspace": "root", "namespace": "default", "name": name,
        "uid": object["metadata"]["uid"], "state": "Gone",
    });
    admin.post("/services/sync/east", json!({ "records": [record] })).await.expect(200);
}
