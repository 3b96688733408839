//! Warnings about PersistentVolumes, their claims, and storage classes.

// upstream: pkg/api/persistentvolume/util.go
// upstream: pkg/api/persistentvolumeclaim/util.go
// upstream: pkg/api/storage/util.go

use atoll_meta::object;
use serde_json::Value;

use super::{Warnings, fraction, node_label, node_selector_term};
use crate::field_value::{FieldValue, equal};

pub static CAPACITIES: Warnings = Warnings { object: |new, _| capacity(new), ..Warnings::NONE };
pub static CLAIMS: Warnings = Warnings { object: |new, _| claim(new), ..Warnings::NONE };
pub static CLASSES: Warnings = Warnings { object: |new, _| class(new), ..Warnings::NONE };
pub static DRIVERS: Warnings = Warnings { object: driver, ..Warnings::NONE };
pub static VOLUMES: Warnings = Warnings { object: |new, _| volume(new), ..Warnings::NONE };

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const VOLUME_ANNOTATIONS: [(&str, &str); 2] = [
    (CLASS_ANNOTATION, r#"deprecated since v1.8; use "storageClassName" attribute instead"#),
    (
        "volume.beta.kubernetes.io/mount-options",
        r#"deprecated since v1.31; use "mountOptions" attribute instead"#,
    ),
];

/// Deprecated sources of PersistentVolumes.
const SOURCES: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn volume(new: &Value) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let annotated = VOLUME_ANNOTATIONS.iter().filter(|(name, _)| object::annotation(new, name).is_some());
    let mut warnings: Vec<String> =
        annotated.map(|(name, message)| format!("metadata.annotations[{name}]: {message}")).collect();
    if spec.text_of("persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    for term in spec.get("nodeAffinity").get("required").get("nodeSelectorTerms").items() {
        node_selector_term(&term, false, &mut warnings);
    }
    for (name, message) in SOURCES {
        if spec.has(name) {
            let upstream_name = if name == "storageos" { "storageOS" } else { name };
            warnings.push(format!("spec.{upstream_name}: {message}"));
        }
    }
    warnings
}

fn claim(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if object::annotation(new, CLASS_ANNOTATION).is_some() {
        let message = VOLUME_ANNOTATIONS[0].1;
        warnings.push(format!("metadata.annotations[{CLASS_ANNOTATION}]: {message}"));
    }
    claim_spec(&FieldValue::field(new, "spec"), &mut warnings);
    warnings
}

pub fn claim_spec(spec: &FieldValue<'_>, warnings: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        let amounts = spec.get("resources").get(list);
        let storage = amounts.entries().find(|(name, _)| *name == "storage");
        if let Some((_, amount)) = storage {
            fraction(&amount, warnings);
        }
    }
}

fn class(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for topology in FieldValue::field(new, "allowedTopologies").items() {
        for expression in topology.get("matchLabelExpressions").items() {
            let key = expression.get("key");
            warnings.extend(node_label(key.text()).map(|message| format!("{}: {message}", key.path)));
        }
    }
    warnings
}

fn capacity(new: &Value) -> Vec<String> {
    let topology = FieldValue::field(new, "nodeTopology");
    let mut warnings = Vec::new();
    node_selector_term(&topology, false, &mut warnings);
    let labels = topology.get("matchLabels");
    for (label, _) in labels.entries() {
        // Upstream appends the label to the path as if it were a field.
        let message = node_label(label);
        warnings.extend(message.map(|message| format!("nodeTopology.matchLabels.{label}: {message}")));
    }
    warnings
}

fn driver(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let requests = spec.get("tokenRequests");
    let is_unchanged = old
        .is_some_and(|old| equal(FieldValue::field(old, "spec").get("tokenRequests").value, requests.value));
    if requests.is_empty() || is_unchanged || spec.has("serviceAccountTokenInSecrets") {
        return Vec::new();
    }
    let message = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                   possible logging of tokens in volume attributes";
    vec![message.to_owned()]
}
