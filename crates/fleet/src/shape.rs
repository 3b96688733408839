//! Shapes: the part of an object that is sent to a cluster. It contains what users set, not what servers and
//! controllers added.

mod divide;

use atoll_merge::apply;
use atoll_meta::object;
use serde_json::{Map, Value};

use crate::marks;
use crate::placement::ShareNumbers;

/// Labels and annotations that depend on the cluster or workspace. A slash at the end makes an entry a
/// prefix.
const LOCAL: &[&str] = &[
    marks::PREFIX,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "batch.kubernetes.io/job-tracking",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
];

/// Fields that servers fill in.
struct Generated {
    group: &'static str,
    kind: &'static str,
    /// Path of the parent; a star stands for every item of a list.
    parent: &'static [&'static str],
    names: &'static [&'static str],
    /// Returns whether a user set the fields.
    unless: fn(&Value) -> bool,
}

const GENERATED: &[Generated] = &[
    Generated {
        group: "batch",
        kind: "Job",
        parent: &["spec"],
        names: &["selector"],
        unless: selects_by_hand,
    },
    Generated {
        group: "batch",
        kind: "Job",
        parent: &["spec", "template", "metadata", "labels"],
        names: &[
            "batch.kubernetes.io/controller-uid",
            "batch.kubernetes.io/job-name",
            "controller-uid",
            "job-name",
        ],
        unless: selects_by_hand,
    },
    Generated {
        group: "",
        kind: "Service",
        parent: &["spec"],
        names: &["clusterIP", "clusterIPs", "ipFamilies"],
        unless: is_headless,
    },
    Generated {
        group: "",
        kind: "Service",
        parent: &["spec"],
        names: &["healthCheckNodePort"],
        unless: never,
    },
    Generated {
        group: "",
        kind: "Service",
        parent: &["spec", "ports", "*"],
        names: &["nodePort"],
        unless: never,
    },
    Generated {
        group: "",
        kind: "PersistentVolumeClaim",
        parent: &["spec"],
        names: &["volumeName"],
        unless: never,
    },
    Generated {
        group: "",
        kind: "PersistentVolume",
        parent: &["spec", "claimRef"],
        names: &["uid", "resourceVersion"],
        unless: never,
    },
    Generated { group: "", kind: "ServiceAccount", parent: &[], names: &["secrets"], unless: never },
    Generated { group: "", kind: "Namespace", parent: &["spec"], names: &["finalizers"], unless: never },
    // Claims in a StatefulSet have a status as if they were stored.
    Generated {
        group: "apps",
        kind: "StatefulSet",
        parent: &["spec", "volumeClaimTemplates", "*"],
        names: &["status"],
        unless: never,
    },
];

fn never(_: &Value) -> bool {
    false
}

fn selects_by_hand(job: &Value) -> bool {
    job["spec"]["manualSelector"] == true
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == "None" || service["spec"]["clusterIPs"][0] == "None"
}

/// Returns the shape of an object: the managed fields without status, marks and generated fields. Of an
/// object without managed fields, all fields except those. `share` has the numbers of the cluster's share.
///
/// The name of the cluster is a parameter for rules that depend on it; there are none yet.
pub fn shape(object: &Value, _cluster: &str, share: impl Into<ShareNumbers>) -> Value {
    divided(undivided(object), object, share)
}

/// Sets the numbers of a share in the undivided shape of an object.
pub fn divided(undivided: Value, object: &Value, share: impl Into<ShareNumbers>) -> Value {
    let mut shaped = undivided;
    divide::divide(&mut shaped, object, share.into());
    shaped
}

/// Returns the shape of an object without the numbers of a share, which is the same in all its clusters.
pub fn undivided(object: &Value) -> Value {
    let all = object.as_object();
    let mut fields = apply::extract(object).unwrap_or_else(|| all.cloned().unwrap_or_default());
    fields.remove("status");
    let (group, kind) = type_of(object);
    let copied = |fields: &mut Map<String, Value>, name: &str| {
        if let Some(value) = object.get(name) {
            fields.insert(name.to_owned(), value.clone());
        }
    };
    copied(&mut fields, "apiVersion");
    copied(&mut fields, "kind");
    // A user who wrote `stringData` manages that, and not the resulting data.
    if (group, kind) == ("", "Secret") {
        copied(&mut fields, "data");
    }
    fields.insert("metadata".to_owned(), Value::Object(metadata(object)));
    let mut shaped = Value::Object(fields);
    for row in GENERATED.iter().filter(|row| (row.group, row.kind) == (group, kind)) {
        if !(row.unless)(&shaped) {
            remove(&mut shaped, row.parent, row.names);
        }
    }
    shaped
}

/// Returns group and kind.
fn type_of(object: &Value) -> (&str, &str) {
    let group = object::split_api_version(object::api_version(object)).map_or("", |(group, _)| group);
    (group, object::kind(object))
}

fn metadata(object: &Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    for name in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(name) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    for name in ["labels", "annotations"] {
        let entries = object["metadata"][name].as_object().into_iter().flatten();
        let kept: Map<String, Value> = entries
            .filter(|(key, _)| !is_local(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !kept.is_empty() {
            metadata.insert(name.to_owned(), Value::Object(kept));
        }
    }
    metadata
}

/// Whether a label or annotation depends on the cluster or workspace and is not copied.
pub fn is_local(key: &str) -> bool {
    LOCAL.iter().any(|local| if local.ends_with('/') { key.starts_with(local) } else { key == *local })
}

/// Removes fields, and parents that become empty.
fn remove(value: &mut Value, parent: &[&str], names: &[&str]) {
    let Some((first, rest)) = parent.split_first() else {
        if let Some(fields) = value.as_object_mut() {
            names.iter().for_each(|name| drop(fields.remove(*name)));
        }
        return;
    };
    if *first == "*" {
        value.as_array_mut().into_iter().flatten().for_each(|item| remove(item, rest, names));
        return;
    }
    let Some(child) = value.get_mut(*first) else { return };
    let was_empty = child.as_object().is_some_and(Map::is_empty);
    remove(child, rest, names);
    if !was_empty && child.as_object().is_some_and(Map::is_empty) {
        value.as_object_mut().map(|fields| fields.remove(*first));
    }
}

#[cfg(test)]
mod tests;
