//! Compares the autoscalers of the real kube-controller-manager with Atoll's, each at its own simulated
//! cluster with metrics: sizes, conditions, metrics and events must be equal.
//!
//! ```text
//!   cases ─┬─► atoll sim ◄── kube-controller-manager ┐
//!          └─► atoll sim ◄── Atoll's controller      ┴─► compared; changes ─► compared again
//! ```
//!
//! Pods exist, and have metrics, before the autoscalers start. Most of them have no controller, so that their
//! usage stays the same whatever the size of the target.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::expect_used)]

mod cases;
mod changes;
#[path = "../support/sides.rs"]
mod sides;
mod snapshot;

use std::time::{Duration, Instant};

use atoll_controllers::settings::Settings;
use atoll_meta::time;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use cases::{AUTOSCALERS, Case, KEPT, NAMESPACE, UNMEASURED, WIDGETS};
use serde_json::{Value, json};
use sides::AtollControllers;
use snapshot::{Snapshot, differences, list, name};

const CONTROLLER: &str = "horizontal-pod-autoscaler-controller";
/// Other controllers that run, without those that would delete unusual pods.
const OTHERS: &str = "deployment-controller,replicaset-controller,replicationcontroller-controller,\
    statefulset-controller,serviceaccount-controller,node-lifecycle-controller";
const SYNC_PERIOD: Duration = Duration::from_secs(2);
/// Window in which the highest recommendation counts: longer than the test takes.
const STABILIZATION: Duration = Duration::from_secs(3600);
/// Time limit for both to agree.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Interval between comparisons.
const PAUSE: Duration = Duration::from_millis(500);
const PODS: &str = "/api/v1/namespaces/test/pods";
const MEASURED: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/test/pods";

#[tokio::test(flavor = "multi_thread")]
async fn autoscalers_do_as_in_kube_controller_manager() {
    let Some(programs) = sides::controller_manager() else { return };
    let arguments = ["--nodes=4", "--node-cpu=64", &format!("--controllers={OTHERS}")];
    let (upstream, atoll) = (Atoll::simulate(&arguments), Atoll::simulate(&arguments));
    let cases = cases::all();
    let clients = [upstream.admin().keep_alive(), atoll.admin().keep_alive()];
    futures_util::future::join_all(clients.iter().map(|client| make(client, &cases))).await;
    let more = [
        format!("--horizontal-pod-autoscaler-sync-period={}s", SYNC_PERIOD.as_secs()),
        format!("--horizontal-pod-autoscaler-downscale-stabilization={}s", STABILIZATION.as_secs()),
    ];
    let log = upstream.directory.join("controller-manager.log");
    let _upstream =
        sides::start_kube_controller_manager(&programs, &upstream.kubeconfig(), CONTROLLER, &more, &log);
    let settings = Settings {
        horizontal_pod_autoscaler_sync_period: SYNC_PERIOD,
        horizontal_pod_autoscaler_downscale_stabilization: STABILIZATION,
        ..Settings::default()
    };
    let _atoll = AtollControllers::start(&atoll.admin(), CONTROLLER, settings);
    same(&clients, |status_of| {
        cases.iter().filter_map(|case| difference_to_expected(case, &status_of(case.name))).collect()
    })
    .await;
    for (path, patch) in changes::changes() {
        for client in &clients {
            merge(client, &path, &patch).await;
        }
    }
    for (name, spec) in changes::rivals() {
        for client in &clients {
            create(client, AUTOSCALERS, &autoscaler(&name, spec.clone())).await;
        }
    }
    same(&clients, |status_of| {
        let changed = changes::changed();
        let is_not_yet =
            changed.iter().filter(|(name, at, expected)| status_of(name).pointer(at) != Some(expected));
        is_not_yet.map(|(name, at, expected)| format!("{name}: {at} is not {expected}")).collect()
    })
    .await;
}

/// Returns how a case differs from its expectation.
fn difference_to_expected(case: &Case, status: &Value) -> Option<String> {
    let current = status["currentReplicas"].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
    let active = of("ScalingActive").map(|condition| condition["status"] == "True");
    // The state right after a rescale is not final.
    let is_done = of("AbleToScale").is_some_and(|condition| condition["reason"] != "SucceededRescale");
    (current != case.settles || active != case.active || !is_done)
        .then(|| format!("{}: expected {} and {:?}, not {status}", case.name, case.settles, case.active))
}

/// Waits until both agree and match the expectations, and stay so.
async fn same(clients: &[Client; 2], missing: impl Fn(&dyn Fn(&str) -> Value) -> Vec<String>) {
    let (start, mut interval) = (Instant::now(), tokio::time::interval(PAUSE));
    loop {
        interval.tick().await;
        let (upstream, atoll) = (snapshot::take(&clients[0]).await, snapshot::take(&clients[1]).await);
        let lacks =
            |snapshot: &Snapshot| missing(&|name| snapshot.statuses.get(name).cloned().unwrap_or_default());
        let mut wrong = differences(&upstream, &atoll);
        wrong.extend(lacks(&upstream).into_iter().map(|what| format!("upstream: {what}")));
        if wrong.is_empty() {
            return println!("the same after {:?}", start.elapsed());
        }
        assert!(start.elapsed() < TIMEOUT, "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    }
}

async fn create(client: &Client, path: &str, object: &Value) {
    let answer = client.post(path, object).await;
    assert_eq!(answer.status, 201, "{path}: {}\n{object:#}", answer.text());
}

async fn merge(client: &Client, path: &str, patch: &Value) {
    client.merge(path, patch).await.expect(200);
}

fn autoscaler(name: &str, mut spec: Value) -> Value {
    if spec.get("scaleTargetRef").is_none() {
        spec["scaleTargetRef"] = json!({"kind": "Widget", "apiVersion": "example.com/v1", "name": name});
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Creates all objects, the autoscalers last.
async fn make(client: &Client, cases: &[Case]) {
    create(client, "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await;
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default");
    let is_there = async |path: &str| client.get(path).await.status == 200;
    eventually("there is an account for pods", async || is_there(&account).await).await;
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &cases::definition()).await;
    eventually("widgets are served", async || is_there(WIDGETS).await).await;
    for (path, object) in cases::workloads() {
        create(client, &path, &object).await;
    }
    for case in cases {
        for pod in &case.pods {
            create(client, PODS, pod).await;
            if pod["spec"]["nodeName"] == UNMEASURED {
                let since = "2026-01-01T00:00:00Z";
                let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
                let status = json!({"phase": "Running", "startTime": since, "conditions": ready});
                merge(client, &format!("{PODS}/{}/status", name(pod)), &json!({ "status": status })).await;
            }
        }
        if let Some(replicas) = case.replicas {
            let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": case.name}, "spec": {"replicas": replicas}});
            create(client, WIDGETS, &widget).await;
            let status = json!({"replicas": replicas, "selector": format!("app={}", case.name)});
            merge(client, &format!("{WIDGETS}/{}/status", case.name), &json!({ "status": status })).await;
        }
    }
    let mut interval = tokio::time::interval(PAUSE);
    eventually("all pods are what they will be, and measured", async || {
        interval.tick().await;
        is_measured(&list(client, PODS).await, &list(client, MEASURED).await)
    })
    .await;
    for pod in list(client, PODS).await.iter().filter(|pod| pod["metadata"]["finalizers"][0] == KEPT) {
        client.delete(&format!("{PODS}/{}", name(pod))).await.expect(200);
    }
    for case in cases {
        create(client, AUTOSCALERS, &autoscaler(case.name, case.spec.clone())).await;
    }
}

/// Whether pods have reached their final state, and their metrics count.
fn is_measured(pods: &[Value], measured: &[Value]) -> bool {
    let seconds =
        |time: &Value| time::parse(time.as_str().unwrap_or_default()).map_or(0, |time| time.seconds);
    let is_good = |pod: &Value| {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let ends = pod["spec"]["restartPolicy"] == "Never";
        if pod["spec"]["nodeName"] == UNMEASURED || pod["spec"]["nodeSelector"].is_object() || ends {
            return !ends || matches!(phase, "Failed" | "Succeeded");
        }
        let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        let has_probe = pod["spec"]["containers"][0]["readinessProbe"].is_object();
        let sample = measured.iter().find(|sample| name(sample) == name(pod));
        // Samples right after a pod became ready do not count.
        let counts = sample.zip(ready).is_some_and(|(sample, ready)| {
            seconds(&sample["timestamp"]) > seconds(&ready["lastTransitionTime"]) + 2
        });
        phase == "Running" && is_ready != has_probe && counts
    };
    let wanted: i64 =
        cases::workloads().iter().filter_map(|(_, workload)| workload["spec"]["replicas"].as_i64()).sum();
    let owned = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"].is_array());
    owned.count() == usize::try_from(wanted).unwrap_or(0) && pods.iter().all(is_good)
}
