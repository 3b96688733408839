//! The objects that the scheduler places: workloads that no other component places.

use atoll_meta::object;
use serde_json::Value;

use crate::marks::SYSTEM_NAMESPACE;
use crate::placed_condition::is_workload;

/// Annotation of workloads whose Pods are created in the control plane.
const GRAIN: &str = "atoll.dev/grain";
/// Prefix of the namespaces of a cluster's own components.
const SYSTEM_PREFIX: &str = "kube-";

/// Whether the scheduler places an object of a resource (group and name). It leaves alone what is owned by a
/// controller, runs in the control plane, or is in a system namespace.
pub fn is_left_to_scheduler(resource: (&str, &str), object: &Value) -> bool {
    let namespace = object::namespace(object);
    is_workload(resource)
        && object::controller_of(object).is_none()
        && object::annotation(object, GRAIN) != Some("pod")
        && namespace != SYSTEM_NAMESPACE
        && !namespace.starts_with(SYSTEM_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workloads_of_users_are_left_to_the_scheduler() {
        let owner = json!([{ "kind": "Thing", "name": "a", "uid": "1", "controller": true }]);
        for (resource, metadata, expected) in [
            (("apps", "deployments"), json!({ "namespace": "default" }), true),
            (("", "configmaps"), json!({ "namespace": "default" }), false),
            (("apps", "deployments"), json!({ "namespace": "kube-system" }), false),
            (("apps", "deployments"), json!({ "namespace": SYSTEM_NAMESPACE }), false),
            (("batch", "jobs"), json!({ "namespace": "default", "ownerReferences": owner }), false),
            (("batch", "jobs"), json!({ "namespace": "default", "annotations": { GRAIN: "pod" } }), false),
        ] {
            let object = json!({ "metadata": metadata });
            assert_eq!(is_left_to_scheduler(resource, &object), expected, "{resource:?} {object}");
        }
    }
}
