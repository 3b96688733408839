//! Tests of volume claims and volumes.

use serde_json::{Value, json};

use super::{Outcome, TestCluster};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

fn cluster() -> TestCluster {
    let disk =
        |disk: &str| json!({"metadata": {"labels": {"disk": disk, "topology.kubernetes.io/zone": disk}}});
    let mut cluster = TestCluster::of(&[("a", disk("one")), ("b", disk("two"))]);
    for (name, mode, provisioner) in [
        ("now", "Immediate", "example.com/made"),
        ("later", "WaitForFirstConsumer", "example.com/made"),
        ("found", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    ] {
        let class =
            json!({"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner});
        cluster.node_index.storage.set_class(&class);
    }
    cluster
}

fn claim(class: &str, special: Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "default", "uid": "u"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    super::merge(&mut claim, &special);
    claim
}

fn volume(name: &str, size: &str, disk: &str, special: Value) -> Value {
    let expressions = json!([{"key": "disk", "operator": "In", "values": [disk]}]);
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "found", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
        "status": {"phase": "Available"},
    });
    super::merge(&mut volume, &special);
    volume
}

fn user() -> Value {
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}})
}

#[test]
fn claims_restrict_nodes() {
    let bound = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v1"},
    });
    let selected = json!({"metadata": {"annotations": {SELECTED: "b"}}});
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let lost = json!({"spec": {"volumeName": "v9"}, "status": {"phase": "Lost"}});
    let available = || volume("v1", "2Gi", "one", json!({}));
    let taken = || {
        volume("v1", "2Gi", "one", json!({"spec": {"claimRef": {"namespace": "x", "name": "y", "uid": "z"}}}))
    };
    let mine = || {
        volume("v1", "2Gi", "one", json!({"spec": {"claimRef": {"namespace": "default", "name": "data"}}}))
    };
    let zoned = || {
        volume("v1", "1Gi", "one", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "two"}}}))
    };
    let none = Err("2 node(s) didn't find available persistent volumes to bind.");
    let table: Vec<(Option<Value>, Option<Value>, Outcome<'_>)> = vec![
        (None, None, Err("persistentvolumeclaim \"data\" not found. not found")),
        (
            Some(claim("now", json!({}))),
            None,
            Err("pod has unbound immediate PersistentVolumeClaims. not found"),
        ),
        (
            Some(claim("", json!({}))),
            None,
            Err("pod has unbound immediate PersistentVolumeClaims. not found"),
        ),
        (
            Some(claim("later", leaving)),
            None,
            Err("persistentvolumeclaim \"data\" is being deleted. not found"),
        ),
        (
            Some(claim("now", lost)),
            None,
            Err("persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v9\". not found"),
        ),
        (Some(claim("later", json!({}))), None, Ok("a b")),
        (Some(claim("later", selected)), None, Ok("b")),
        (Some(claim("found", json!({}))), None, none),
        (Some(claim("found", json!({}))), Some(available()), Ok("a")),
        (Some(claim("found", json!({}))), Some(taken()), none),
        (Some(claim("found", json!({}))), Some(mine()), Ok("a")),
        (
            Some(claim("found", json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}))),
            Some(available()),
            none,
        ),
        (Some(claim("found", json!({"spec": {"accessModes": ["ReadWriteMany"]}}))), Some(available()), none),
        (Some(claim("found", json!({"spec": {"volumeMode": "Block"}}))), Some(available()), none),
        (
            Some(claim("found", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}))),
            Some(available()),
            none,
        ),
        (Some(claim("found", bound.clone())), Some(available()), Ok("a")),
        (Some(claim("found", bound.clone())), None, Err("persistentvolume \"v1\" not found. not found")),
        (
            Some(claim("found", bound.clone())),
            Some(zoned()),
            Err(
                "1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) had no available volume zone.",
            ),
        ),
    ];
    for (claim, volume, wanted) in table {
        let mut cluster = cluster();
        claim.iter().for_each(|claim| cluster.node_index.storage.set_claim(claim));
        volume.iter().for_each(|volume| cluster.node_index.storage.set_volume(volume));
        let outcome = cluster.nodes_for(&user());
        assert_eq!(outcome.as_deref().map_err(String::as_str), wanted, "{claim:?} {volume:?}");
    }
}

#[test]
fn smallest_matching_volume_is_bound_once() {
    let mut cluster = cluster();
    cluster.node_index.storage.set_claim(&claim("found", json!({})));
    for (name, size) in [("large", "5Gi"), ("small", "1Gi"), ("tiny", "1Mi")] {
        cluster.node_index.storage.set_volume(&volume(name, size, "two", json!({})));
    }
    let pod = cluster.pod(&user());
    let choice = cluster.node_index.choose(&pod, &mut || 0).unwrap();
    assert_eq!(
        (&*choice.node, &*choice.bindings.static_bindings),
        ("b", &[("data".into(), "small".into())][..])
    );
    cluster.node_index.assume_bindings(&pod, &choice);
    let mut other = claim("found", json!({}));
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "another".into();
    cluster.node_index.storage.set_claim(&other);
    let mut second = user();
    second["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "other".into();
    let second = cluster.pod(&second);
    let choice = cluster.node_index.choose(&second, &mut || 0).unwrap();
    assert_eq!(&*choice.bindings.static_bindings, &[("other".into(), "large".into())][..]);
}

#[test]
fn read_write_once_pod_claims_are_exclusive() {
    let mut cluster = cluster();
    let modes = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    cluster.node_index.storage.set_claim(&claim("later", modes));
    assert_eq!(cluster.nodes_for(&user()), Ok("a b".to_owned()));
    cluster.place("a", &user());
    let message = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.";
    assert_eq!(cluster.nodes_for(&user()), Err(message.to_owned()));
}

#[test]
fn ephemeral_claims_belong_to_their_pod() {
    let mut cluster = cluster();
    let special = json!({"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}});
    let pod = cluster.pod(&special);
    let outcome = |cluster: &mut TestCluster| {
        let outcome = cluster.node_index.choose(&pod, &mut || 0);
        outcome.map(|choice| choice.bindings.provisions.len()).map_err(|refusal| refusal.message)
    };
    assert_eq!(outcome(&mut cluster), Err(
        "0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim \"pod-1-v\". not found".to_owned()
    ));
    let mut made = claim("later", json!({}));
    made["metadata"]["name"] = "pod-1-v".into();
    cluster.node_index.storage.set_claim(&made);
    assert_eq!(outcome(&mut cluster), Err(
        "0/2 nodes are available: PVC default/pod-1-v was not created for pod default/pod-1 (pod is not owner). not found".to_owned()
    ));
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "pod-1", "uid": "pod-1", "controller": true}]);
    cluster.node_index.storage.set_claim(&made);
    assert_eq!(outcome(&mut cluster), Ok(1));
}
