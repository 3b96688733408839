//! The objects that the scheduler places: workloads that no other component places, and objects of other kinds
//! that ask for it.

use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::marks::{PLACEMENT, SYSTEM_NAMESPACE};
use crate::placed_condition::is_workload;
use crate::{Placement, placed_by};

/// Annotation with the clusters that an object asks for.
pub const CLUSTERS: &str = "atoll.dev/clusters";
/// The value of that annotation for no cluster.
pub const NONE: &str = "none";
/// Annotation of workloads whose Pods are created in the control plane.
const GRAIN: &str = "atoll.dev/grain";
/// Groups and kinds of workloads that own other workloads or Pods.
const OWNERS: [(&str, &str); 7] = [
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
];
/// Prefix of the namespaces of a cluster's own components.
const SYSTEM_PREFIX: &str = "kube-";

/// Label that selects the objects with the annotation `atoll.dev/clusters`, and those that the scheduler has
/// placed. It is not in the objects, and has no value.
pub const INTENT_LABEL: &str = "intent.atoll.dev/scheduler";

/// Whether the label [`INTENT_LABEL`] selects an object.
pub fn has_intent(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    annotations.get(CLUSTERS).is_some()
        || (annotations.get(PLACEMENT).is_some() && placed_by::is_scheduled(&Placement::of(object).by))
}

/// Whether the annotation of an object keeps it in the control plane.
pub fn stays_above(object: &Value) -> bool {
    object::annotation(object, CLUSTERS).is_some_and(|value| value.trim() == NONE)
}

/// Whether the scheduler places an object of a resource (group and name). It leaves alone what is owned by another
/// workload, runs in the control plane, or is in a system namespace.
pub fn is_left_to_scheduler(resource: (&str, &str), object: &Value) -> bool {
    is_workload(resource) && is_placed_alone(object)
}

/// Whether the scheduler places an object, of any kind that it places at all, by itself.
pub fn is_placed_alone(object: &Value) -> bool {
    let namespace = object::namespace(object);
    !object::controller_of(object).is_some_and(is_of_workload)
        && object::annotation(object, GRAIN) != Some("pod")
        && namespace != SYSTEM_NAMESPACE
        && !namespace.starts_with(SYSTEM_PREFIX)
}

/// Whether an owner is a workload. It makes its objects where it is placed itself, whereas other owners, such as custom
/// objects, belong to controllers that make theirs in the control plane.
fn is_of_workload(owner: OwnerReference<'_>) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    OWNERS.contains(&(group, owner.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workloads_of_users_are_left_to_the_scheduler() {
        let owner = |version: &str, kind: &str| json!([{ "apiVersion": version, "kind": kind, "name": "a", "uid": "1", "controller": true }]);
        let [of_workload, of_custom] = [owner("batch/v1", "CronJob"), owner("example.com/v1", "CronJob")];
        for (resource, metadata, expected) in [
            (("apps", "deployments"), json!({ "namespace": "default" }), true),
            (("", "configmaps"), json!({ "namespace": "default" }), false),
            (("apps", "deployments"), json!({ "namespace": "kube-system" }), false),
            (("apps", "deployments"), json!({ "namespace": SYSTEM_NAMESPACE }), false),
            (("batch", "jobs"), json!({ "namespace": "default", "ownerReferences": of_workload }), false),
            (("batch", "jobs"), json!({ "namespace": "default", "ownerReferences": of_custom }), true),
            (("batch", "jobs"), json!({ "namespace": "default", "annotations": { GRAIN: "pod" } }), false),
        ] {
            let object = json!({ "metadata": metadata });
            assert_eq!(is_left_to_scheduler(resource, &object), expected, "{resource:?} {object}");
        }
    }
}
