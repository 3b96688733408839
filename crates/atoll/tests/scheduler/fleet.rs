//! A control plane with a scheduler, and clusters that only the test reports about.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Client, Setup};
use serde_json::{Value, json};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Controllers of the tests. No syncer and no controller of health runs, so clusters are as the test says.
pub const CONTROLLERS: &str =
    "placementscheduler,placementfollower,objectstatus,endpointslicemerging,workspace,namespace";

/// Starts a control plane with a scheduler.
pub fn start() -> Atoll {
    Setup::new().flag("--controllers", CONTROLLERS).start()
}

/// Starts a control plane with clusters that have this many free cores each.
pub async fn with_clusters(clusters: &[(&str, i64)]) -> (Atoll, Client) {
    let atoll = start();
    let admin = atoll.admin();
    for (name, cores) in clusters {
        join(&admin, name, *cores).await;
    }
    wait_for_clusters(&admin, clusters.len()).await;
    (atoll, admin)
}

/// Waits until the scheduler knows that number of clusters and their room: what is created afterwards is placed with that
/// knowledge.
pub async fn wait_for_clusters(admin: &Client, count: usize) {
    let line = format!("atoll_scheduler_available_clusters {count}");
    eventually("the scheduler knows all clusters", async || {
        admin.get("/metrics").await.text().lines().any(|known| known == line)
    })
    .await;
}

/// Registers a cluster of one node that is ready and has reported its free cores.
pub async fn join(admin: &Client, name: &str, cores: i64) {
    join_with(admin, name, cores, json!({})).await;
}

/// Registers a cluster with a spec.
pub async fn join_with(admin: &Client, name: &str, cores: i64, spec: Value) {
    let cluster = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": spec,
    });
    admin.post(CLUSTERS, cluster).await.expect(201);
    report(admin, name, cores).await;
}

/// Reports that a cluster is ready and has free cores.
pub async fn report(admin: &Client, name: &str, cores: i64) {
    let resources = json!({ "cpu": cores.to_string(), "memory": format!("{}Gi", cores * 4), "pods": "1000" });
    let ready = json!({ "type": "Ready", "status": "True", "reason": "Synced", "message": "" });
    let status = json!({ "status": {
        "conditions": [ready],
        "free": [{ "nodes": 1, "labels": {}, "taints": [], "resources": resources }],
    } });
    admin.merge(&format!("{CLUSTERS}/{name}/status"), status).await.expect(200);
}

/// A Deployment whose replicas request this many thousandths of a core.
pub fn deployment(name: &str, replicas: i64, millicores: i64) -> Value {
    let labels = json!({ "app": name });
    let requests = json!({ "cpu": format!("{millicores}m") });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "example/app:1", "resources": { "requests": requests } }] },
            },
        },
    })
}

/// The same with the annotation for clusters.
pub fn annotated(mut object: Value, clusters: &str) -> Value {
    object["metadata"]["annotations"] = json!({ "atoll.dev/clusters": clusters });
    object
}

pub fn path(name: &str) -> String {
    format!("{DEPLOYMENTS}/{name}")
}

/// Writes the annotation for clusters of an object.
pub async fn annotate(admin: &Client, path: &str, clusters: Option<&str>) {
    let patch = json!({ "metadata": { "annotations": { "atoll.dev/clusters": clusters } } });
    admin.merge(path, patch).await.expect(200);
}

pub async fn scale(admin: &Client, path: &str, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    admin.merge(&format!("{path}/scale"), patch).await.expect(200);
}

/// Formats a placement such as `east=2 west=1 by annotation`.
pub fn summary(object: &Value) -> String {
    let placement = Placement::of(object);
    let shares: BTreeMap<&str, String> = placement
        .clusters
        .iter()
        .map(|share| {
            let amounts = [share.replicas, share.completions, share.first_ordinal];
            let amounts: String = amounts.iter().flatten().map(|amount| format!("={amount}")).collect();
            (share.name.as_str(), amounts)
        })
        .collect();
    let shares: Vec<String> = shares.iter().map(|(name, amounts)| format!("{name}{amounts}")).collect();
    match shares.is_empty() {
        true => "nowhere".to_string(),
        false => format!("{} by {}", shares.join(" "), placement.by),
    }
}

/// Waits until an object is placed like this, and returns it.
pub async fn expect_placed(admin: &Client, path: &str, expected: &str) -> Value {
    wait_until(admin, path, &format!("{path} is on {expected}"), |object| summary(object) == expected).await
}

/// Waits until an object is placed like this in a phase of a move, and returns it.
pub async fn expect_phase(admin: &Client, path: &str, expected: &str, phase: &str) -> Value {
    wait_until(admin, path, &format!("{path} is on {expected}, {phase:?}"), |object| {
        let placement = Placement::of(object);
        summary(object) == expected
            && placement.phase == phase
            && placement.target.is_empty() == phase.is_empty()
    })
    .await
}

/// Waits until an object meets a condition, and returns it. Shows the object if it never does.
pub async fn wait_until(admin: &Client, path: &str, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    let waiting = Waiting::until(what);
    let mut last = String::new();
    loop {
        let response = admin.get(path).await;
        let object = response.json_or_null();
        if response.status == 200 && is_met(&object) {
            return object;
        }
        let now = format!("{} {}", summary(&object), object["status"]["conditions"]);
        if now != last {
            eprintln!("{path}: {now}");
            last = now;
        }
        waiting.again().await;
    }
}

/// The status, reason and message of a condition.
pub fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == kind).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"), text("message"))
}

/// Reports, as a syncer would, that pods of an object are available on a cluster.
pub async fn report_pods(admin: &Client, path: &str, cluster: &str, pods: i64) {
    let status = json!({ "replicas": pods, "readyReplicas": pods, "availableReplicas": pods });
    let counts = json!({ "total": pods, "ready": pods, "pending": 0, "unschedulable": 0, "bound": pods });
    report_object(admin, path, cluster, json!({ "state": "Applied", "status": status, "pods": counts }))
        .await;
}

/// Reports all pods of an object on its only cluster, and waits until the control plane has noticed.
pub async fn report_all_pods(admin: &Client, path: &str, cluster: &str, pods: i64) {
    report_pods(admin, path, cluster, pods).await;
    wait_until(admin, path, "its pods are available", |object| object["status"]["availableReplicas"] == pods)
        .await;
}

/// Reports, as a syncer would, that an object is gone from a cluster.
pub async fn report_gone(admin: &Client, path: &str, cluster: &str) {
    report_object(admin, path, cluster, json!({ "state": "Gone" })).await;
}

pub async fn report_object(admin: &Client, path: &str, cluster: &str, mut record: Value) {
    let object = admin.get(path).await.expect(200);
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let plural = path.rsplit('/').nth(1).unwrap();
    record["resource"] = json!({
        "group": group, "version": version, "resource": plural, "kind": kind, "namespaced": true,
    });
    record["workspace"] = "root".into();
    for field in ["namespace", "name", "uid"] {
        record[field] = object["metadata"][field].clone();
    }
    // Services have no generation.
    record["generation"] = object["metadata"]["generation"].as_i64().unwrap_or(0).into();
    record["observed"] = true.into();
    admin.post(&format!("/services/sync/{cluster}"), json!({ "records": [record] })).await.expect(200);
}

/// Sets the Ready condition of a cluster, as it is since some seconds ago.
pub async fn set_ready(admin: &Client, cluster: &str, is_ready: bool, seconds_ago: u64) {
    let since = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds_ago);
    let since = since.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (status, reason) = if is_ready { ("True", "Synced") } else { ("False", "HeartbeatMissed") };
    let condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": atoll_meta::time::format(since.cast_signed()),
    });
    let path = format!("{CLUSTERS}/{cluster}/status");
    admin.merge(&path, json!({ "status": { "conditions": [condition] } })).await.expect(200);
}

/// Whether there is an event with this reason about an object.
pub async fn has_event(admin: &Client, name: &str, reason: &str) -> bool {
    let events = admin.get("/api/v1/namespaces/default/events").await.expect(200);
    let all = events["items"].as_array().unwrap();
    all.iter().any(|event| event["reason"] == reason && event["involvedObject"]["name"] == name)
}
