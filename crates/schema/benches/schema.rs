//! Benchmark of loading the types and decoding objects: `cargo bench -p atoll-schema`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use atoll_schema::{Types, decode, normalise, resources};
use serde_json::{Value, json};

fn main() {
    let before = resident();
    let start = Instant::now();
    let types = Types::get();
    let rows = resources();
    println!(
        "load: {:?}, {} kB resident, {} rows, {} structs",
        start.elapsed(),
        resident().saturating_sub(before),
        rows.len(),
        types.iter().count()
    );

    let metadata = json!({
        "name": "settings", "namespace": "default", "uid": "6715fcf9-88fb-4ae7-815d-cb761b76b45a", "resourceVersion": "221",
        "creationTimestamp": "2026-11-15T08:07:21Z", "labels": {"app": "web", "tier": "front"},
    });
    let data: serde_json::Map<String, Value> =
        (0..10).map(|index| (format!("setting-{index}"), Value::from("x".repeat(70)))).collect();
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    measure("ConfigMap", types, ("", "v1", "ConfigMap"), &config_map);

    let container = json!({
        "name": "web", "image": "web:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 10},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container.clone(), container], "volumes": [{"name": "data", "emptyDir": {}}]},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "strategy": {}, "template": template}, "status": {},
    });
    measure("Deployment", types, ("apps", "v1", "Deployment"), &deployment);
}

fn measure(name: &str, types: &Types, kind: (&str, &str, &str), object: &Value) {
    let Some(id) = types.by_kind(kind.0, kind.1, kind.2) else { return };
    let text = object.to_string();
    let mut value = object.clone();
    // The first pass may add fields; later passes change nothing.
    black_box(normalise(types, id, &mut value)).ok();
    let normalised = time(|| black_box(normalise(types, id, black_box(&mut value))).is_ok());
    let decoded = time(|| black_box(decode(types, id, black_box(text.as_bytes()))).is_ok());
    let parsed = time(|| black_box(serde_json::from_slice::<Value>(black_box(text.as_bytes()))).is_ok());
    println!(
        "{name}, {} bytes: normalise {normalised:?}, decode {decoded:?} (serde_json alone {parsed:?})",
        text.len()
    );
}

/// Returns the median of many short runs.
fn time(mut run: impl FnMut() -> bool) -> Duration {
    const TIMES: u32 = 1000;
    let mut runs: Vec<Duration> = (0..51)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..TIMES {
                assert!(run());
            }
            start.elapsed() / TIMES
        })
        .collect();
    runs.sort_unstable();
    runs[runs.len() / 2]
}

/// Returns the resident memory of this process in kB, if the system reports it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
