//! Every kind of workload says whether it is placed, and kubectl does not wait for what runs nowhere.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::programs::{self, fail, succeed};
use crate::world::{World, becomes, create, object, plain_pods, web};

const WORKLOADS: &str = "/apis/apps/v1/namespaces/default";

fn placed(object: &Value) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == "Placed").cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"))
}

fn is(object: &Value, status: &str, reason: &str) -> bool {
    placed(object) == (status.to_string(), reason.to_string())
}

/// One object of each kind that has the condition, with its resource and the path of its collection.
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
async fn every_kind_of_workload_says_whether_it_is_placed() {
    let world = World::start();
    let above = world.admin();
    for (kind, path, object) in workloads() {
        create(&above, &path, object).await;
        let at = format!("{path}/a");
        let found =
            becomes(&format!("{kind} is nowhere"), &above, &at, |it| is(it, "False", "NotPlaced")).await;
        assert!(found["status"]["readyReplicas"].is_null() && found["status"]["active"].is_null(), "{found}");
        world.says(&format!("place {kind}/a --on east"));
        becomes(&format!("{kind} is there"), &above, &at, |it| is(it, "True", "Applied")).await;
        world.says(&format!("release {kind}/a"));
        becomes(&format!("{kind} is let go"), &above, &at, |it| is(it, "False", "NotPlaced")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_does_not_wait_for_what_runs_nowhere() {
    let Some(programs) = programs::kubectl() else { return };
    let world = World::start();
    let kubectl = |line: &str| {
        let mut command = Command::new(programs.join("kubectl"));
        command.env("KUBECONFIG", world.above.admin_kubeconfig()).args(line.split(' '));
        command
    };
    create(&world.admin(), &format!("{WORKLOADS}/deployments"), web(2, plain_pods())).await;
    // It ends by itself, long before its own time limit.
    let said = fail(&mut kubectl("rollout status deployment/web --timeout=10m"));
    assert!(said.contains("exceeded its progress deadline"), "{said}");
    succeed(&mut kubectl("wait deployment/web --for=condition=Placed=False --timeout=10m"));
    world.says("place deployment/web --on east");
    succeed(&mut kubectl("rollout status deployment/web --timeout=10m"));
}

/// A cluster is not said to be ready before it was heard of, and joining waits for that where the control plane syncs.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_ready_when_it_was_heard_of() {
    let world = World::apart();
    let above = world.admin();
    let ready = |cluster: &Value| {
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|one| one["type"] == "Ready");
        found.and_then(|one| one["status"].as_str()).unwrap_or("missing").to_string()
    };
    let quiet = json!({ "metadata": { "name": "quiet" }, "spec": { "mode": "none" } });
    let clusters = "/apis/atoll.dev/v1alpha1/clusters";
    create(&above, clusters, quiet).await;
    becomes("nothing is known of it", &above, &format!("{clusters}/quiet"), |it| ready(it) == "Unknown")
        .await;
    let kubeconfig = world.east.kubeconfig().display().to_string();
    let said = world.says(&format!("cluster join east --kubeconfig {kubeconfig}"));
    assert!(said.contains("heard of it for the first time: it is ready"), "{said}");
    let east = above.get(&format!("{clusters}/east")).await.expect(200);
    assert_eq!(ready(&east), "True", "join has waited for it: {east}");
    eventually("the table says so as well", async || world.says("cluster list").contains("quiet")).await;
}
