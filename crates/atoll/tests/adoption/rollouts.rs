//! Workloads of every kind report whether they are placed, and `kubectl rollout status` does not wait for
//! unplaced workloads.

use atoll_testkit::Kubectl;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, unplaced, wait_for, web};

const WORKLOADS: &str = "/apis/apps/v1/namespaces/default";

fn placed_condition(object: &Value) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == "Placed").cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"))
}

fn has_placed_condition(object: &Value, status: &str, reason: &str) -> bool {
    placed_condition(object) == (status.to_string(), reason.to_string())
}

/// Returns one object of each kind that has the condition, with its resource and the path of its collection.
fn workloads() -> Vec<(&'static str, String, Value)> {
    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": plain_pods() });
    let selected = json!({ "selector": { "matchLabels": { "app": "a" } }, "template": template });
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let with = |more: Value| {
        let mut spec = selected.clone();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "spec": spec })
    };
    let apps = |plural: &str| format!("{WORKLOADS}/{plural}");
    vec![
        ("deployment", apps("deployments"), object("apps/v1", "Deployment", "a", with(json!({})))),
        ("replicaset", apps("replicasets"), object("apps/v1", "ReplicaSet", "a", with(json!({})))),
        (
            "statefulset",
            apps("statefulsets"),
            object("apps/v1", "StatefulSet", "a", with(json!({ "serviceName": "a" }))),
        ),
        ("daemonset", apps("daemonsets"), object("apps/v1", "DaemonSet", "a", with(json!({})))),
        (
            "job",
            "/apis/batch/v1/namespaces/default/jobs".to_string(),
            object("batch/v1", "Job", "a", json!({ "spec": { "template": once } })),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_every_kind_report_whether_they_are_placed() {
    let fleet = TestFleet::start();
    let above = fleet.admin();
    for (kind, path, object) in workloads() {
        create(&above, &path, unplaced(object)).await;
        let at = format!("{path}/a");
        let found = wait_for(&format!("{kind} is unplaced"), &above, &at, |it| {
            has_placed_condition(it, "False", "NotPlaced")
        })
        .await;
        assert!(found["status"]["readyReplicas"].is_null() && found["status"]["active"].is_null(), "{found}");
        fleet.run(&format!("place {kind}/a --on east"));
        wait_for(&format!("{kind} is applied"), &above, &at, |it| {
            has_placed_condition(it, "True", "Applied")
        })
        .await;
        fleet.run(&format!("release {kind}/a"));
        wait_for(&format!("{kind} is released"), &above, &at, |it| {
            has_placed_condition(it, "False", "NotPlaced")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_status_does_not_wait_for_an_unplaced_workload() {
    let fleet = TestFleet::start();
    let Some(kubectl) = Kubectl::new(&fleet.above.kubeconfig()) else { return };
    let web = unplaced(web(2, plain_pods()));
    create(&fleet.admin(), &format!("{WORKLOADS}/deployments"), web).await;
    // It fails by itself, long before its timeout.
    let printed = kubectl.run_failing("rollout status deployment/web --timeout=10m");
    assert!(printed.contains("exceeded its progress deadline"), "{printed}");
    kubectl.run("wait deployment/web --for=condition=Placed=False --timeout=10m");
    fleet.run("place deployment/web --on east");
    kubectl.run("rollout status deployment/web --timeout=10m");
}

/// A cluster is not ready before its first heartbeat, and joining waits for that if the control plane syncs
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_ready_after_its_first_heartbeat() {
    let fleet = TestFleet::not_joined();
    let above = fleet.admin();
    let ready = |cluster: &Value| {
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|one| one["type"] == "Ready");
        found.and_then(|one| one["status"].as_str()).unwrap_or("missing").to_string()
    };
    let quiet = json!({ "metadata": { "name": "quiet" }, "spec": { "mode": "none" } });
    let clusters = "/apis/atoll.dev/v1alpha1/clusters";
    create(&above, clusters, quiet).await;
    wait_for("the cluster's readiness is unknown", &above, &format!("{clusters}/quiet"), |it| {
        ready(it) == "Unknown"
    })
    .await;
    let kubeconfig = fleet.east.kubeconfig().display().to_string();
    let printed = fleet.run(&format!("cluster join east --kubeconfig {kubeconfig}"));
    assert!(printed.contains("received the first heartbeat: the cluster is ready"), "{printed}");
    let east = above.get(&format!("{clusters}/east")).await.expect(200);
    assert_eq!(ready(&east), "True", "join must have waited until the cluster is ready: {east}");
    eventually("the table lists the cluster", async || fleet.run("cluster list").contains("quiet")).await;
}
