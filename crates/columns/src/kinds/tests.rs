//! Rows of objects with computed cells.

use serde_json::{Value, json};

use super::*;
use atoll_meta::time::Timestamp;

const NOW: i64 = 1_800_000_000;

fn ago(seconds: i64) -> String {
    atoll_meta::time::format(NOW - seconds)
}

fn cells(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    printer(group, kind).cells(object, Timestamp::new(NOW, 0))
}

/// Returns the cells at some positions, as text.
fn shown(group: &str, kind: &str, object: &Value, places: &[usize]) -> Vec<String> {
    let cells = cells(group, kind, object);
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    places.iter().map(|place| text(&cells[*place])).collect()
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    for resource in atoll_schema::resources() {
        let printer = printer(resource.group, resource.kind);
        let cells = printer.cells(&json!({}), Timestamp::new(NOW, 0));
        let expected = printer.columns.len() + usize::from(printer.surplus.is_some());
        assert_eq!(cells.len(), expected, "{}", resource.kind);
        let naming = printer.columns.iter().filter(|column| column.format == "name").count();
        assert!(naming >= 1, "{}", resource.kind);
    }
}

#[test]
fn pod_status_is_computed() {
    let terminated =
        |code: i64, reason: &str| json!({ "terminated": { "exitCode": code, "reason": reason } });
    let running = json!({ "running": {} });
    let cases = [
        (json!({ "status": { "phase": "Pending" } }), ["0/1", "Pending", "0"]),
        (json!({ "status": { "phase": "Failed", "reason": "Evicted" } }), ["0/1", "Evicted", "0"]),
        (
            json!({ "status": { "phase": "Pending",
                "conditions": [{ "type": "PodScheduled", "reason": "SchedulingGated" }] } }),
            ["0/1", "SchedulingGated", "0"],
        ),
        (
            json!({ "status": { "phase": "Running", "containerStatuses": [
                { "ready": true, "restartCount": 3, "state": running,
                  "lastState": { "terminated": { "exitCode": 1, "finishedAt": ago(300) } } }] } }),
            ["1/1", "Running", "3 (5m ago)"],
        ),
        (
            json!({ "status": { "phase": "Running", "containerStatuses": [
                { "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "restartCount": 7 }] } }),
            ["0/1", "CrashLoopBackOff", "7"],
        ),
        (
            json!({ "status": { "phase": "Failed", "containerStatuses": [
                { "state": { "terminated": { "exitCode": 137, "signal": 9 } } }] } }),
            ["0/1", "Signal:9", "0"],
        ),
        (
            json!({ "status": { "phase": "Running", "containerStatuses": [
                { "state": terminated(0, "Completed") }, { "ready": true, "state": running }] } }),
            ["1/1", "NotReady", "0"],
        ),
        (
            json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [
                { "state": terminated(0, "Completed") }, { "ready": true, "state": running }] } }),
            ["1/1", "Running", "0"],
        ),
        (
            json!({ "status": { "phase": "Running", "containerStatuses": [
                { "state": terminated(0, "Completed") }, { "state": terminated(1, "Error") }] } }),
            ["0/1", "Error", "0"],
        ),
        (
            json!({ "metadata": { "deletionTimestamp": ago(1) }, "status": { "phase": "Running" } }),
            ["0/1", "Terminating", "0"],
        ),
        (
            json!({ "metadata": { "deletionTimestamp": ago(1) },
                "status": { "phase": "Running", "reason": "NodeLost" } }),
            ["0/1", "Unknown", "0"],
        ),
        (
            json!({ "metadata": { "deletionTimestamp": ago(1) }, "status": { "phase": "Succeeded" } }),
            ["0/1", "Succeeded", "0"],
        ),
    ];
    for (mut pod, expected) in cases {
        pod["spec"] = json!({ "containers": [{ "name": "a" }] });
        assert_eq!(shown("", "Pod", &pod, &[1, 2, 3]), expected, "{pod}");
    }
}

#[test]
fn init_container_progress_is_shown() {
    let sidecar = json!([{ "name": "i" }, { "name": "s", "restartPolicy": "Always" }]);
    let done = json!({ "name": "i", "restartCount": 2, "state": { "terminated": { "exitCode": 0 } } });
    let cases = [
        (json!([{ "name": "i", "state": { "running": {} } }]), ["0/2", "Init:0/2", "0"]),
        (
            json!([{ "name": "i", "state": { "waiting": { "reason": "PodInitializing" } } }]),
            ["0/2", "Init:0/2", "0"],
        ),
        (
            json!([{ "name": "i", "state": { "waiting": { "reason": "ErrImagePull" } } }]),
            ["0/2", "Init:ErrImagePull", "0"],
        ),
        (
            json!([{ "name": "i", "restartCount": 1, "state": { "terminated": { "exitCode": 3 } } }]),
            ["0/2", "Init:ExitCode:3", "1"],
        ),
        (json!([done, { "name": "s", "state": { "running": {} } }]), ["0/2", "Init:1/2", "2"]),
        (
            json!([done, { "name": "s", "started": true, "ready": true, "restartCount": 4,
                "state": { "running": {} },
                "lastState": { "terminated": { "exitCode": 1, "finishedAt": ago(7200) } } }]),
            ["1/2", "Pending", "4 (120m ago)"],
        ),
    ];
    for (statuses, expected) in cases {
        let pod = json!({
            "spec": { "containers": [{ "name": "a" }], "initContainers": sidecar },
            "status": { "phase": "Pending", "initContainerStatuses": statuses },
        });
        assert_eq!(shown("", "Pod", &pod, &[1, 2, 3]), expected, "{pod}");
    }
}

#[test]
fn terminated_pods_have_a_completed_condition() {
    let conditions = |phase: &str| (pod::POD.conditions)(&json!({ "status": { "phase": phase } }));
    assert_eq!(conditions("Running"), None);
    assert_eq!(conditions("Failed").unwrap()[0]["message"], "The pod failed.");
    assert_eq!(conditions("Succeeded").unwrap()[0]["reason"], "Succeeded");
}

#[test]
fn cells_of_other_kinds() {
    let hpa = |metrics: Value, current: Value| json!({ "spec": { "metrics": metrics }, "status": { "currentMetrics": current } });
    let cases = [
        (
            "",
            "Node",
            json!({ "spec": { "unschedulable": true }, "metadata": { "labels": {
            "node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "node-role.kubernetes.io/": "" } },
            "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } }),
            1,
            "NotReady,SchedulingDisabled",
        ),
        (
            "",
            "Node",
            json!({ "metadata": { "labels": {
            "node-role.kubernetes.io/b": "", "kubernetes.io/role": "a" } } }),
            2,
            "a,b",
        ),
        (
            "",
            "Service",
            json!({ "spec": { "type": "LoadBalancer", "externalIPs": ["3.3.3.3"] },
            "status": { "loadBalancer": { "ingress": [{ "hostname": "h" }, { "ip": "1.1.1.1" }] } } }),
            3,
            "1.1.1.1,h,3.3.3.3",
        ),
        ("", "Service", json!({ "spec": { "type": "LoadBalancer" } }), 3, "<pending>"),
        (
            "",
            "Service",
            json!({ "spec": { "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" },
            { "port": 53, "protocol": "UDP" }] } }),
            4,
            "80:30080/TCP,53/UDP",
        ),
        (
            "",
            "Endpoints",
            json!({ "subsets": [{ "addresses": [{ "ip": "::1" }, { "ip": "1.1.1.1" }],
            "ports": [{ "port": 1 }, { "port": 2 }] }] }),
            1,
            "[::1]:1,1.1.1.1:1,[::1]:2 + 1 more...",
        ),
        (
            "",
            "ResourceQuota",
            json!({ "status": { "hard": { "pods": "3", "limits.cpu": "2" },
            "used": { "pods": "1" } } }),
            1,
            "pods: 1/3",
        ),
        (
            "",
            "ResourceQuota",
            json!({ "status": { "hard": { "pods": "3", "limits.cpu": "2" } } }),
            2,
            "limits.cpu: 0/2",
        ),
        (
            "",
            "Event",
            json!({ "eventTime": ago(5), "series": { "lastObservedTime": ago(2), "count": 9 } }),
            0,
            "2s",
        ),
        ("", "Event", json!({ "eventTime": ago(5) }), 7, "5s"),
        ("", "Event", json!({ "reportingComponent": "c", "reportingInstance": "i" }), 5, "c, i"),
        ("", "PersistentVolumeClaim", json!({ "spec": { "volumeName": "v" } }), 3, "0"),
        ("batch", "Job", json!({ "spec": { "parallelism": 3 } }), 2, "0/1 of 3"),
        ("batch", "Job", json!({ "status": { "startTime": ago(100), "completionTime": ago(70) } }), 3, "30s"),
        (
            "batch",
            "Job",
            json!({ "status": { "conditions": [{ "type": "Failed", "status": "True" }] } }),
            1,
            "Failed",
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({ "spec": { "rules": [
            { "host": "a" }, { "host": "b" }, { "host": "c" }, {}, { "host": "e" }] } }),
            2,
            "a,b,c + 2 more...",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            hpa(
                json!([{ "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": 50 } } },
                { "type": "Pods", "pods": { "target": { "averageValue": "10" } } }, { "type": "Object" }]),
                json!([{ "resource": { "current": { "averageUtilization": 30 } } }]),
            ),
            2,
            "cpu: 30%/50%, <unknown>/10 + 1 more...",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            hpa(
                json!([{ "type": "External", "external": { "target": { "averageValue": "5" } } }]),
                json!([]),
            ),
            2,
            "<unknown>/5 (avg)",
        ),
        (
            "apps",
            "ControllerRevision",
            json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true }] } }),
            1,
            "statefulset.apps/web",
        ),
        (
            "networking.k8s.io",
            "IPAddress",
            json!({ "spec": { "parentRef": {
            "resource": "Services", "namespace": "n", "name": "s" } } }),
            1,
            "services/n/s",
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            json!({ "spec": { "paramRef": {
            "selector": { "matchLabels": { "a": "b" } } } } }),
            2,
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), 1, "0001-01-01T00:00:00Z"),
        ("atoll.dev", "Workspace", json!({ "status": { "phase": "Ready" } }), 1, "Ready"),
        ("atoll.dev", "Workspace", json!({ "spec": { "grain": "pod" } }), 4, "pod"),
        ("atoll.dev", "Workspace", json!({ "spec": {} }), 4, "<default>"),
        ("atoll.dev", "PlacementPolicy", json!({}), 1, "Single"),
        (
            "atoll.dev",
            "PlacementPolicy",
            json!({ "spec": { "replicas": { "division": "Even" } } }),
            1,
            "Even",
        ),
        ("atoll.dev", "PlacementPolicy", json!({}), 2, "<all>"),
        (
            "atoll.dev",
            "PlacementPolicy",
            json!({ "spec": { "clusters": { "exclude": ["old"] } } }),
            2,
            "<all>,!old",
        ),
        (
            "atoll.dev",
            "ClusterPlacementPolicy",
            json!({ "spec": { "clusters": {
                "names": ["east", "west"],
                "affinity": [{ "names": ["north"] }, { "selector": { "matchLabels": { "env": "prod" } } }],
            } } }),
            2,
            "east,west,north,env=prod",
        ),
        ("atoll.dev", "PlacementPolicy", json!({}), 3, "<unknown>"),
        ("atoll.dev", "PlacementPolicy", json!({ "status": { "matched": 2, "placed": 0 } }), 3, "2"),
        ("atoll.dev", "PlacementPolicy", json!({ "status": { "matched": 2, "placed": 0 } }), 4, "0"),
        ("atoll.dev", "PlacementPolicy", json!({}), 6, "15s"),
        (
            "atoll.dev",
            "PlacementPolicy",
            json!({ "spec": { "failover": { "after": "5m", "mode": "Never" } } }),
            6,
            "Never",
        ),
    ];
    for (group, kind, object, place, expected) in cases {
        assert_eq!(shown(group, kind, &object, &[place]), [expected], "{kind} {object}");
    }
}
