//! Decides which claims need a volume of this provisioner, and builds the volume.

use atoll_meta::object;
use serde_json::{Value, json};

/// Name of this provisioner in StorageClasses.
pub const PROVISIONER: &str = "sim.atoll.dev";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Request of a claim.
#[derive(Debug, PartialEq)]
pub enum VolumeRequest<'a> {
    /// No request: the claim has a volume, or waits for another provisioner or a selected node.
    Nothing,
    /// A volume of this class.
    InAnyZone(&'a Value),
    /// A volume of this class for this node.
    ForNode(&'a Value, &'a str),
}

/// Returns the request of a claim with its class.
pub fn request_of<'a>(claim: &'a Value, class: Option<&'a Value>) -> VolumeRequest<'a> {
    let is_selected = object::annotation(claim, STORAGE_PROVISIONER) == Some(PROVISIONER);
    let has_volume = claim["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty());
    let class = class.filter(|class| class["provisioner"] == PROVISIONER);
    let Some(class) = class.filter(|_| is_selected && !has_volume && !object::is_being_deleted(claim)) else {
        return VolumeRequest::Nothing;
    };
    match (class["volumeBindingMode"] == "WaitForFirstConsumer", object::annotation(claim, SELECTED_NODE)) {
        (true, None) => VolumeRequest::Nothing,
        (true, Some(node)) => VolumeRequest::ForNode(class, node),
        (false, _) => VolumeRequest::InAnyZone(class),
    }
}

/// Returns the volume for a claim. Like a cloud disk, it is usable in the zone of its node.
pub fn new_volume(claim: &Value, class: &Value, node: Option<&Value>) -> Value {
    let uid = object::uid(claim);
    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": object::namespace(claim),
            "name": object::name(claim),
            "uid": uid,
            "resourceVersion": object::resource_version(claim),
        },
        "csi": {
            "driver": PROVISIONER,
            "volumeHandle": format!("pvc-{uid}"),
            "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": PROVISIONER},
        },
        "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
        "storageClassName": object::name(class),
        "volumeMode": claim["spec"]["volumeMode"].as_str().unwrap_or("Filesystem"),
    });
    if let Some(options) = class.get("mountOptions") {
        spec["mountOptions"] = options.clone();
    }
    if let Some(zone) = node.and_then(|node| object::label(node, ZONE)) {
        let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": format!("pvc-{uid}"), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    })
}

/// Whether a volume of this provisioner must be deleted.
pub fn is_deletable(volume: &Value) -> bool {
    object::annotation(volume, PROVISIONED_BY) == Some(PROVISIONER)
        && volume["status"]["phase"] == "Released"
        && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        && !object::is_being_deleted(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(annotations: Value) -> Value {
        json!({
            "metadata": {
                "name": "data", "namespace": "default", "uid": "u", "resourceVersion": "7",
                "annotations": annotations,
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "standard",
            },
        })
    }

    fn class(mode: &str) -> Value {
        json!({"metadata": {"name": "standard"}, "provisioner": PROVISIONER, "volumeBindingMode": mode})
    }

    #[test]
    fn claims_wait_for_their_provisioner_and_node() {
        let (later, now) = (class("WaitForFirstConsumer"), class("Immediate"));
        let request = json!({STORAGE_PROVISIONER: PROVISIONER});
        let placed = json!({STORAGE_PROVISIONER: PROVISIONER, SELECTED_NODE: "n"});
        for (annotations, class, expected) in [
            (json!({}), Some(&now), VolumeRequest::Nothing),
            (json!({STORAGE_PROVISIONER: "other"}), Some(&now), VolumeRequest::Nothing),
            (request.clone(), None, VolumeRequest::Nothing),
            (request.clone(), Some(&now), VolumeRequest::InAnyZone(&now)),
            (request, Some(&later), VolumeRequest::Nothing),
            (placed, Some(&later), VolumeRequest::ForNode(&later, "n")),
        ] {
            assert_eq!(request_of(&claim(annotations.clone()), class), expected, "{annotations}");
        }
        let mut bound = claim(json!({STORAGE_PROVISIONER: PROVISIONER}));
        bound["spec"]["volumeName"] = "v".into();
        assert_eq!(request_of(&bound, Some(&now)), VolumeRequest::Nothing);
    }

    #[test]
    fn a_volume_belongs_to_its_claim_and_its_zone() {
        let node = json!({"metadata": {"name": "n", "labels": {ZONE: "a"}}});
        let mut volume = new_volume(&claim(json!({})), &class("Immediate"), Some(&node));
        assert_eq!(object::name(&volume), "pvc-u");
        assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
        assert_eq!(volume["spec"]["capacity"], json!({"storage": "1Gi"}));
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
        assert!(volume["spec"]["nodeAffinity"].to_string().contains(r#""values":["a"]"#));
        assert!(!is_deletable(&volume));
        volume["status"] = json!({"phase": "Released"});
        assert!(is_deletable(&volume));
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain".into();
        assert!(!is_deletable(&volume));
    }
}
