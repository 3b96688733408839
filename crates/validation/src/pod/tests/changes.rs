use serde_json::{Value, json};

use super::{container, pod};
use crate::cases::{edited, lines};
use crate::checks_for;

const IMMUTABLE_FIELDS: &str = "spec: Forbidden: pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

#[test]
fn updates() {
    let gated = edited(&pod(), &[("spec.schedulingGates", json!([{ "name": "example.com/gate" }]))]);
    let cases = [
        (pod(), vec![("spec.containers.0.image", json!("other"))], vec![]),
        (
            pod(),
            vec![("spec.containers.1", edited(&container(), &[("name", json!("second"))]))],
            vec!["spec.containers: Forbidden: pod updates may not add or remove containers".to_owned()],
        ),
        (
            pod(),
            vec![("spec.hostname", json!("h"))],
            vec![format!(
                "{IMMUTABLE_FIELDS}@@ -129,7 +129,7 @@\n   \"SELinuxChangePolicy\": null\n  }},\n  \"ImagePullSecrets\": null,\n- \
                 \"Hostname\": \"\",\n+ \"Hostname\": \"h\",\n  \"Subdomain\": \"\",\n  \"SetHostnameAsFQDN\": null,\n  \
                 \"Affinity\": null,\n"
            )],
        ),
        (
            edited(&pod(), &[("spec.tolerations", json!([{ "key": "k", "operator": "Exists" }]))]),
            vec![("spec.tolerations", json!([]))],
            vec![
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
                    .to_owned(),
            ],
        ),
        (
            edited(&pod(), &[("spec.activeDeadlineSeconds", json!(5))]),
            vec![("spec.activeDeadlineSeconds", json!(6))],
            vec![
                "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value".to_owned(),
            ],
        ),
        // The quantities are equal.
        (pod(), vec![("spec.containers.0.resources.limits.cpu", json!("1000m"))], vec![]),
        (gated.clone(), vec![("spec.nodeSelector", json!({ "disk": "ssd" }))], vec![]),
        (
            edited(&gated, &[("spec.nodeSelector", json!({ "disk": "ssd" }))]),
            vec![("spec.nodeSelector", json!({ "disk": "hdd" }))],
            vec![
                "spec.nodeSelector: Invalid value: {\"disk\":\"hdd\"}: only additions to spec.nodeSelector are allowed (no \
                 mutations or deletions)"
                    .to_owned(),
            ],
        ),
        (
            pod(),
            vec![("spec.schedulingGates", json!([{ "name": "example.com/gate" }]))],
            vec![
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate \
                 'example.com/gate'"
                    .to_owned(),
            ],
        ),
    ];
    for (old, edits, expected) in cases {
        let errors = (checks_for("", "pods").update)(&edited(&old, &edits), &old);
        assert_eq!(lines(&errors), expected, "{edits:?}");
    }
}

#[test]
fn subresources() {
    let ended = edited(
        &pod(),
        &[
            ("spec.restartPolicy", json!("Never")),
            (
                "status.containerStatuses",
                json!([{ "name": "main", "state": { "terminated": { "exitCode": 0 } } }]),
            ),
        ],
    );
    let debugged = edited(
        &pod(),
        &[(
            "spec.ephemeralContainers",
            json!([{
                "name": "debug", "image": "d", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
            }]),
        )],
    );
    let cases = [
        (
            "status",
            &ended,
            vec![
                ("status.containerStatuses.0.state", json!({ "running": {} })),
                ("status.qosClass", json!("Best")),
            ],
            vec![
                "status.qosClass: Invalid value: \"Best\": field is immutable",
                "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            ],
        ),
        (
            "status",
            &ended,
            vec![("status.podIPs", json!([{ "ip": "1.2.3.4" }, { "ip": "1.2.3.5" }]))],
            vec![
                "status.podIPs: Invalid value: [{\"IP\":\"1.2.3.4\"},{\"IP\":\"1.2.3.5\"}]: may specify no more than one IP \
                 for each IP family",
            ],
        ),
        ("ephemeralcontainers", &debugged, vec![], vec![]),
        (
            "ephemeralcontainers",
            &debugged,
            vec![("spec.ephemeralContainers", json!([]))],
            vec![
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed\n",
            ],
        ),
        ("resize", &ended, vec![("spec.containers.0.resources.limits.cpu", json!("2"))], vec![]),
        (
            "resize",
            &ended,
            vec![("spec.containers.0.resources", json!({}))],
            vec![
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ],
        ),
        (
            "resize",
            &ended,
            vec![("spec.containers.0.image", json!("other"))],
            vec!["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
    ];
    for (subresource, old, edits, expected) in cases {
        let errors = (checks_for("", "pods").subresource)(subresource, &edited(old, &edits), old);
        assert_eq!(lines(&errors), expected, "{subresource} {edits:?}");
    }
}

#[test]
fn templates_and_replication_controllers() {
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod()["spec"] });
    let controller = json!({ "spec": { "replicas": 1, "selector": { "app": "web" }, "template": template } });
    let cases: Vec<(&str, Value, Vec<&str>)> = vec![
        ("podtemplates", json!({ "template": template }), vec![]),
        (
            "podtemplates",
            edited(
                &json!({ "template": template }),
                &[("template.metadata.labels", json!({ "app": "a b" }))],
            ),
            vec![
                "template.labels: Invalid value: \"a b\": a valid label must be an empty string or consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        ),
        ("replicationcontrollers", controller.clone(), vec![]),
        (
            "replicationcontrollers",
            edited(
                &controller,
                &[
                    ("spec.replicas", json!(-1)),
                    ("spec.selector.app", json!("other")),
                    ("spec.template.spec.restartPolicy", json!("Never")),
                    ("spec.template.spec.activeDeadlineSeconds", json!(1)),
                ],
            ),
            vec![
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not \
                 Supported",
            ],
        ),
        (
            "replicationcontrollers",
            json!({ "spec": {} }),
            vec![
                "spec.selector: Required value",
                "spec.replicas: Required value",
                "spec.template: Required value",
            ],
        ),
    ];
    for (resource, object, expected) in cases {
        assert_eq!(lines(&(checks_for("", resource).create)(&object)), expected, "{resource}");
    }
}

#[test]
fn selinux_change_policy_can_change_if_set_before() {
    let field = "spec.securityContext.seLinuxChangePolicy";
    let template =
        |policy: Value| json!({ "template": edited(&json!({ "spec": pod()["spec"] }), &[(field, policy)]) });
    let (none, some, new) =
        (template(Value::Null), template(json!("Recursive")), template(json!("MountOption")));
    let update = checks_for("", "podtemplates").update;
    assert_eq!(lines(&update(&new, &some)), Vec::<String>::new());
    assert_eq!(
        lines(&update(&new, &none)),
        [
            "template.spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \
             \"Recursive\""
        ]
    );
}
