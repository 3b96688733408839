//! Benchmark: nanoseconds for the checks of accepted objects, when they are created and when they are updated
//! without a change.
//!
//! ```text
//! cargo run --release -p atoll-validation --example objects_per_second
//! ```
//!
//! With the path of a file that contains a JSON list of objects with all defaults, measures these.

use std::hint::black_box;
use std::time::{Duration, Instant};

use atoll_validation::{Checks, checks_for};
use serde_json::{Value, json};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(100);

fn main() {
    let objects = match std::env::args().nth(1) {
        Some(file) => {
            let text = std::fs::read(file).expect("a readable file");
            serde_json::from_slice(&text).expect("a list of objects")
        }
        None => vec![
            pod("typical", 1, 0),
            pod("large", 10, 20),
            deployment(),
            service(),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                    "resources": {"requests": {"storage": "1Gi"}}},
            }),
        ],
    };
    for object in &objects {
        measure(object);
    }
}

fn measure(object: &Value) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_lowercase();
    let group = text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let plural = match kind.strip_suffix('y') {
        _ if kind == "endpoints" => kind.clone(),
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    let checks: &Checks = checks_for(group, &plural);
    for (verb, check) in [
        ("create", &(|| (checks.create)(black_box(object))) as &dyn Fn() -> Vec<_>),
        ("update", &|| (checks.update)(black_box(object), black_box(object))),
    ] {
        let errors = check();
        let accepted = errors.first().map(|error| format!("  refused: {error}")).unwrap_or_default();
        println!("{verb} {kind} {}: {} ns{accepted}", text("/metadata/name"), nanoseconds(check));
    }
}

/// Returns the median nanoseconds of processor time per call of several rounds. On a busy machine, time on the
/// clock says little.
fn nanoseconds(check: &dyn Fn() -> Vec<atoll_meta::FieldError>) -> u64 {
    let round = || {
        let (begin, used) = (Instant::now(), processor_time());
        let mut calls = 0;
        // At least once, even if the thread did not run for a while.
        loop {
            for _ in 0..100 {
                black_box(check());
            }
            calls += 100;
            if begin.elapsed() >= ROUND {
                break;
            }
        }
        let elapsed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        processor_time().zip(used).map_or(elapsed, |(after, before)| after - before) / calls
    };
    let mut rounds: Vec<u64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

/// Returns the nanoseconds that this thread has run. Only Linux says.
fn processor_time() -> Option<u64> {
    // The kernel brings the number up to date when the thread gives up the processor.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn pod(name: &str, containers: usize, variables: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": pod_spec(containers, variables),
    })
}

fn pod_spec(containers: usize, variables: usize) -> Value {
    let variable = |index: usize| match index % 2 {
        0 => json!({"name": format!("SETTING_{index}"), "value": "some text"}),
        _ => json!({"name": format!("SETTING_{index}"),
            "valueFrom": {"configMapKeyRef": {"name": "settings", "key": format!("key-{index}")}}}),
    };
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "initialDelaySeconds": 5,
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    };
    let container = |index: usize| {
        json!({
            "name": format!("web-{index}"), "image": "nginx:1.29", "imagePullPolicy": "IfNotPresent",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": (0..variables).map(variable).collect::<Vec<Value>>(),
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi"}},
            "livenessProbe": probe("/live"), "readinessProbe": probe("/ready"),
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/config", "readOnly": true},
                {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
            ],
            "securityContext": {"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    json!({
        "containers": (0..containers).map(container).collect::<Vec<Value>>(),
        "volumes": [
            {"name": "config", "configMap": {"name": "settings", "defaultMode": 420}},
            {"name": "token", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}},
        ],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
        "schedulerName": "default-scheduler", "enableServiceLinks": true, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(1, 4)},
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"app": "web"}, "type": "ClusterIP", "sessionAffinity": "None",
            "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"},
                {"name": "metrics", "port": 9090, "targetPort": 9090, "protocol": "TCP"},
            ],
        },
    })
}
