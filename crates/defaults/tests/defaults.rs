//! Defaults of the most common kinds.

use atoll_schema::{Types, decode};
use serde_json::{Value, json};

/// Returns the object after decoding and defaulting.
fn defaulted(group: &str, version: &str, kind: &str, object: &Value) -> Value {
    let types = Types::get();
    let id = types.by_kind(group, version, kind).expect("a kind that exists");
    let mut value =
        decode(types, id, object.to_string().as_bytes()).expect("an object that can be read").value;
    atoll_defaults::defaults_for(group, version, kind).apply(&mut value);
    value
}

/// Checks values in the spec after defaulting.
fn check(group: &str, version: &str, kind: &str, cases: &[(Value, &[(&str, Value)])]) {
    for (object, expected) in cases {
        let value = defaulted(group, version, kind, object);
        for (pointer, expected) in *expected {
            let found = value.pointer(pointer).cloned().unwrap_or(Value::Null);
            assert_eq!(found, *expected, "{pointer} of {object}");
        }
    }
}

#[test]
fn minimal_pod_gets_all_defaults() {
    let pod = json!({"spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}]}});
    assert_eq!(
        defaulted("", "v1", "Pod", &pod),
        json!({
            "metadata": {},
            "spec": {
                "containers": [{
                    "name": "web",
                    "image": "web:1",
                    "imagePullPolicy": "IfNotPresent",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
            "status": {},
        })
    );
}

#[test]
fn pods() {
    let limited =
        json!({"resources": {"limits": {"cpu": "1", "memory": "1500u"}, "requests": {"cpu": "100m"}}});
    check(
        "",
        "v1",
        "Pod",
        &[
            (
                json!({"spec": {"containers": [limited]}}),
                &[
                    ("/spec/containers/0/resources/requests", json!({"cpu": "100m", "memory": "2m"})),
                    ("/spec/containers/0/resources/limits/memory", json!("2m")),
                ],
            ),
            (
                json!({"spec": {"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9}]}]}}),
                &[
                    ("/spec/containers/0/ports/0/hostPort", json!(80)),
                    ("/spec/containers/0/ports/1/hostPort", json!(9)),
                ],
            ),
            (
                json!({"spec": {
                    "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
                    "containers": [{"resources": {"requests": {"cpu": "1500m"}}}, {"resources": {"requests": {"cpu": "500m"}}}],
                    "initContainers": [{"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}],
                }}),
                &[("/spec/resources/requests", json!({"cpu": "3", "memory": "1Gi"}))],
            ),
            (
                json!({"spec": {"serviceAccount": "builder", "terminationGracePeriodSeconds": -5}}),
                &[
                    ("/spec/serviceAccountName", json!("builder")),
                    ("/spec/terminationGracePeriodSeconds", json!(1)),
                ],
            ),
            (
                json!({"spec": {"serviceAccount": "old", "serviceAccountName": "new"}}),
                &[("/spec/serviceAccount", json!("new"))],
            ),
            (
                json!({"spec": {"volumes": [{"name": "a"}, {"name": "b", "secret": {}}, {"name": "c", "hostPath": {"path": "/"}}]}}),
                &[
                    ("/spec/volumes/0", json!({"name": "a", "emptyDir": {}})),
                    ("/spec/volumes/1/secret/defaultMode", json!(420)),
                    ("/spec/volumes/2/hostPath/type", json!("")),
                ],
            ),
            (
                json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"grpc": {"port": 1}}}]}}),
                &[
                    (
                        "/spec/containers/0/livenessProbe/httpGet",
                        json!({"path": "/", "port": 80, "scheme": "HTTP"}),
                    ),
                    ("/spec/containers/0/livenessProbe/failureThreshold", json!(3)),
                    ("/spec/containers/0/readinessProbe/grpc/service", json!("")),
                ],
            ),
            (
                json!({"metadata": {"annotations": {"pod.beta.kubernetes.io/init-containers": "[]"}}, "status": {"podIP": "10.0.0.1"}}),
                &[("/metadata/annotations", Value::Null), ("/status/podIPs", json!([{"ip": "10.0.0.1"}]))],
            ),
        ],
    );
}

#[test]
fn workloads() {
    let recreate = json!({"spec": {"strategy": {"type": "Recreate"}}});
    check(
        "apps",
        "v1",
        "Deployment",
        &[
            (
                json!({}),
                &[
                    ("/spec/replicas", json!(1)),
                    (
                        "/spec/strategy",
                        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
                    ),
                    ("/spec/revisionHistoryLimit", json!(10)),
                    ("/spec/progressDeadlineSeconds", json!(600)),
                    ("/spec/template/spec/enableServiceLinks", Value::Null),
                    ("/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
                ],
            ),
            (recreate, &[("/spec/strategy", json!({"type": "Recreate"}))]),
            (json!({"spec": {"replicas": 0}}), &[("/spec/replicas", json!(0))]),
        ],
    );
    check(
        "apps",
        "v1",
        "DaemonSet",
        &[(
            json!({}),
            &[
                ("/metadata/annotations", json!({"deprecated.daemonset.template.generation": "0"})),
                ("/spec/updateStrategy/rollingUpdate", json!({"maxSurge": 0, "maxUnavailable": 1})),
            ],
        )],
    );
    check(
        "apps",
        "v1",
        "StatefulSet",
        &[(
            json!({"spec": {"volumeClaimTemplates": [{}]}}),
            &[
                ("/spec/podManagementPolicy", json!("OrderedReady")),
                ("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
                (
                    "/spec/persistentVolumeClaimRetentionPolicy",
                    json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
                ),
                ("/spec/volumeClaimTemplates/0/kind", json!("PersistentVolumeClaim")),
                ("/spec/volumeClaimTemplates/0/status/phase", json!("Pending")),
            ],
        )],
    );
}

#[test]
fn services() {
    check(
        "",
        "v1",
        "Service",
        &[
            (
                json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]}}),
                &[
                    ("/spec/type", json!("ClusterIP")),
                    ("/spec/sessionAffinity", json!("None")),
                    ("/spec/internalTrafficPolicy", json!("Cluster")),
                    ("/spec/externalTrafficPolicy", Value::Null),
                    ("/spec/ports/0", json!({"port": 80, "protocol": "TCP", "targetPort": 80})),
                    ("/spec/ports/1/targetPort", json!("http")),
                ],
            ),
            (
                json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}),
                &[
                    ("/spec/allocateLoadBalancerNodePorts", json!(true)),
                    ("/spec/externalTrafficPolicy", json!("Cluster")),
                    ("/spec/sessionAffinityConfig/clientIP/timeoutSeconds", json!(10800)),
                    ("/status/loadBalancer/ingress/0/ipMode", json!("VIP")),
                ],
            ),
            (json!({"spec": {"type": "ExternalName"}}), &[("/spec/internalTrafficPolicy", Value::Null)]),
            (
                json!({"spec": {"externalIPs": ["1.2.3.4"]}}),
                &[("/spec/externalTrafficPolicy", json!("Cluster"))],
            ),
        ],
    );
}

#[test]
fn jobs() {
    let of_template = json!({"spec": {"parallelism": 3, "template": {"metadata": {"labels": {"a": "b"}}}}});
    check(
        "batch",
        "v1",
        "Job",
        &[
            (
                json!({}),
                &[
                    ("/spec/completions", json!(1)),
                    ("/spec/parallelism", json!(1)),
                    ("/spec/backoffLimit", json!(6)),
                    ("/spec/podReplacementPolicy", json!("TerminatingOrFailed")),
                    ("/spec/manualSelector", json!(false)),
                ],
            ),
            (of_template, &[("/spec/completions", Value::Null), ("/metadata/labels", json!({"a": "b"}))]),
            (
                json!({"spec": {"backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": []}}}),
                &[("/spec/backoffLimit", json!(2147483647)), ("/spec/podReplacementPolicy", json!("Failed"))],
            ),
        ],
    );
    check(
        "batch",
        "v1",
        "CronJob",
        &[(
            json!({}),
            &[
                ("/spec/concurrencyPolicy", json!("Allow")),
                ("/spec/jobTemplate/spec/parallelism", Value::Null),
                ("/spec/jobTemplate/spec/template/spec/restartPolicy", json!("Always")),
            ],
        )],
    );
}

#[test]
fn autoscalers() {
    check(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        &[
            (
                json!({}),
                &[
                    ("/spec/minReplicas", json!(1)),
                    (
                        "/spec/metrics/0/resource/target",
                        json!({"type": "Utilization", "averageUtilization": 80}),
                    ),
                    ("/spec/behavior", Value::Null),
                ],
            ),
            (
                json!({"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}}),
                &[
                    ("/spec/behavior/scaleUp/stabilizationWindowSeconds", json!(0)),
                    ("/spec/behavior/scaleUp/policies/0/value", json!(4)),
                    (
                        "/spec/behavior/scaleDown",
                        json!({"selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}),
                    ),
                ],
            ),
        ],
    );
    check("autoscaling", "v1", "HorizontalPodAutoscaler", &[(json!({}), &[("/spec/minReplicas", json!(1))])]);
}

#[test]
fn other_kinds() {
    check(
        "",
        "v1",
        "Secret",
        &[(
            json!({"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "c"}}),
            &[
                ("/data", json!({"a": "YQ==", "b": "Yw=="})),
                ("/stringData", Value::Null),
                ("/type", json!("Opaque")),
            ],
        )],
    );
    check(
        "",
        "v1",
        "Namespace",
        &[
            (
                json!({"metadata": {"name": "a"}}),
                &[("/metadata/labels", json!({"kubernetes.io/metadata.name": "a"}))],
            ),
            (json!({"metadata": {"generateName": "a"}}), &[("/metadata/labels", Value::Null)]),
        ],
    );
    check(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        &[(
            json!({"spec": {"names": {"kind": "Boat"}, "versions": [{"name": "v1", "storage": true}]}}),
            &[
                ("/spec/names/singular", json!("boat")),
                ("/spec/names/listKind", json!("BoatList")),
                ("/spec/conversion", json!({"strategy": "None"})),
                ("/status/storedVersions", json!(["v1"])),
            ],
        )],
    );
    // Nested types are not defaulted in a RuntimeClass.
    check(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        &[(json!({"overhead": {"podFixed": {"cpu": "1n"}}}), &[("/overhead/podFixed/cpu", json!("1n"))])],
    );
}
