//! Benchmark: Pods per second that one core schedules, 10,000 Pods on 1,000 nodes by default.
//!
//! ```text
//! cargo run --release -p atoll-podscheduler --example pods_per_second [PODS [NODES]]
//! ```

use std::sync::Arc;
use std::time::Instant;

use atoll_podscheduler::{Compiler, Node, NodeIndex, Pod};
use serde_json::{Value, json};

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (pods, nodes) = (arguments.next().unwrap_or(10_000), arguments.next().unwrap_or(1_000));
    println!("{pods} Pods over {nodes} nodes");
    let selector = json!({"matchLabels": {"app": "web"}});
    let spread = json!([
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector},
    ]);
    let apart = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}},
    ]}});
    // At most one Pod of each of twenty kinds per node.
    let kind = |number: usize| format!("kind-{}", number % 20);
    let strictly_apart = |number: usize| {
        let selector = json!({"matchLabels": {"kind": kind(number)}});
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector},
        ]}})
    };
    measure("plain", pods, nodes, |number| pod(number, &kind(number), json!({})));
    let all = json!({"topologySpreadConstraints": spread, "affinity": apart});
    measure("spread, preferred anti-affinity", pods, nodes, |number| pod(number, &kind(number), all.clone()));
    measure("spread, required anti-affinity", pods, nodes, |number| {
        let spec = json!({"topologySpreadConstraints": spread, "affinity": strictly_apart(number)});
        pod(number, &kind(number), spec)
    });
    measure("node selector", pods, nodes, |number| {
        pod(number, &kind(number), json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-1"}}))
    });
}

fn measure(what: &str, pods: usize, nodes: usize, make: impl Fn(usize) -> Value) {
    let mut node_index = NodeIndex::default();
    let mut compiler = Compiler::default();
    for number in 0..nodes {
        node_index.set_node(Node::of(&node(number)));
    }
    node_index.workloads.set_workload(
        "ReplicaSet",
        &json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        }),
    );
    let objects: Vec<Value> = (0..pods).map(make).collect();
    let mut seed = 42_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let begin = Instant::now();
    let compiled: Vec<Pod> = objects.iter().map(|object| compiler.compile(object)).collect();
    let compiling = begin.elapsed().as_secs_f64();
    let mut placed = 0;
    let begin = Instant::now();
    for mut pod in compiled {
        if let Ok(choice) = node_index.choose(&pod, &mut random) {
            pod.node = Some(choice.node);
            node_index.set_pod(Arc::new(pod));
            placed += 1;
        }
    }
    let choosing = begin.elapsed().as_secs_f64();
    let rate = pods as f64 / (compiling + choosing);
    let micros = |seconds: f64| seconds * 1e6 / pods as f64;
    println!(
        "{what}: {placed} placed, {rate:.0} Pods/s; {:.1} µs each to compile, {:.1} µs to choose",
        micros(compiling),
        micros(choosing)
    );
}

fn node(number: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("node-{number}"),
            "labels": {
                "kubernetes.io/hostname": format!("node-{number}"),
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            },
        },
        "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"}},
    })
}

fn pod(number: usize, kind: &str, mut spec: Value) -> Value {
    spec["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]);
    json!({
        "metadata": {
            "namespace": "default",
            "name": format!("web-{number}"),
            "uid": format!("uid-{number}"),
            "labels": {"app": "web", "kind": kind},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
        },
        "spec": spec,
    })
}
