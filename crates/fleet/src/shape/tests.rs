use serde_json::json;

use super::*;

/// Returns a managed fields entry with these fields.
fn managed(fields: Value) -> Value {
    entry("kubectl", "", fields)
}

fn entry(manager: &str, subresource: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "subresource": subresource, "fieldsV1": fields,
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y" }],
            "labels": { "app": "web", "atoll.dev/grain": "object" },
            "annotations": {
                "team": "a", "atoll.dev/placement": "{}", "deployment.kubernetes.io/revision": "3",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
        "spec": {
            "replicas": 5, "revisionHistoryLimit": 10, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "restartPolicy": "Always",
                    "containers": [{
                        "name": "a", "image": "nginx", "imagePullPolicy": "Always",
                        "ports": [{ "containerPort": 80, "protocol": "TCP", "name": "http" }],
                        "args": ["x", "y"],
                    }],
                },
            },
        },
        "status": { "replicas": 5 },
    })
}

fn with_managers(mut object: Value, entries: Vec<Value>) -> Value {
    object["metadata"]["managedFields"] = entries.into();
    object
}

#[test]
fn shape_has_the_managed_fields() {
    let fields = json!({
        "f:metadata": { "f:labels": { "f:app": {} } },
        "f:spec": {
            "f:selector": {},
            "f:template": {
                "f:metadata": { "f:labels": { "f:app": {} } },
                "f:spec": { "f:containers": { "k:{\"name\":\"a\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
                } } },
            },
        },
    });
    let scale = entry("person", "scale", json!({ "f:spec": { "f:replicas": {} } }));
    let status = entry("deployments", "status", json!({ "f:spec": { "f:revisionHistoryLimit": {} } }));
    let metadata = json!({
        "name": "web", "namespace": "shop", "labels": { "app": "web" }, "annotations": { "team": "a" },
    });
    let mut expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{
                    "name": "a", "image": "nginx", "args": ["x", "y"], "ports": [{ "containerPort": 80, "protocol": "TCP" }],
                }] },
            },
        },
    });
    let applied = with_managers(deployment(), vec![managed(fields.clone()), status.clone()]);
    assert_eq!(shape(&applied, "east", None), expected, "replicas were not set");
    expected["spec"]["replicas"] = json!(2);
    assert_eq!(shape(&applied, "east", Some(2)), expected);
    let scaled = with_managers(deployment(), vec![managed(fields), status.clone(), scale]);
    expected["spec"]["replicas"] = json!(5);
    assert_eq!(shape(&scaled, "east", None), expected);
    expected["spec"]["replicas"] = json!(0);
    assert_eq!(shape(&scaled, "east", Some(-1)), expected);

    let whole = shape(&deployment(), "east", None);
    assert_eq!(whole["spec"], deployment()["spec"]);
    assert_eq!((&whole["metadata"], whole.get("status")), (&metadata, None));
    // Entries of controllers only: all fields are used.
    assert_eq!(shape(&with_managers(deployment(), vec![status]), "east", None), whole);
}

#[test]
fn generated_fields_are_removed() {
    // An object, and its shape besides type and name.
    let cases = [
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": {
                "selector": { "matchLabels": { "batch.kubernetes.io/controller-uid": "u" } }, "completions": 3,
                "template": { "metadata": { "labels": {
                    "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "a",
                    "controller-uid": "u", "job-name": "a", "app": "a",
                } }, "spec": { "restartPolicy": "Never" } } } }),
            json!({ "spec": { "completions": 3, "template": {
                "metadata": { "labels": { "app": "a" } }, "spec": { "restartPolicy": "Never" } } } }),
        ),
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": {
                "metadata": { "labels": { "controller-uid": "u" } }, "spec": {} } } }),
            json!({ "spec": { "template": { "spec": {} } } }),
        ),
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "manualSelector": true,
                "selector": { "matchLabels": { "job-name": "a" } },
                "template": { "metadata": { "labels": { "job-name": "a" } } } } }),
            json!({ "spec": { "manualSelector": true, "selector": { "matchLabels": { "job-name": "a" } },
                "template": { "metadata": { "labels": { "job-name": "a" } } } } }),
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Service", "spec": {
                "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "type": "LoadBalancer",
                "healthCheckNodePort": 31000, "externalTrafficPolicy": "Local",
                "ports": [{ "port": 80, "nodePort": 30000 }, { "port": 81 }] },
                "status": { "loadBalancer": {} } }),
            json!({ "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local",
                "ports": [{ "port": 80 }, { "port": 81 }] } }),
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Service", "spec": { "clusterIP": "None", "clusterIPs": ["None"] } }),
            json!({ "spec": { "clusterIP": "None", "clusterIPs": ["None"] } }),
        ),
        (
            json!({ "apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": { "clusterIP": "10.0.0.1" } }),
            json!({ "spec": { "clusterIP": "10.0.0.1" } }),
        ),
        (
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": "a", "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.kubernetes.io/storage-provisioner": "x", "volume.kubernetes.io/selected-node": "n" } },
                "spec": { "volumeName": "pvc-1", "storageClassName": "fast" }, "status": { "phase": "Bound" } }),
            json!({ "spec": { "storageClassName": "fast" } }),
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{ "name": "t" }],
                "imagePullSecrets": [{ "name": "p" }] }),
            json!({ "imagePullSecrets": [{ "name": "p" }] }),
        ),
        (
            json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": { "volumeClaimTemplates": [
                { "metadata": { "name": "d" }, "spec": {}, "status": { "phase": "Pending" } }] } }),
            json!({ "spec": { "volumeClaimTemplates": [{ "metadata": { "name": "d" }, "spec": {} }] } }),
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "b" } }),
            json!({ "data": { "a": "b" } }),
        ),
    ];
    for (mut object, mut expected) in cases {
        object["metadata"]["name"] = json!("a");
        expected["apiVersion"] = object["apiVersion"].clone();
        expected["kind"] = object["kind"].clone();
        expected["metadata"] = json!({ "name": "a" });
        let shaped = shape(&object, "east", None);
        assert_eq!(shaped, expected);
        assert_eq!(shape(&shaped, "east", None), shaped);
    }
}

#[test]
fn data_from_string_data_is_kept() {
    let mut entry = managed(json!({ "f:stringData": { "f:password": {} } }));
    entry["apiVersion"] = json!("v1");
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "password": "eA==" } });
    let shaped = shape(&with_managers(secret, vec![entry]), "east", None);
    assert_eq!(shaped["data"]["password"], "eA==");
}

#[test]
fn shares_apply_to_kinds_with_replicas() {
    let cases = [
        ("apps/v1", "Deployment", json!({}), json!({ "replicas": 2 })),
        ("v1", "ReplicationController", json!({ "replicas": 9 }), json!({ "replicas": 2 })),
        ("apps/v1", "DaemonSet", json!({}), json!({})),
        ("v1", "ConfigMap", json!(null), json!(null)),
        (
            "batch/v1",
            "Job",
            json!({ "completions": 9, "parallelism": 9 }),
            json!({ "completions": 9, "parallelism": 2 }),
        ),
        ("example.com/v1", "Thing", json!({ "replicas": 9 }), json!({ "replicas": 2 })),
        ("example.com/v1", "Thing", json!({ "size": 9 }), json!({ "size": 9 })),
    ];
    for (version, kind, spec, expected) in cases {
        let object = json!({ "apiVersion": version, "kind": kind, "spec": spec });
        assert_eq!(shape(&object, "east", Some(2))["spec"], expected, "{kind}");
    }
}

#[test]
fn jobs_of_cron_jobs_have_the_parallelism_of_the_share() {
    for (template, parallelism, expected) in [
        (
            json!({ "spec": { "parallelism": 9, "completions": 9 } }),
            Some(2),
            json!({ "spec": { "parallelism": 2, "completions": 9 } }),
        ),
        (json!({}), Some(2), json!({ "spec": { "parallelism": 2 } })),
        (json!({ "spec": { "parallelism": 9 } }), None, json!({ "spec": { "parallelism": 9 } })),
    ] {
        let object =
            json!({ "apiVersion": "batch/v1", "kind": "CronJob", "spec": { "jobTemplate": template } });
        let share = ShareNumbers { parallelism, ..ShareNumbers::default() };
        assert_eq!(shape(&object, "east", share)["spec"]["jobTemplate"], expected);
    }
}

#[test]
fn divided_work_has_the_numbers_of_its_share() {
    let numbers = |replicas, first_ordinal, completions, parallelism| ShareNumbers {
        replicas,
        first_ordinal,
        completions,
        parallelism,
        ..ShareNumbers::default()
    };
    let budget = |max_unavailable, max_surge| ShareNumbers {
        max_unavailable: Some(max_unavailable),
        max_surge: Some(max_surge),
        ..ShareNumbers::default()
    };
    let within = |unavailable: i64, surge: i64| {
        json!({
            "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge },
        })
    };
    let rolling = |partition: i64| json!({ "rollingUpdate": { "partition": partition } });
    let cases = [
        (
            ("apps/v1", "StatefulSet"),
            json!({ "replicas": 9 }),
            numbers(Some(2), Some(3), None, None),
            json!({ "replicas": 2, "ordinals": { "start": 3 } }),
        ),
        (
            ("apps/v1", "StatefulSet"),
            json!({ "replicas": 9, "ordinals": { "start": 5 }, "updateStrategy": rolling(4) }),
            numbers(Some(2), Some(3), None, None),
            json!({ "replicas": 2, "ordinals": { "start": 8 }, "updateStrategy": rolling(1) }),
        ),
        (
            ("apps/v1", "StatefulSet"),
            json!({ "replicas": 9, "updateStrategy": rolling(2) }),
            numbers(Some(2), Some(3), None, None),
            json!({ "replicas": 2, "ordinals": { "start": 3 }, "updateStrategy": rolling(0) }),
        ),
        // The first segment differs from the whole by its size only.
        (
            ("apps/v1", "StatefulSet"),
            json!({ "replicas": 9 }),
            numbers(Some(3), Some(0), None, None),
            json!({ "replicas": 3 }),
        ),
        (
            ("batch/v1", "Job"),
            json!({ "completions": 10, "parallelism": 5 }),
            numbers(None, None, Some(4), Some(2)),
            json!({ "completions": 4, "parallelism": 2 }),
        ),
        (
            ("apps/v1", "Deployment"),
            json!({ "strategy": { "rollingUpdate": { "maxUnavailable": "50%" } } }),
            budget(1, 0),
            json!({ "strategy": within(1, 0) }),
        ),
        (
            ("apps/v1", "Deployment"),
            json!({ "strategy": { "type": "Recreate" } }),
            budget(1, 0),
            json!({ "strategy": { "type": "Recreate" } }),
        ),
        (("apps/v1", "DaemonSet"), json!({}), budget(0, 2), json!({ "updateStrategy": within(0, 2) })),
        (
            ("policy/v1", "PodDisruptionBudget"),
            json!({ "minAvailable": 5 }),
            numbers(Some(2), None, None, None),
            json!({ "minAvailable": 2 }),
        ),
        (
            ("policy/v1", "PodDisruptionBudget"),
            json!({ "maxUnavailable": 1 }),
            numbers(Some(0), None, None, None),
            json!({ "maxUnavailable": 0 }),
        ),
        (
            ("policy/v1", "PodDisruptionBudget"),
            json!({ "maxUnavailable": "25%" }),
            numbers(Some(1), None, None, None),
            json!({ "maxUnavailable": "25%" }),
        ),
    ];
    for ((version, kind), spec, share, expected) in cases {
        let object = json!({ "apiVersion": version, "kind": kind, "spec": spec });
        assert_eq!(shape(&object, "east", share)["spec"], expected, "{kind} {share:?}");
    }
}
