//! Volume claims that workloads mount: their storage classes decide which clusters can run them.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, join_with, path, wait_until,
    with_clusters,
};
use crate::other_kinds::CLAIMS;

/// Reports the storage classes of a cluster.
async fn report_classes(admin: &Client, cluster: &str, storage: &[&str]) {
    let classes = json!({ "priority": [], "storage": storage, "runtime": [], "ingress": [] });
    let status = json!({ "status": { "classes": classes } });
    admin.merge(&format!("{CLUSTERS}/{cluster}/status"), status).await.expect(200);
}

fn claim(name: &str, class: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": class,
    } })
}

fn mounting(mut workload: Value, claim: &str) -> Value {
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } });
    workload["spec"]["template"]["spec"]["volumes"] = json!([volume]);
    workload
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_needs_the_storage_class_of_the_claim_that_it_mounts() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 4)]).await;
    report_classes(&admin, "east", &["slow"]).await;
    report_classes(&admin, "west", &["fast"]).await;
    admin.post(CLAIMS, claim("data", "fast")).await.expect(201);
    admin.post(CLAIMS, claim("logs", "slow")).await.expect(201);
    // East has more room.
    admin.post(DEPLOYMENTS, mounting(deployment("web", 1, 100), "data")).await.expect(201);
    expect_placed(&admin, &path("web"), "west=1 by default").await;
    expect_placed(&admin, &format!("{CLAIMS}/data"), "west by reference").await;
    admin.post(DEPLOYMENTS, annotated(mounting(deployment("log", 1, 100), "logs"), "east")).await.expect(201);
    expect_placed(&admin, &path("log"), "east=1 by annotation").await;
    // The reason names the class, and it is placed as soon as the cluster has it.
    let stuck = annotated(mounting(deployment("stuck", 1, 100), "data"), "east");
    admin.post(DEPLOYMENTS, stuck).await.expect(201);
    wait_until(&admin, &path("stuck"), "its condition names the class", |object| {
        let (status, reason, message) = condition(object, "Placed");
        let names_class = message.contains("east has no StorageClass \"fast\"");
        (status.as_str(), reason.as_str(), names_class) == ("False", "Unschedulable", true)
    })
    .await;
    report_classes(&admin, "east", &["slow", "fast"]).await;
    expect_placed(&admin, &path("stuck"), "east=1 by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_an_override_replaces_is_there() {
    let (_atoll, admin) = with_clusters(&[("east", 8)]).await;
    report_classes(&admin, "east", &["slow"]).await;
    let overrides = json!({ "overrides": [{ "storageClass": { "fast": "nvme" } }] });
    join_with(&admin, "west", 4, overrides).await;
    report_classes(&admin, "west", &["nvme"]).await;
    admin.post(CLAIMS, claim("data", "fast")).await.expect(201);
    admin.post(DEPLOYMENTS, mounting(deployment("web", 1, 100), "data")).await.expect(201);
    expect_placed(&admin, &path("web"), "west=1 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_claim_of_that_name_counts_at_once() {
    let (_atoll, admin) = with_clusters(&[("east", 8)]).await;
    report_classes(&admin, "east", &["slow"]).await;
    let data = format!("{CLAIMS}/data");
    admin.post(CLAIMS, claim("data", "fast")).await.expect(201);
    admin.post(DEPLOYMENTS, mounting(deployment("web", 1, 100), "data")).await.expect(201);
    wait_until(&admin, &path("web"), "its condition names the class", |object| {
        condition(object, "Placed").2.contains("StorageClass \"fast\"")
    })
    .await;
    admin.merge(&data, json!({ "metadata": { "finalizers": null } })).await.expect(200);
    admin.delete(&data).await.expect(200);
    admin.post(CLAIMS, claim("data", "slow")).await.expect(201);
    expect_placed(&admin, &path("web"), "east=1 by default").await;
}
