//! Benchmark of parsing and writing JSON against serde_json and, for splicing, against a plain copy: `cargo
//! run --release -p atoll-meta --example json_speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use atoll_meta::json;
use serde_json::{Value, json};

fn main() {
    let pod = pod(0);
    let list = json!({"kind": "PodList", "apiVersion": "v1", "items": (0..2000).map(pod_without_type).collect::<Vec<_>>()});
    let config = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "files"},
        "data": {"page": "<p>a line of text, \"quoted\" &amp; escaped</p>\n".repeat(2000)}});
    for (name, value) in
        [("pod of 1 KB", &pod), ("list of 2,000 pods", &list), ("file in a ConfigMap", &config)]
    {
        let bytes = json::to_vec(value);
        println!("{name}, {} bytes", bytes.len());
        let stored = json::encode_object(value);
        let size = bytes.len();
        compare(
            "parse",
            size,
            || serde_json::from_slice::<Value>(&bytes).is_ok(),
            || json::parse(&bytes).is_ok(),
        );
        compare("write", size, || serde_json::to_vec(value).is_ok(), || !json::to_vec(value).is_empty());
        compare(
            "encode",
            size,
            || serde_json::to_vec(value).is_ok(),
            || !json::encode_object(value).is_empty(),
        );
        let revision = || !json::splice_resource_version(&stored, 1_234_567).is_empty();
        compare("splice", size, || !black_box(bytes.clone()).is_empty(), revision);
    }
}

/// Runs both alternately, so that a busy machine affects both, and prints the best time of each.
fn compare(name: &str, bytes: usize, mut other: impl FnMut() -> bool, mut atoll: impl FnMut() -> bool) {
    let rounds = (2_000_000 / (bytes + 1)).clamp(1, 2_000) as u32;
    let mut best = [Duration::MAX; 2];
    for _ in 0..30 {
        best[0] = best[0].min(time(rounds, &mut other));
        best[1] = best[1].min(time(rounds, &mut atoll));
    }
    let [other, atoll] = best;
    let speed = bytes as f64 / atoll.as_secs_f64() / 1e6;
    let share = atoll.as_secs_f64() / other.as_secs_f64() * 100.0;
    println!("  {name:8} {atoll:>10.2?} {speed:>7.0} MB/s, {share:>4.0} % of {other:.2?}");
}

fn time(rounds: u32, work: &mut impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        assert!(black_box(work()));
    }
    start.elapsed() / rounds
}

fn pod_without_type(index: usize) -> Value {
    let mut pod = pod(index);
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    pod
}

fn pod(index: usize) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": format!("web-{index}"), "namespace": "shop", "uid": "909b9314-420f-4dbf-bc04-e45eb5b8c4eb",
            "creationTimestamp": "2026-11-15T08:07:21Z", "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]
        },
        "spec": {
            "containers": [{"name": "main", "image": "registry.example.com/shop/web:1.27.3",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "nodeName": "node-1", "schedulerName": "default-scheduler"
        },
        "status": {"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.7", "startTime": "2026-11-15T08:07:22Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-15T08:07:25Z"}]}
    })
}
