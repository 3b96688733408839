//! `kubectl get -o wide` prints the same for Atoll and for kube-apiserver. Without Go the tests print so and
//! pass.

use std::path::PathBuf;
use std::process::Command;

use atoll_testkit::{Atoll, Upstream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubectl::is_recent;
use crate::support::programs::{self, succeed};

/// An old time, so that ages stay the same during the test.
const THEN: &str = "2001-02-03T04:05:06Z";

struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
}

impl Kubectl {
    fn new(directory: &std::path::Path, kubeconfig: PathBuf) -> Kubectl {
        Kubectl { program: directory.join("kubectl"), kubeconfig, home: tempfile::tempdir().unwrap() }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        succeed(command.args(["-n", "seen"]).args(arguments))
    }

    /// Creates all objects with one command, then sets their statuses.
    fn prepare(&self) {
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
        let file = self.home.path().join("objects.json");
        std::fs::write(&file, list.to_string()).unwrap();
        self.run(&["create", "namespace", "seen"]);
        self.run(&["create", "--validate=false", "-f", file.to_str().unwrap()]);
        for (resource, name, status) in statuses {
            let patch = status.to_string();
            self.run(&["patch", resource, &name, "--subresource=status", "--type=merge", "-p", &patch]);
        }
    }

    /// Returns the words that kubectl prints. The width of columns and ages in seconds or minutes are
    /// ignored.
    fn printed_words(&self, arguments: &[&str]) -> Vec<Vec<String>> {
        let word = |word: &str| if is_recent(word) { "<recent>".to_owned() } else { word.to_owned() };
        let printed = self.run(arguments);
        printed.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
    }
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
    let Some(directory) = programs::kubectl() else { return };
    let Some(real) = Upstream::shared() else { return };
    // As kube-apiserver, which runs without controllers.
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let on_atoll = Kubectl::new(&directory, atoll.kubeconfig());
    let on_upstream = Kubectl::new(&directory, real.kubeconfig());
    on_atoll.prepare();
    on_upstream.prepare();
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
            on_atoll.printed_words(&lines),
            on_upstream.printed_words(&lines),
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
        assert_eq!(on_atoll.printed_words(lines), on_upstream.printed_words(lines), "kubectl {lines:?}");
    }
}

#[test]
fn workspaces_have_printer_columns() {
    let Some(directory) = programs::kubectl() else { return };
    let atoll = Atoll::start();
    let kubectl = Kubectl::new(&directory, atoll.kubeconfig());
    let file = kubectl.home.path().join("workspace.json");
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    std::fs::write(&file, workspace.to_string()).unwrap();
    kubectl.run(&["create", "--validate=false", "-f", file.to_str().unwrap()]);
    let seen = kubectl.printed_words(&["get", "workspaces"]);
    assert_eq!(seen, [["NAME", "PHASE", "AGE"], ["team", "Ready", "<recent>"]]);
    let wide = kubectl.printed_words(&["get", "workspaces", "-o", "wide"]);
    assert_eq!(wide[0], ["NAME", "PHASE", "AGE", "ID", "GRAIN"]);
}
