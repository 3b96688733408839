//! Kinds other than Deployments.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{expect_placed, has_event, join, report_pods, scale, wait_until, with_clusters};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const BATCH: &str = "/apis/batch/v1/namespaces/default";

fn template(name: &str, restart: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "restartPolicy": restart, "containers": [{ "name": "main", "image": "example/app:1" }] },
    })
}

async fn create(admin: &Client, base: &str, plural: &str, kind: &str, name: &str, mut spec: Value) -> String {
    let restart = if base == BATCH { "Never" } else { "Always" };
    match kind {
        "CronJob" => spec["jobTemplate"] = json!({ "spec": { "template": template(name, restart) } }),
        _ => spec["template"] = template(name, restart),
    }
    if base == APPS {
        spec["selector"] = json!({ "matchLabels": { "app": name } });
    }
    let version = base.trim_start_matches("/apis/").split("/namespaces").next().unwrap();
    let object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec });
    admin.post(&format!("{base}/{plural}"), object).await.expect(201);
    format!("{base}/{plural}/{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_workload_is_placed_by_default() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    let set = create(
        &admin,
        APPS,
        "statefulsets",
        "StatefulSet",
        "db",
        json!({ "replicas": 3, "serviceName": "db" }),
    )
    .await;
    expect_placed(&admin, &set, "west=3 by default").await;
    let agent = create(&admin, APPS, "daemonsets", "DaemonSet", "agent", json!({})).await;
    expect_placed(&admin, &agent, "west by default").await;
    let replicas = create(&admin, APPS, "replicasets", "ReplicaSet", "rs", json!({ "replicas": 2 })).await;
    expect_placed(&admin, &replicas, "west=2 by default").await;
    let cron = create(&admin, BATCH, "cronjobs", "CronJob", "cron", json!({ "schedule": "0 0 1 1 *" })).await;
    expect_placed(&admin, &cron, "west by default").await;
    let job = create(&admin, BATCH, "jobs", "Job", "job", json!({ "completions": 4 })).await;
    admin.get(&job).await.expect(200);
    crate::fleet::wait_until(&admin, &job, "the Job is on west", |job| {
        crate::fleet::summary(job).starts_with("west")
    })
    .await;
    let mut controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": "rc" },
        "spec": { "replicas": 2, "selector": { "app": "rc" } },
    });
    controller["spec"]["template"] = template("rc", "Always");
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    admin.post(controllers, controller).await.expect(201);
    let rc = format!("{controllers}/rc");
    expect_placed(&admin, &rc, "west=2 by default").await;
    // Its condition is that of other workloads.
    crate::fleet::report_pods(&admin, &rc, "west", 2).await;
    let is_placed = |rc: &serde_json::Value| crate::fleet::condition(rc, "Placed").1 == "Applied";
    crate::fleet::wait_until(&admin, &rc, "it is applied", is_placed).await;
    crate::fleet::scale(&admin, &rc, 1_000_000).await;
    let is_partial = |rc: &serde_json::Value| crate::fleet::condition(rc, "Placed").1 == "Unschedulable";
    crate::fleet::wait_until(&admin, &rc, "it has no room for all of them", is_partial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_sets_run_on_every_cluster_of_their_policy() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "everywhere" },
        "spec": { "replicas": { "division": "Duplicate" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    let agent = create(&admin, APPS, "daemonsets", "DaemonSet", "agent", json!({})).await;
    expect_placed(&admin, &agent, "east west by placementpolicy/everywhere").await;
    // Also on those that join later.
    join(&admin, "north", 4).await;
    expect_placed(&admin, &agent, "east north west by placementpolicy/everywhere").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_stateful_sets_are_divided_only_by_a_policy() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" },
        "spec": { "objects": [{ "kind": "Job" }, { "kind": "StatefulSet" }], "replicas": { "division": "Even" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    // A Job is divided when it is placed first, so the scheduler must know the policy.
    wait_until(&admin, &format!("{POLICIES}/spread"), "the policy is known", |policy| {
        policy["status"]["observedGeneration"] == 1
    })
    .await;
    let job =
        create(&admin, BATCH, "jobs", "Job", "sum", json!({ "completions": 10, "parallelism": 4 })).await;
    expect_placed(&admin, &job, "east=5 west=5 by placementpolicy/spread").await;
    let indexed = json!({ "completions": 10, "completionMode": "Indexed" });
    let whole = create(&admin, BATCH, "jobs", "Job", "indexed", indexed).await;
    crate::fleet::wait_until(&admin, &whole, "the Indexed Job is on one cluster", |job| {
        atoll_fleet::Placement::of(job).clusters.len() == 1
    })
    .await;
    let set = create(
        &admin,
        APPS,
        "statefulsets",
        "StatefulSet",
        "db",
        json!({ "replicas": 4, "serviceName": "db" }),
    )
    .await;
    // The Pods of the second segment start when those of the first are ready.
    expect_placed(&admin, &set, "east=2=0 by placementpolicy/spread").await;
    report_pods(&admin, &set, "east", 2).await;
    expect_placed(&admin, &set, "east=2=0 west=2=2 by placementpolicy/spread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_last_segment_is_followed_by_another_one() {
    let (_atoll, admin) = with_clusters(&[("east", 2), ("west", 2)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" },
        "spec": { "objects": [{ "kind": "StatefulSet" }], "replicas": { "division": "Even" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    wait_until(&admin, &format!("{POLICIES}/spread"), "the policy is known", |policy| {
        policy["status"]["observedGeneration"] == 1
    })
    .await;
    let mut spec =
        json!({ "replicas": 4, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } } });
    spec["template"] = template("db", "Always");
    spec["template"]["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1" } });
    let sets = format!("{APPS}/statefulsets");
    admin.post(&sets, json!({ "metadata": { "name": "db" }, "spec": spec })).await.expect(201);
    let (set, by) = (format!("{sets}/db"), "by placementpolicy/spread");
    expect_placed(&admin, &set, &format!("east=2=0 {by}")).await;
    report_pods(&admin, &set, "east", 2).await;
    expect_placed(&admin, &set, &format!("east=2=0 west=2=2 {by}")).await;
    report_pods(&admin, &set, "west", 2).await;
    // No cluster has room for more, until one joins.
    scale(&admin, &set, 6).await;
    eventually("the user is told", async || has_event(&admin, "db", "Unschedulable").await).await;
    join(&admin, "north", 4).await;
    expect_placed(&admin, &set, &format!("east=2=0 north=2=4 west=2=2 {by}")).await;
    report_pods(&admin, &set, "north", 2).await;
    // It keeps its place when it is empty.
    scale(&admin, &set, 3).await;
    expect_placed(&admin, &set, &format!("east=2=0 north=0=4 west=2=2 {by}")).await;
    report_pods(&admin, &set, "north", 0).await;
    expect_placed(&admin, &set, &format!("east=2=0 north=0=4 west=1=2 {by}")).await;
}
