//! The objects that the scheduler places: workloads that no other component places, and objects of other kinds
//! that ask for it.

use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::marks::{PLACEMENT, PREFIX, SYSTEM_NAMESPACE};
use crate::owners::has_owner;
use crate::placement::is_never_placed;
use crate::workloads::{is_workload, is_workload_kind};
use crate::{Placement, placed_by, references, selecting};

/// Annotation with the clusters that an object asks for.
pub const CLUSTERS: &str = "atoll.dev/clusters";
/// The value of that annotation for no cluster.
pub const NONE: &str = "none";
/// The field manager of commands that say where an object runs, such as `atoll move`.
pub const COMMAND_MANAGER: &str = "atoll-place";
/// Annotation of workloads whose Pods are created in the control plane.
const GRAIN: &str = "atoll.dev/grain";
/// Resources whose objects are dependents of a Service or a workload that they name.
const WITH_TARGETS: [(&str, &str); 2] =
    [("autoscaling", "horizontalpodautoscalers"), ("networking.k8s.io", "ingresses")];
/// Prefix of the namespaces of a cluster's own components.
const SYSTEM_PREFIX: &str = "kube-";

/// Label that selects the objects that may be placed because of what they are: see [`may_be_placed`]. It is not in the
/// objects, and has no value.
pub const INTENT_LABEL: &str = "intent.atoll.dev/scheduler";
/// Label that selects the objects of [`references::RESOURCES`] that have an owner. It is not in the objects, and has no
/// value.
pub const OWNED_LABEL: &str = "intent.atoll.dev/owned";

/// Whether the label [`INTENT_LABEL`] selects an object: one with the annotation `atoll.dev/clusters`, or one that the
/// scheduler has placed. Of kinds that the scheduler places with their owners, custom ones (without a resource) among
/// them, it also selects all objects that are placed or have an owner.
pub fn may_be_placed(resource: Option<(&str, &str)>, object: &Value) -> bool {
    let is_placed = || object["metadata"]["annotations"].get(PLACEMENT).is_some();
    match resource {
        Some(resource) if is_workload(resource) => false,
        Some(resource) if !goes_with_owner(resource) => has_intent(object),
        _ => has_intent(object) || is_placed() || has_owner(object),
    }
}

/// Whether the label [`OWNED_LABEL`] selects an object.
pub fn is_owned_dependent(resource: Option<(&str, &str)>, object: &Value) -> bool {
    resource.is_some_and(goes_by_reference) && has_owner(object)
}

/// Whether objects of a resource are dependents of objects that refer to them.
fn goes_by_reference((group, name): (&str, &str)) -> bool {
    group.is_empty() && references::RESOURCES.contains(&name)
}

/// Whether the scheduler places objects of a resource with their owners. Those that are dependents for other reasons
/// are left to the components that know these reasons.
pub fn goes_with_owner(resource: (&str, &str)) -> bool {
    let has_other_reason = goes_by_reference(resource)
        || selecting::RESOURCES.contains(&resource)
        || WITH_TARGETS.contains(&resource);
    !(has_other_reason || is_workload(resource) || is_never_placed(resource.0, resource.1))
}

/// Whether an object asks for clusters, or was placed by the scheduler.
pub fn has_intent(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    annotations.get(CLUSTERS).is_some()
        || (annotations.get(PLACEMENT).is_some() && placed_by::is_scheduled(&Placement::of(object).by))
}

/// Whether the annotation of an object keeps it in the control plane.
pub fn stays_above(object: &Value) -> bool {
    object::annotation(object, CLUSTERS).is_some_and(|value| value.trim() == NONE)
}

/// Keeps the annotations that a command such as `atoll move` has written, in an object that replaces the `old` one
/// and comes from a manifest without them. Returns their keys.
pub fn keep_annotations_of_commands(new: &mut Value, old: &Value) -> Vec<String> {
    let entries = old["metadata"]["managedFields"].as_array().into_iter().flatten();
    let entries = entries.filter(|entry| entry["manager"] == COMMAND_MANAGER);
    let fields = entries.filter_map(|entry| entry["fieldsV1"]["f:metadata"]["f:annotations"].as_object());
    let keys = fields.flat_map(|fields| fields.keys()).filter_map(|key| key.strip_prefix("f:"));
    let mut kept = Vec::new();
    for key in keys.filter(|key| key.starts_with(PREFIX)) {
        if let Some(value) = object::annotation(old, key).filter(|_| object::annotation(new, key).is_none()) {
            object::set_annotation(new, key, value);
            kept.push(key.to_string());
        }
    }
    kept
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
    is_workload_kind(group, owner.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn manifests_do_not_remove_what_commands_have_written() {
        let object = |annotations: Value, manager: &str| {
            let fields = json!({ "f:metadata": { "f:annotations": {
                "f:atoll.dev/clusters": {}, "f:example.com/a": {}, ".": {},
            } } });
            json!({ "metadata": {
                "annotations": annotations, "managedFields": [{ "manager": manager, "fieldsV1": fields }],
            } })
        };
        let before = json!({ CLUSTERS: "west", "example.com/a": "b" });
        for (annotations, manager, expected) in [
            (json!({}), COMMAND_MANAGER, Some("west")),
            (Value::Null, COMMAND_MANAGER, Some("west")),
            // An annotation in the manifest counts, and one by another manager is replaced as usual.
            (json!({ CLUSTERS: "east" }), COMMAND_MANAGER, Some("east")),
            (json!({}), "kubectl-annotate", None),
        ] {
            let old = object(before.clone(), manager);
            let mut new = json!({ "metadata": { "annotations": annotations } });
            let kept = keep_annotations_of_commands(&mut new, &old);
            assert_eq!(object::annotation(&new, CLUSTERS), expected, "{annotations} {manager}");
            assert_eq!(object::annotation(&new, "example.com/a"), None);
            assert_eq!(kept.is_empty(), expected != Some("west"), "{kept:?}");
        }
    }

    #[test]
    fn labels_select_what_may_be_placed() {
        let owner = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "1" }]);
        let owned = json!({ "metadata": { "ownerReferences": owner } });
        let asking = json!({ "metadata": { "annotations": { CLUSTERS: "east" } } });
        let by_hand = json!({ "metadata": { "annotations": { PLACEMENT: r#"{"clusters":[{"name":"a"}],"by":"hand"}"# } } });
        let configmaps = Some(("", "configmaps"));
        for (resource, object, expected) in [
            (configmaps, &asking, (true, false)),
            (configmaps, &owned, (false, true)),
            (configmaps, &by_hand, (false, false)),
            (Some(("", "services")), &owned, (false, false)),
            (Some(("networking.k8s.io", "ingresses")), &owned, (false, false)),
            (Some(("", "limitranges")), &owned, (true, false)),
            (Some(("", "limitranges")), &by_hand, (true, false)),
            (Some(("", "pods")), &owned, (false, false)),
            (Some(("apps", "replicasets")), &owned, (false, false)),
            (None, &owned, (true, false)),
            (None, &by_hand, (true, false)),
            (None, &json!({}), (false, false)),
        ] {
            let found = (may_be_placed(resource, object), is_owned_dependent(resource, object));
            assert_eq!(found, expected, "{resource:?} {object}");
        }
    }

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
