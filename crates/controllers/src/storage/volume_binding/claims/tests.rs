use serde_json::json;

use super::*;

fn claim(annotations: &Value, spec: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        claim["spec"][field] = value.clone();
    }
    claim
}

fn volume(name: &str, reference: &Value) -> Arc<Value> {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
        "status": {"phase": "Available"},
    });
    if !reference.is_null() {
        volume["spec"]["claimRef"] = reference.clone();
    }
    Arc::new(volume)
}

fn class(name: &str, provisioner: &str, mode: &str) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}))
}

fn describe(decide: &ClaimDecision) -> String {
    match decide {
        ClaimDecision::Bind(volume) => format!("bind {}", object::name(volume)),
        ClaimDecision::Pending(None) => "pending".into(),
        ClaimDecision::Pending(Some(event)) => format!("pending, {}: {}", event.reason, event.message),
        ClaimDecision::AssignClass(class) => format!("class {class}"),
        ClaimDecision::Provision(provisioner) => format!("provision {provisioner}"),
        ClaimDecision::Lost(event) => format!("lost, {}: {}", event.reason, event.message),
        ClaimDecision::RecordOnly(event) => format!("noted, {}: {}", event.reason, event.message),
        ClaimDecision::Inconsistent(event, problem) => {
            format!("wrong, {}: {}; {problem}", event.reason, event.message)
        }
    }
}

#[test]
fn decisions_about_claims() {
    let mine = json!({"name": "c", "namespace": "n", "uid": "u"});
    let others = json!({"name": "d", "namespace": "n", "uid": "w"});
    let free = || volume("v", &Value::Null);
    let classes = [
        class("later", "example.com/disk", "WaitForFirstConsumer"),
        class("now", "example.com/disk", "Immediate"),
        class("none", "kubernetes.io/no-provisioner", "Immediate"),
    ];
    let completed = json!({BIND_COMPLETED: "yes"});
    let no = json!({});
    let pods = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let selected = json!({SELECTED_NODE: "n1"});
    let cases = [
        (&no, json!({}), vec![free()], pods(&[]), "bind v"),
        (
            &no,
            json!({}),
            vec![volume("v", &others)],
            pods(&[]),
            "pending, FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        (&no, json!({"storageClassName": "now"}), vec![free()], pods(&[]), "provision example.com/disk"),
        (
            &no,
            json!({"storageClassName": "later"}),
            vec![],
            pods(&[]),
            "pending, WaitForFirstConsumer: waiting for first consumer to be created before binding",
        ),
        (
            &no,
            json!({"storageClassName": "later"}),
            vec![],
            pods(&["p"]),
            "pending, WaitForPodScheduled: waiting for pod p to be scheduled",
        ),
        (
            &no,
            json!({"storageClassName": "later"}),
            vec![],
            pods(&["p", "q"]),
            "pending, WaitForPodScheduled: waiting for pods p,q to be scheduled",
        ),
        (&selected, json!({"storageClassName": "later"}), vec![], pods(&["p"]), "provision example.com/disk"),
        (&no, json!({"storageClassName": "later"}), vec![volume("v", &mine)], pods(&[]), "bind v"),
        (
            &no,
            json!({"storageClassName": "none"}),
            vec![],
            pods(&[]),
            "noted, ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (
            &no,
            json!({"storageClassName": "gone"}),
            vec![],
            pods(&[]),
            "noted, ProvisioningFailed: storageclass.storage.k8s.io \"gone\" not found",
        ),
        (&no, json!({"volumeName": "v"}), vec![], pods(&[]), "pending"),
        (&no, json!({"volumeName": "v"}), vec![free()], pods(&[]), "bind v"),
        (
            &no,
            json!({"volumeName": "v", "storageClassName": "x"}),
            vec![free()],
            pods(&[]),
            "pending, VolumeMismatch: Cannot bind to requested volume \"v\": storageClassName does not match",
        ),
        (
            &no,
            json!({"volumeName": "v", "storageClassName": "x"}),
            vec![volume("v", &mine)],
            pods(&[]),
            "bind v",
        ),
        (
            &no,
            json!({"volumeName": "v"}),
            vec![volume("v", &others)],
            pods(&[]),
            "pending, FailedBinding: volume \"v\" already bound to a different claim.",
        ),
        (
            &json!({BOUND_BY_CONTROLLER: "yes"}),
            json!({"volumeName": "v"}),
            vec![volume("v", &others)],
            pods(&[]),
            "wrong, FailedBinding: volume \"v\" already bound to a different claim.; invalid binding of claim \"n/c\" to volume \"v\": volume already claimed by \"n/d\"",
        ),
        (
            &completed,
            json!({}),
            vec![],
            pods(&[]),
            "lost, ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (
            &completed,
            json!({"volumeName": "v"}),
            vec![],
            pods(&[]),
            "lost, ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        ),
        (&completed, json!({"volumeName": "v"}), vec![volume("v", &mine)], pods(&[]), "bind v"),
        (&completed, json!({"volumeName": "v"}), vec![free()], pods(&[]), "bind v"),
        (
            &completed,
            json!({"volumeName": "v"}),
            vec![volume("v", &others)],
            pods(&[]),
            "lost, ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly",
        ),
    ];
    for (annotations, spec, volumes, pods, expected) in cases {
        let claim = claim(annotations, &spec);
        let observed = Observed { claim: &claim, volumes: &volumes, classes: &classes, pods: &pods };
        assert_eq!(describe(&decide(&observed).unwrap()), expected, "{claim}");
    }
}

#[test]
fn claims_without_a_class_get_the_default() {
    let mut default = class("d", "example.com/disk", "Immediate").as_ref().clone();
    object::set_annotation(&mut default, "storageclass.kubernetes.io/is-default-class", "true");
    let classes = [Arc::new(default)];
    for (spec, expected) in [
        (json!({}), "class d"),
        (
            json!({"storageClassName": ""}),
            "pending, FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
    ] {
        let claim = claim(&json!({}), &spec);
        let observed = Observed { claim: &claim, volumes: &[], classes: &classes, pods: &[] };
        assert_eq!(describe(&decide(&observed).unwrap()), expected);
    }
}

#[test]
fn bound_claims_have_the_properties_of_their_volume() {
    let claim = claim(&json!({}), &json!({}));
    let volume = volume("v", &Value::Null);
    let bound = with_status(&claim, "Bound", Some(&volume)).unwrap();
    let expected = json!({
        "phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
    });
    assert_eq!(bound["status"], expected);
    assert_eq!(with_status(&bound, "Bound", Some(&volume)), None);
    let lost = with_status(&bound, "Lost", None).unwrap();
    assert_eq!(lost["status"], json!({"phase": "Lost"}));
    assert_eq!(with_status(&claim, "Pending", None), None);
}
