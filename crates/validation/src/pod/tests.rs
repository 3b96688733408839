mod changes;

use serde_json::{Value, json};

use crate::cases::{edited, lines};
use crate::checks_for;

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "containers": [{
                "name": "main",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": { "limits": { "cpu": "1" }, "requests": { "cpu": "500m" } },
                "ports": [{ "name": "http", "containerPort": 80, "protocol": "TCP" }],
                "env": [{ "name": "A", "value": "b" }],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": true,
        },
        "status": { "phase": "Pending", "qosClass": "Burstable" },
    })
}

fn container() -> Value {
    pod()["spec"]["containers"][0].clone()
}

/// Edits of a valid pod and the expected errors.
type Case = (Vec<(&'static str, Value)>, Vec<&'static str>);

fn check_creation(cases: Vec<Case>) {
    for (edits, expected) in cases {
        let errors = (checks_for("", "pods").create)(&edited(&pod(), &edits));
        assert_eq!(lines(&errors), expected, "{edits:?}");
    }
}

#[test]
fn containers() {
    let probe = |extra: Value| {
        let mut probe =
            json!({ "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 });
        for (key, value) in extra.as_object().expect("an object") {
            probe[key] = value.clone();
        }
        probe
    };
    check_creation(vec![
        (vec![], vec![]),
        (vec![("spec.containers", json!([]))], vec!["spec.containers: Required value"]),
        (
            vec![("spec.containers.0.name", json!("Main")), ("spec.containers.0.image", json!(""))],
            vec![
                "spec.containers[0].name: Invalid value: \"Main\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
                 '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.containers[0].image: Required value",
            ],
        ),
        (
            vec![("spec.containers.1", container())],
            vec!["spec.containers[1].name: Duplicate value: \"main\""],
        ),
        (
            vec![("spec.containers.0.imagePullPolicy", json!("Maybe"))],
            vec![
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \
                 \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            vec![(
                "spec.containers.0.ports.0",
                json!({ "name": "h--", "containerPort": 70000, "protocol": "tcp" }),
            )],
            vec![
                "spec.containers[0].ports[0].name: Invalid value: \"h--\": must not contain consecutive hyphens",
                "spec.containers[0].ports[0].name: Invalid value: \"h--\": must not begin or end with a hyphen",
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \
                 \"UDP\"",
            ],
        ),
        (
            vec![("spec.containers.0.env.0", json!({ "name": "A=", "value": "b", "valueFrom": {} }))],
            vec![
                "spec.containers[0].env[0].name: Invalid value: \"A=\": a valid environment variable name must consist \
                 only of printable ASCII characters other than '='",
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, \
                 `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            vec![(
                "spec.containers.0.volumeMounts.0",
                json!({ "name": "other", "mountPath": "", "subPath": "../x" }),
            )],
            vec![
                "spec.containers[0].volumeMounts[0].name: Not found: \"other\"",
                "spec.containers[0].volumeMounts[0].mountPath: Required value",
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
            ],
        ),
        (
            vec![("spec.containers.0.resources.requests.cpu", json!("2"))],
            vec![
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            vec![("spec.containers.0.resources.limits.gpu", json!("1"))],
            vec![
                "spec.containers[0].resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or \
                 fully qualified",
                "spec.containers[0].resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for \
                 containers",
            ],
        ),
        (
            vec![(
                "spec.containers.0.livenessProbe",
                probe(json!({ "successThreshold": 2, "periodSeconds": -1 })),
            )],
            vec![
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            vec![(
                "spec.initContainers",
                json!([edited(&container(), &[("name", json!("init")), ("lifecycle", json!({}))])]),
            )],
            vec![
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
            ],
        ),
        (
            vec![("spec.ephemeralContainers", json!([edited(&container(), &[("name", json!("debug"))])]))],
            vec![
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
            ],
        ),
        (
            vec![(
                "spec.containers.0.securityContext",
                json!({ "privileged": true, "allowPrivilegeEscalation": false }),
            )],
            vec![
                "spec.containers[0].securityContext: Invalid value: {\"Capabilities\":null,\"Privileged\":true,\
                 \"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\
                 \"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\
                 \"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        ),
    ]);
}

#[test]
fn volumes() {
    check_creation(vec![
        (
            vec![("spec.volumes.0.hostPath", json!({ "path": "/x" }))],
            vec![
                "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
                // An invalid volume cannot be mounted.
                "spec.containers[0].volumeMounts[0].name: Not found: \"data\"",
            ],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "hostPath": { "path": "/a/..", "type": "Pipe" } }),
            )],
            vec![
                "spec.volumes[1].hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                "spec.volumes[1].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "gcePersistentDisk": { "pdName": "", "partition": 300 } }),
            )],
            vec![
                "spec.volumes[1].persistentDisk.pdName: Required value",
                "spec.volumes[1].persistentDisk.partition: Invalid value: 300: must be between 1 and 255, inclusive",
            ],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "iscsi": { "targetPortal": "1.2.3.4", "iqn": "iqn.2001-4.com:x" } }),
            )],
            vec!["spec.volumes[1].iscsi.iqn: Invalid value: \"iqn.2001-4.com:x\": must be valid format"],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "quobyte": { "registry": "a:1,b", "volume": "v" } }),
            )],
            vec![
                "spec.volumes[1].quobyte.registry: Invalid value: \"a:1,b\": must be a host:port pair or multiple pairs \
                 separated by commas",
            ],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "projected": { "sources": [{ "secret": { "name": "s", "items": [
                    { "key": "k", "path": "..p" }, { "key": "k", "path": "..p" },
                ] } }] } }),
            )],
            vec![
                "spec.volumes[1].projected.sources[0].secret.items[0].path: Invalid value: \"..p\": must not start with '..'",
                "spec.volumes[1].projected.sources[0].secret.items[1].path: Invalid value: \"..p\": must not start with '..'",
                "spec.volumes[1].projected: Invalid value: \"s\": conflicting duplicate paths",
            ],
        ),
        (
            vec![(
                "spec.volumes.1",
                json!({ "name": "more", "ephemeral": { "volumeClaimTemplate": { "metadata": { "name": "x" }, "spec": {
                    "accessModes": ["ReadWriteOnce"],
                } } } }),
            )],
            vec![
                "spec.volumes[1].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                "spec.volumes[1].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
    ]);
}

#[test]
fn pod_level_fields() {
    check_creation(vec![
        (
            vec![("spec.hostNetwork", json!(true)), ("spec.containers.0.ports.0.hostPort", json!(81))],
            vec![
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is \
                 true",
            ],
        ),
        (
            vec![("spec.dnsPolicy", json!("None"))],
            vec!["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            vec![(
                "spec.tolerations",
                json!([{ "operator": "Equal", "effect": "Later", "tolerationSeconds": 1 }]),
            )],
            vec![
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which \
                 means \"match all values and all keys\"",
                "spec.tolerations[0].effect: Invalid value: \"Later\": effect must be 'NoExecute' when `tolerationSeconds` \
                 is set",
                "spec.tolerations[0].effect: Unsupported value: \"Later\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            vec![(
                "spec.affinity",
                json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {} } }),
            )],
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required \
                 value: must have at least one node selector term",
            ],
        ),
        (
            vec![(
                "spec.topologySpreadConstraints",
                json!([{ "maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "No" }]),
            )],
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"No\": supported values: \
                 \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
        (
            vec![("spec.resourceClaims", json!([{ "name": "c" }]))],
            vec![
                "spec.resourceClaims[0]: Invalid value: {\"Name\":\"c\",\"ResourceClaimName\":null,\
                 \"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ],
        ),
        (
            vec![("spec.os", json!({ "name": "windows" })), ("spec.securityContext.runAsUser", json!(1))],
            vec!["spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"],
        ),
        (
            vec![("spec.resources", json!({ "requests": { "cpu": "100m" } }))],
            vec![
                "spec.resources.requests[cpu]: Invalid value: \"100m\": must be greater than or equal to aggregate container \
                 requests of 500m",
            ],
        ),
        (
            vec![(
                "metadata.annotations",
                json!({
                    "controller.kubernetes.io/pod-deletion-cost": "08",
                    "container.apparmor.security.beta.kubernetes.io/main": "strict",
                    "scheduler.alpha.kubernetes.io/tolerations": "5",
                }),
            )],
            vec![
                "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/tolerations\": json: cannot unmarshal \
                 number into Go value of type []core.Toleration",
                "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"08\": must be a 32bit \
                 integer",
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/main]: Invalid value: \"strict\": \
                 invalid AppArmor profile name: \"strict\"",
            ],
        ),
        (
            vec![(
                "spec.securityContext.sysctls",
                json!([{ "name": "net.x" }, { "name": "net.x" }, { "name": "A" }]),
            )],
            vec![
                "spec.securityContext.sysctls[1].name: Duplicate value: \"net.x\"",
                "spec.securityContext.sysctls[2].name: Invalid value: \"A\": must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ],
        ),
    ]);
}

/// Each of many mounts was compared with all pairs of devices, which would take hours.
#[test]
fn many_mounts_and_devices() {
    let names = || (0..5000).map(|number| format!("v{number}"));
    let mounts: Vec<Value> =
        names().map(|name| json!({ "name": name, "mountPath": format!("/{name}") })).collect();
    let devices: Vec<Value> =
        names().map(|name| json!({ "name": name, "devicePath": format!("/{name}") })).collect();
    let volumes: Vec<Value> = names()
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": format!("web-{name}") } }))
        .collect();
    let edits = [
        ("spec.containers.0.volumeMounts", json!(mounts)),
        ("spec.containers.0.volumeDevices", json!(devices)),
        ("spec.volumes", json!(volumes)),
    ];
    let errors = (checks_for("", "pods").create)(&edited(&pod(), &edits));
    let path = "spec.containers[0]";
    let lines = lines(&errors);
    for expected in [
        format!(
            "{path}.volumeMounts[4999].name: Invalid value: \"v4999\": must not already exist in volumeDevices"
        ),
        format!(
            "{path}.volumeMounts[4999].mountPath: Invalid value: \"/v4999\": must not already exist as a path in \
             volumeDevices"
        ),
        format!(
            "{path}.volumeDevices[4999].name: Invalid value: \"v4999\": must not already exist in volumeMounts"
        ),
        format!(
            "{path}.volumeDevices[4999].devicePath: Invalid value: \"/v4999\": must not already exist as a path in \
             volumeMounts"
        ),
    ] {
        assert!(lines.contains(&expected), "{expected}");
    }
    assert_eq!(lines.len(), 4 * 5000);
}
