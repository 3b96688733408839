use super::*;

fn volume(annotations: &Value, spec: &Value) -> Value {
    json!({"metadata": {"name": "v", "annotations": annotations}, "spec": spec, "status": {"phase": "Pending"}})
}

fn claim(uid: &str, volume: &str) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": "c", "namespace": "n", "uid": uid}, "spec": {"volumeName": volume}}))
}

#[test]
fn decisions_about_volumes() {
    let reference = json!({"name": "c", "namespace": "n", "uid": "u"});
    let reserved = json!({"claimRef": {"name": "c", "namespace": "n"}});
    let bound = json!({"claimRef": reference});
    let block = json!({"claimRef": reference, "volumeMode": "Block"});
    let made = json!({"claimRef": reference, "persistentVolumeReclaimPolicy": "Delete"});
    let by_provisioner = json!({PROVISIONED_BY: "example.com/disk"});
    let no = json!({});
    for (what, annotations, spec, claim, expected) in [
        ("free", &no, &no, None, VolumeDecision::Available),
        ("reserved", &no, &reserved, Some(claim("u", "")), VolumeDecision::Available),
        ("claim gone", &no, &bound, None, VolumeDecision::Released),
        ("another claim of the name", &no, &bound, Some(claim("w", "v")), VolumeDecision::Released),
        ("half bound", &no, &bound, Some(claim("u", "")), VolumeDecision::EnqueueClaim),
        ("bound", &no, &bound, Some(claim("u", "v")), VolumeDecision::Bound),
        ("other mode", &no, &block, Some(claim("u", "")), VolumeDecision::Mismatch(claim("u", ""))),
        ("claim bound elsewhere", &no, &bound, Some(claim("u", "w")), VolumeDecision::Unbind),
        (
            "made for a claim bound elsewhere",
            &by_provisioner,
            &made,
            Some(claim("u", "w")),
            VolumeDecision::Released,
        ),
        ("kept though made", &by_provisioner, &bound, Some(claim("u", "w")), VolumeDecision::Unbind),
    ] {
        assert_eq!(decide(&volume(annotations, spec), claim.as_ref()), expected, "{what}");
    }
}

#[test]
fn released_volumes_are_kept_deleted_or_failed() {
    let delete =
        |source: &str, value: &Value| json!({"persistentVolumeReclaimPolicy": "Delete", source: value});
    let failed = |message: &str| Reclaim::Failed("VolumeFailedDelete", message.into());
    let no = json!({});
    for (annotations, spec, expected) in [
        (&no, json!({"persistentVolumeReclaimPolicy": "Retain"}), Reclaim::Nothing),
        (
            &json!({PROVISIONED_BY: "example.com/disk"}),
            delete("hostPath", &json!({"path": "/x"})),
            Reclaim::Nothing,
        ),
        (&json!({MIGRATED_TO: "example.com"}), delete("hostPath", &json!({"path": "/x"})), Reclaim::Nothing),
        (&no, delete("csi", &json!({"driver": "d"})), Reclaim::Nothing),
        (&no, delete("hostPath", &json!({"path": "/tmp/data"})), Reclaim::Delete),
        (
            &no,
            delete("hostPath", &json!({"path": "/data"})),
            failed("host_path deleter only supports /tmp/.+ but received provided /data"),
        ),
        (
            &no,
            delete("nfs", &json!({})),
            failed(
                "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
            ),
        ),
        (
            &no,
            delete("local", &json!({})),
            failed("error getting deleter volume plugin for volume \"v\": no volume plugin matched"),
        ),
    ] {
        assert_eq!(reclaim(&volume(annotations, &spec)), expected, "{spec}");
    }
}

#[test]
fn bindings_are_made_and_undone() {
    let free = volume(&json!({}), &json!({}));
    let claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"}});
    let bound = bound_to(&free, &claim).unwrap();
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n", "name": "c",
        "uid": "u", "resourceVersion": "7"});
    assert_eq!(bound["spec"]["claimRef"], reference);
    assert_eq!(object::annotation(&bound, BOUND_BY_CONTROLLER), Some("yes"));
    assert_eq!(bound_to(&bound, &claim), None);
    assert_eq!(unbound(&bound)["spec"], json!({}));
    let reserved = volume(&json!({}), &json!({"claimRef": {"name": "c", "namespace": "n"}}));
    let bound = bound_to(&reserved, &claim).unwrap();
    assert_eq!(object::annotation(&bound, BOUND_BY_CONTROLLER), None, "a user reserved it");
    assert_eq!(unbound(&bound)["spec"]["claimRef"].get("uid"), None);
    assert_eq!(unbound(&bound)["spec"]["claimRef"]["name"], "c");
}
