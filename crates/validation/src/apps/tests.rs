use serde_json::{Value, json};

use crate::cases::{edited, lines};
use crate::checks_for;

/// Resource, object, edits by path, and the expected errors.
type Case = (&'static str, Value, Vec<(&'static str, Value)>, Vec<&'static str>);

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": {
            "containers": [{
                "name": "main",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
        },
    })
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "web" } })
}

fn deployment() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": 1,
        "selector": selector(),
        "template": template(),
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    } })
}

fn daemon_set() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": {
        "selector": selector(),
        "template": template(),
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } },
        "revisionHistoryLimit": 10,
    } })
}

fn stateful_set() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": 1,
        "selector": selector(),
        "template": template(),
        "serviceName": "web",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "volumeMode": "Filesystem",
        } }],
    } })
}

#[test]
fn creation() {
    let cases: Vec<Case> = vec![
        ("deployments", deployment(), vec![], vec![]),
        (
            "deployments",
            deployment(),
            vec![
                ("spec.selector.matchLabels", json!({ "app": "other" })),
                ("spec.minReadySeconds", json!(600)),
            ],
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
                "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
            ],
        ),
        (
            "deployments",
            deployment(),
            vec![("spec.selector", json!({}))],
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            "deployments",
            deployment(),
            vec![("spec.strategy", json!({ "type": "Later" }))],
            vec![
                "spec.strategy: Unsupported value: {\"Type\":\"Later\",\"RollingUpdate\":null}: supported values: \
                 \"Recreate\", \"RollingUpdate\"",
            ],
        ),
        (
            "deployments",
            deployment(),
            vec![("spec.strategy.rollingUpdate", json!({ "maxSurge": 0, "maxUnavailable": "0%" }))],
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "deployments",
            deployment(),
            vec![("spec.strategy.rollingUpdate", json!({ "maxSurge": "x", "maxUnavailable": "101%" }))],
            vec![
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": a valid percent string must be a numeric string \
                 followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "replicasets",
            json!({ "spec": { "replicas": -1, "selector": selector(), "template": template() } }),
            vec![("spec.template.spec.restartPolicy", json!("Never"))],
            vec![
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            ],
        ),
        ("daemonsets", daemon_set(), vec![], vec![]),
        (
            "daemonsets",
            daemon_set(),
            vec![("spec.updateStrategy.rollingUpdate", json!({ "maxSurge": 1, "maxUnavailable": 1 }))],
            vec![
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ],
        ),
        ("statefulsets", stateful_set(), vec![], vec![]),
        (
            "statefulsets",
            stateful_set(),
            // The volume comes from the claim template.
            vec![(
                "spec.template.spec.containers.0.volumeMounts",
                json!([{ "name": "data", "mountPath": "/data" }]),
            )],
            vec![],
        ),
        (
            "statefulsets",
            stateful_set(),
            vec![
                ("spec.updateStrategy", json!({ "type": "OnDelete", "rollingUpdate": { "partition": 1 } })),
                ("spec.ordinals", json!({ "start": -1 })),
                (
                    "spec.persistentVolumeClaimRetentionPolicy",
                    json!({ "whenDeleted": "Retain", "whenScaled": "Maybe" }),
                ),
                ("spec.volumeClaimTemplates.0.spec.accessModes", json!([])),
            ],
            vec![
                "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for \
                 updateStrategy 'RollingUpdate'",
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Maybe\": supported values: \
                 \"Retain\", \"Delete\"",
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "controllerrevisions",
            json!({ "revision": -1, "data": [] }),
            vec![],
            vec![
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data must be a valid JSON object",
            ],
        ),
    ];
    for (resource, object, edits, expected) in cases {
        let errors = (checks_for("apps", resource).create)(&edited(&object, &edits));
        assert_eq!(lines(&errors), expected, "{resource} {edits:?}");
    }
}

#[test]
fn updates() {
    const IMMUTABLE_FIELDS: &str = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
         'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    let immutable = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\"},\"matchExpressions\":[{\"key\":\"app\",\
         \"operator\":\"Exists\"}]}: field is immutable";
    let more = json!([{ "key": "app", "operator": "Exists" }]);
    let cases: Vec<Case> = vec![
        ("deployments", deployment(), vec![("spec.replicas", json!(5))], vec![]),
        (
            "deployments",
            deployment(),
            vec![("spec.selector.matchExpressions", more.clone())],
            vec![immutable],
        ),
        ("daemonsets", daemon_set(), vec![("spec.selector.matchExpressions", more)], vec![immutable]),
        ("statefulsets", stateful_set(), vec![("spec.replicas", json!(5))], vec![]),
        ("statefulsets", stateful_set(), vec![("spec.serviceName", json!("other"))], vec![IMMUTABLE_FIELDS]),
        (
            "statefulsets",
            stateful_set(),
            vec![("spec.volumeClaimTemplates.0.kind", json!("PersistentVolumeClaim"))],
            vec![],
        ),
        (
            "statefulsets",
            stateful_set(),
            vec![("spec.volumeClaimTemplates.0.metadata.name", json!("x"))],
            vec![IMMUTABLE_FIELDS],
        ),
        (
            "controllerrevisions",
            json!({ "revision": 1, "data": { "a": 1 } }),
            vec![("data.a", json!(2))],
            vec!["data: Invalid value: {\"a\":2}: field is immutable"],
        ),
    ];
    for (resource, old, edits, expected) in cases {
        let errors = (checks_for("apps", resource).update)(&edited(&old, &edits), &old);
        assert_eq!(lines(&errors), expected, "{resource} {edits:?}");
    }
}

#[test]
fn statuses() {
    let cases = [
        (
            "deployments",
            json!({ "replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": 1 }),
            json!({ "collisionCount": 2 }),
            vec![
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
                "status.collisionCount: Invalid value: 1: cannot be decremented",
            ],
        ),
        (
            "statefulsets",
            json!({ "replicas": 3, "readyReplicas": 1, "availableReplicas": 2 }),
            json!({ "collisionCount": 2 }),
            vec![
                "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ],
        ),
        (
            "daemonsets",
            json!({ "numberReady": -1 }),
            json!({}),
            vec!["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ];
    for (resource, status, old, expected) in cases {
        let (new, old) = (json!({ "status": status }), json!({ "status": old }));
        let errors = (checks_for("apps", resource).subresource)("status", &new, &old);
        assert_eq!(lines(&errors), expected, "{resource}");
    }
}
