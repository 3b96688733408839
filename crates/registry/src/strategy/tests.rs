//! Preparation of objects by kind. The differential tests compare it with kube-apiserver.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-15T08:07:21Z";

fn context(labelled: bool) -> Context<'static> {
    Context { random: [0; 16], now: NOW, labelled }
}

#[track_caller]
fn expect(object: &Value, expected: &[(&str, Value)]) {
    for (pointer, wanted) in expected {
        let found = object.pointer(pointer).cloned().unwrap_or(Value::Null);
        assert_eq!(found, *wanted, "{pointer} of {object}");
    }
}

/// Checks the preparation of a new object.
#[track_caller]
fn created(group: &str, resource: &str, mut object: Value, labelled: bool, expected: &[(&str, Value)]) {
    (builtin(group, resource).prepare_create)(&mut object, &context(labelled));
    expect(&object, expected);
}

/// Checks the preparation of an update.
#[track_caller]
fn updated(group: &str, resource: &str, mut new: Value, old: &Value, expected: &[(&str, Value)]) {
    (builtin(group, resource).prepare_update)(&mut new, old, &context(true));
    expect(&new, expected);
}

/// Checks the preparation of a subresource update.
#[track_caller]
fn changed(
    (group, resource, subresource): (&str, &str, &str),
    mut new: Value,
    old: &Value,
    expected: &[(&str, Value)],
) {
    (builtin(group, resource).prepare_subresource)(subresource, &mut new, old, &context(true));
    expect(&new, expected);
}

#[test]
fn a_new_pod_is_pending_regardless_of_the_request() {
    let pod = json!({"spec": {"containers": []}, "status": {"phase": "Running"}});
    let gated = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
    created("", "pods", pod, false, &[("/status", json!({"phase": "Pending", "qosClass": "BestEffort"}))]);
    created("", "pods", gated, false, &[("/status/conditions/0/lastTransitionTime", json!(NOW))]);
}

#[test]
fn label_keys_become_expressions() {
    let pod = json!({
        "metadata": {"labels": {"hash": "x"}},
        "spec": {"topologySpreadConstraints": [
            {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["hash", "none"]},
            {"matchLabelKeys": ["hash"]},
        ]},
    });
    let merged = json!([{"key": "hash", "operator": "In", "values": ["x"]}]);
    let constraints = "/spec/topologySpreadConstraints";
    let first = format!("{constraints}/0/labelSelector/matchExpressions");
    let second = format!("{constraints}/1/labelSelector");
    created("", "pods", pod, true, &[(&first, merged), (&second, Value::Null)]);
}

#[test]
fn a_pod_status_update_keeps_fields_unknown_to_the_client() {
    let condition = |generation: i64| json!({"type": "Ready", "observedGeneration": generation});
    let old =
        json!({"status": {"qosClass": "Burstable", "observedGeneration": 3, "conditions": [condition(3)]}});
    let new = json!({"status": {"conditions": [{"type": "Ready"}, {"type": "Ready"}, {"type": "Other"}]}});
    let expected = [
        ("/status/qosClass", json!("Burstable")),
        ("/status/observedGeneration", json!(3)),
        ("/status/conditions/0/observedGeneration", json!(3)),
        ("/status/conditions/1/observedGeneration", Value::Null),
        ("/status/conditions/2/observedGeneration", Value::Null),
    ];
    changed(("", "pods", "status"), new, &old, &expected);
}

#[test]
fn resize_changes_only_resources() {
    let old = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "1", "resources": {}}]}, "status": {}});
    let resources = json!({"requests": {"cpu": "1"}});
    let new = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "2", "resources": resources}]},
    });
    let expected = [
        ("/spec/containers/0", json!({"name": "a", "image": "1", "resources": resources})),
        ("/spec/nodeName", Value::Null),
        ("/metadata/labels", Value::Null),
    ];
    changed(("", "pods", "resize"), new, &old, &expected);
    let renamed = json!({"metadata": {}, "spec": {"containers": [{"name": "b"}]}});
    changed(("", "pods", "resize"), renamed, &old, &[("/spec/containers", json!([{"name": "b"}]))]);
}

#[test]
fn a_job_finds_its_pods_by_its_uid() {
    let job = json!({
        "metadata": {"name": "j", "uid": "u", "labels": {"a": "b"}},
        "spec": {"manualSelector": false, "template": {"metadata": {"labels": {"a": "b", "job-name": "own"}}}},
    });
    let labels = json!({
        "a": "b",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "own",
    });
    let template = ("/spec/template/metadata/labels", labels.clone());
    let selector = ("/spec/selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    created("batch", "jobs", job.clone(), false, &[template.clone(), selector, ("/metadata/labels", labels)]);
    created("batch", "jobs", job.clone(), true, &[template, ("/metadata/labels", json!({"a": "b"}))]);
    let mut manual = job;
    manual["spec"]["manualSelector"] = true.into();
    created("batch", "jobs", manual, false, &[("/spec/selector", Value::Null)]);
}

#[test]
fn daemon_set_template_generation_is_an_annotation() {
    const ANNOTATION: &str = "/metadata/annotations/deprecated.daemonset.template.generation";
    let daemon_set = |generation: &str, image: &str| {
        json!({
            "metadata": {"annotations": {"deprecated.daemonset.template.generation": generation}},
            "spec": {"template": {"spec": {"containers": [{"image": image}]}}},
        })
    };
    created("apps", "daemonsets", daemon_set("0", "a"), false, &[(ANNOTATION, json!("1"))]);
    let old = daemon_set("4", "a");
    updated("apps", "daemonsets", daemon_set("9", "a"), &old, &[(ANNOTATION, json!("4"))]);
    updated("apps", "daemonsets", daemon_set("0", "b"), &old, &[(ANNOTATION, json!("5"))]);
    changed(("apps", "daemonsets", "status"), daemon_set("9", "a"), &old, &[(ANNOTATION, json!("4"))]);
}

#[test]
fn generation_is_raised_as_in_upstream() {
    let object = |spec: i64, label: &str, annotation: &str| {
        json!({
            "metadata": {"labels": {"a": label}, "annotations": {"a": annotation}},
            "spec": {"x": spec}, "status": {"y": spec},
        })
    };
    let old = object(1, "l", "a");
    // Changes of the spec, of a label, of an annotation.
    for (group, resource, expected) in [
        ("", "pods", [true, false, false]),
        ("apps", "deployments", [true, false, true]),
        ("apps", "statefulsets", [true, false, false]),
        ("discovery.k8s.io", "endpointslices", [true, true, false]),
        ("storage.k8s.io", "csidrivers", [true, false, false]),
        ("scheduling.k8s.io", "priorityclasses", [false, false, false]),
        ("", "services", [false, false, false]),
        ("autoscaling", "horizontalpodautoscalers", [false, false, false]),
    ] {
        let changes = [object(2, "l", "a"), object(1, "m", "a"), object(1, "l", "b")];
        let counted = changes.map(|new| (builtin(group, resource).raises_generation)(&new, &old));
        assert_eq!(counted, expected, "{resource}");
    }
}

#[test]
fn clusters_that_a_deployment_asks_for_are_no_change_of_it() {
    let annotated = |key: &str| json!({ "metadata": { "annotations": { key: "east" } }, "spec": {} });
    let old = json!({ "metadata": {}, "spec": {} });
    for (key, expected) in [("atoll.dev/clusters", false), ("atoll.dev/drift", true)] {
        let is_raised = (builtin("apps", "deployments").raises_generation)(&annotated(key), &old);
        assert_eq!(is_raised, expected, "{key}");
    }
}

#[test]
fn a_volume_records_the_time_of_phase_changes() {
    const TIME: &str = "/status/lastPhaseTransitionTime";
    let status = |phase: &str, time: Option<&str>| match time {
        Some(time) => json!({"status": {"phase": phase, "lastPhaseTransitionTime": time}}),
        None => json!({"status": {"phase": phase}}),
    };
    let (before, other) = ("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z");
    let old = status("Pending", Some(before));
    for (new, expected) in [
        (status("Pending", None), before),
        (status("Pending", Some(other)), other),
        (status("Bound", None), NOW),
        (status("Bound", Some(before)), NOW),
        (status("Bound", Some(other)), other),
    ] {
        changed(("", "persistentvolumes", "status"), new, &old, &[(TIME, json!(expected))]);
    }
}

#[test]
fn data_source_and_data_source_ref_are_synchronised() {
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let thing = json!({"apiGroup": "x.io", "kind": "Thing", "name": "t"});
    let claim = |name: &str, source: &Value| json!({"spec": {name: source}});
    let both =
        |source: &Value| [("/spec/dataSource", source.clone()), ("/spec/dataSourceRef", source.clone())];
    let claims = "persistentvolumeclaims";
    created("", claims, claim("dataSource", &snapshot), false, &both(&snapshot));
    created("", claims, claim("dataSource", &thing), false, &both(&Value::Null));
    created("", claims, claim("dataSourceRef", &thing), false, &both(&thing));
    let mut elsewhere = thing;
    elsewhere["namespace"] = "other".into();
    created("", claims, claim("dataSourceRef", &elsewhere), false, &both(&Value::Null));
}

#[test]
fn a_certificate_request_records_the_requesting_user() {
    let mut request =
        json!({"spec": {"username": "other", "groups": ["x"], "extra": {"a": ["b"]}, "usages": []}});
    let groups = ["system:authenticated".to_owned()];
    let extra = Default::default();
    let requester = Requester { name: "me", uid: "", groups: &groups, extra: &extra };
    (builtin("certificates.k8s.io", "certificatesigningrequests").set_requester)(&mut request, &requester);
    assert_eq!(request["spec"], json!({"username": "me", "groups": ["system:authenticated"], "usages": []}));
}

#[test]
fn certificate_decisions_require_the_approval_subresource() {
    let of = |subresource| ("certificates.k8s.io", "certificatesigningrequests", subresource);
    let approved = |reason: &str| json!({"type": "Approved", "status": "True", "reason": reason, "lastTransitionTime": NOW, "lastUpdateTime": NOW});
    let old = json!({"status": {"certificate": "YQ==", "conditions": [approved("a")]}});
    let new = json!({"status": {"certificate": "Yg==", "conditions": [approved("b"), {"type": "Failed", "status": "True"}]}});
    let by_status = [
        ("/status/conditions/0/reason", json!("a")),
        ("/status/conditions/1/lastUpdateTime", json!(NOW)),
        ("/status/certificate", json!("Yg==")),
    ];
    let by_approval = [("/status/conditions/0/reason", json!("b")), ("/status/certificate", json!("YQ=="))];
    changed(of("status"), new.clone(), &old, &by_status);
    changed(of("approval"), new, &old, &by_approval);
}

#[test]
fn fields_of_disabled_features_are_dropped() {
    let template = json!({"spec": {"template": {"spec": {
        "schedulingGroup": {},
        "volumes": [{"projected": {"sources": [{"clusterTrustBundle": {}}, {"secret": {}}]}}],
        "containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}, {"lifecycle": {"stopSignal": "SIGTERM", "preStop": {}}}],
    }}}});
    let expected = [
        ("/spec/template/spec/schedulingGroup", Value::Null),
        ("/spec/template/spec/volumes/0/projected/sources", json!([{}, {"secret": {}}])),
        ("/spec/template/spec/containers", json!([{}, {"lifecycle": {"preStop": {}}}])),
    ];
    created("apps", "deployments", template.clone(), false, &expected);
    updated("apps", "replicasets", template, &json!({}), &expected);
    let stateful_set =
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "partition": 0}}}});
    let rolling = ("/spec/updateStrategy/rollingUpdate", json!({"partition": 0}));
    created("apps", "statefulsets", stateful_set, false, &[rolling]);
}

#[test]
fn status_of_released_devices_is_dropped() {
    let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name});
    let claim = |allocated: &[&str], known: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| device(name)).collect::<Vec<_>>();
        json!({"status": {"allocation": {"devices": {"results": list(allocated)}}, "devices": list(known)}})
    };
    let of = ("resource.k8s.io", "resourceclaims", "status");
    let old = claim(&["a", "b"], &[]);
    changed(of, claim(&["b"], &["a", "b"]), &old, &[("/status/devices", json!([device("b")]))]);
    changed(of, claim(&[], &["a"]), &old, &[("/status/devices", Value::Null)]);
}
