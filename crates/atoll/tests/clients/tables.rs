//! `kubectl get -o wide` prints the same for Atoll and for kube-apiserver. Without Go the tests print so and
//! pass.

use atoll_testkit::{Atoll, Kubectl, Upstream, succeed};
use serde_json::{Value, json};

use crate::kubectl::is_recent;

/// An old time, so that ages stay the same during the test.
const THEN: &str = "2001-02-03T04:05:06Z";

#[track_caller]
fn run(kubectl: &Kubectl, arguments: &[&str]) -> String {
    succeed(kubectl.command("-n seen").args(arguments))
}

/// Creates all objects with one command, then sets their statuses.
fn prepare(kubectl: &Kubectl) {
    let mut items = Vec::new();
    let mut statuses = Vec::new();
    for (resource, mut object) in objects() {
        if let Some(status) = object.as_object_mut().unwrap().remove("status") {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            statuses.push((resource, name, json!({ "status": status })));
        }
        items.push(object);
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    run(kubectl, &["create", "namespace", "seen"]);
    kubectl.run_with_file("-n seen create --validate=false", &list);
    for (resource, name, status) in statuses {
        let patch = status.to_string();
        run(kubectl, &["patch", resource, &name, "--subresource=status", "--type=merge", "-p", &patch]);
    }
}

/// Returns the words that kubectl prints. The width of columns and ages in seconds or minutes are
/// ignored.
fn printed_words(kubectl: &Kubectl, arguments: &[&str]) -> Vec<Vec<String>> {
    let word = |word: &str| if is_recent(word) { "<recent>".to_owned() } else { word.to_owned() };
    let printed = run(kubectl, arguments);
    printed.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

fn pod_spec() -> Value {
    json!({
        "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:2" }],
        "automountServiceAccountToken": false, "restartPolicy": "Always",
    })
}

/// Returns objects, each with the resource whose status it has.
fn objects() -> Vec<(&'static str, Value)> {
    let object = |version: &str, kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let template = json!({ "metadata": { "labels": { "app": "x" } }, "spec": pod_spec() });
    let selector = json!({ "matchLabels": { "app": "x" } });
    let mut once = pod_spec();
    once["restartPolicy"] = "Never".into();
    let once = json!({ "metadata": { "labels": { "app": "x" } }, "spec": once });
    let sets = |rest: Value| {
        let mut spec = json!({ "replicas": 3, "selector": selector, "template": template });
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        spec
    };
    let status = |name: &str, state: Value, ready: bool| {
        json!({ "name": name, "image": name, "imageID": "i", "ready": ready, "restartCount": 3, "state": state,
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "startedAt": THEN, "finishedAt": THEN } } })
    };
    let running = json!({ "running": { "startedAt": THEN } });
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
    vec![
        ("", object("v1", "ServiceAccount", "default", json!({}))),
        ("", object("v1", "ConfigMap", "c", json!({ "data": { "a": "b" }, "binaryData": { "c": "AA==" } }))),
        ("", object("v1", "Secret", "s", json!({ "type": "Opaque", "data": { "a": "Yg==" } }))),
        (
            "pod",
            object(
                "v1",
                "Pod",
                "runs",
                json!({ "spec": pod_spec(), "status": { "phase": "Running", "podIP": "10.1.2.3",
                    "podIPs": [{ "ip": "10.1.2.3" }],
                    "containerStatuses": [status("a", running, true), status("b", waiting, false)] } }),
            ),
        ),
        (
            "pod",
            object(
                "v1",
                "Pod",
                "evicted",
                json!({ "spec": pod_spec(), "status": { "phase": "Failed", "reason": "Evicted" } }),
            ),
        ),
        (
            "deployment",
            object(
                "apps/v1",
                "Deployment",
                "d",
                json!({ "spec": sets(json!({})),
                    "status": { "replicas": 3, "updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1 } }),
            ),
        ),
        (
            "replicaset",
            object(
                "apps/v1",
                "ReplicaSet",
                "r",
                json!({ "spec": sets(json!({})), "status": { "replicas": 3, "readyReplicas": 1 } }),
            ),
        ),
        (
            "statefulset",
            object(
                "apps/v1",
                "StatefulSet",
                "s",
                json!({ "spec": sets(json!({ "serviceName": "s", "updateStrategy": { "type": "OnDelete" } })),
                    "status": { "replicas": 3, "readyReplicas": 2 } }),
            ),
        ),
        (
            "job",
            object(
                "batch/v1",
                "Job",
                "j",
                json!({ "spec": { "template": once, "manualSelector": true, "selector": selector,
                        "completions": 2, "parallelism": 1 },
                    "status": { "startTime": THEN, "active": 1 } }),
            ),
        ),
        (
            "cronjob",
            object(
                "batch/v1",
                "CronJob",
                "c",
                json!({ "spec": { "schedule": "@hourly", "suspend": false, "jobTemplate": { "spec": { "template": once } } },
                    "status": { "lastScheduleTime": THEN } }),
            ),
        ),
        (
            "",
            object(
                "v1",
                "Service",
                "headless",
                json!({ "spec": { "type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
                    "selector": { "app": "x" }, "ports": [{ "port": 80, "protocol": "TCP" }] } }),
            ),
        ),
        (
            "ingress",
            object(
                "networking.k8s.io/v1",
                "Ingress",
                "i",
                json!({ "spec": { "ingressClassName": "n", "rules": [{ "host": "a.b", "http": { "paths": [path] } }] },
                    "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } }),
            ),
        ),
        (
            "",
            object(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                "n",
                json!({ "spec": { "podSelector": selector, "policyTypes": ["Ingress"] } }),
            ),
        ),
        (
            "",
            object(
                "policy/v1",
                "PodDisruptionBudget",
                "p",
                json!({ "spec": { "minAvailable": "50%", "selector": selector } }),
            ),
        ),
        (
            "",
            object(
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                "b",
                json!({ "roleRef": reference, "subjects": [{ "kind": "ServiceAccount", "namespace": "n", "name": "s" }] }),
            ),
        ),
        ("", object("coordination.k8s.io/v1", "Lease", "l", json!({ "spec": { "holderIdentity": "me" } }))),
        (
            "",
            object(
                "v1",
                "Event",
                "e",
                json!({ "involvedObject": { "kind": "Pod", "name": "runs", "namespace": "seen" }, "reason": "R",
                    "message": "m", "type": "Warning", "firstTimestamp": THEN, "lastTimestamp": THEN, "count": 2,
                    "source": { "component": "test" } }),
            ),
        ),
    ]
}

#[test]
fn wide_output_is_equal_to_upstream() {
    let Some(real) = Upstream::shared() else { return };
    // As kube-apiserver, which runs without controllers.
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let Some(on_atoll) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let Some(on_upstream) = Kubectl::new(&real.kubeconfig()) else { return };
    prepare(&on_atoll);
    prepare(&on_upstream);
    let resources = [
        "configmaps",
        "secrets",
        "pods",
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "services",
        "ingresses",
        "networkpolicies",
        "poddisruptionbudgets",
        "rolebindings",
        "leases",
        "events",
        "serviceaccounts",
    ];
    for resource in resources {
        let lines = ["get", resource, "-o", "wide"];
        assert_eq!(
            printed_words(&on_atoll, &lines),
            printed_words(&on_upstream, &lines),
            "kubectl get {resource} -o wide"
        );
    }
    for lines in [
        &["get", "pods,configmaps,deployments", "--show-labels"][..],
        &["get", "pod", "runs", "-L", "app", "--show-kind"],
        &["get", "pods", "--sort-by=.metadata.name", "--no-headers"],
        &["get", "namespace", "seen"],
        &["get", "pods", "--chunk-size=1"],
    ] {
        assert_eq!(printed_words(&on_atoll, lines), printed_words(&on_upstream, lines), "kubectl {lines:?}");
    }
}

#[test]
fn workspaces_have_printer_columns() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    kubectl.run_with_file("-n seen create --validate=false", &workspace);
    let seen = printed_words(&kubectl, &["get", "workspaces"]);
    assert_eq!(seen, [["NAME", "PHASE", "AGE"], ["team", "Ready", "<recent>"]]);
    let wide = printed_words(&kubectl, &["get", "workspaces", "-o", "wide"]);
    assert_eq!(wide[0], ["NAME", "PHASE", "AGE", "ID", "GRAIN"]);
}
