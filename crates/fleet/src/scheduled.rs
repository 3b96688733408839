//! The objects that the scheduler places: workloads that no other component places, and objects of other kinds
//! that ask for it.

use std::collections::BTreeMap;

use atoll_meta::object::{self, OwnerReference};
use atoll_meta::time;
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
/// The field managers of kubectl's commands that write manifests.
const KUBECTL_MANIFESTS: [&str; 4] =
    ["kubectl", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace"];
/// The user agent of `atoll controllers`, by which the server knows a scheduler outside of it.
pub const CONTROLLERS_AGENT: &str = "atoll-controllers";
/// The Lease in `kube-system` of the workspace root that a scheduler outside of the server renews.
pub const LEASE: &str = "atoll-scheduler";
/// Seconds for which the Lease is valid. It is renewed much more often, so that clocks may differ.
pub const LEASE_SECONDS: i64 = 60;
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

/// Keeps the intents and the annotations of commands that another field manager has set, in an object that replaces the
/// `old` one and comes from a manifest without them: a manifest takes back only what a manifest has said. Returns each of
/// them with that manager.
pub fn keep_annotations_of_others(new: &mut Value, old: &Value, manager: &str) -> Vec<(String, String)> {
    let entries = old["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        let Some(owner) = entry["manager"].as_str() else { continue };
        let fields = entry["fieldsV1"]["f:metadata"]["f:annotations"].as_object();
        let keys = fields.into_iter().flat_map(|fields| fields.keys());
        for key in keys.filter_map(|key| key.strip_prefix("f:")) {
            if key == CLUSTERS || (owner == COMMAND_MANAGER && key.starts_with(PREFIX)) {
                owners.entry(key).or_default().push(owner);
            }
        }
    }
    let mut kept = Vec::new();
    for (key, owners) in owners {
        let is_taken_back = owners.iter().any(|owner| is_same_manager(owner, manager));
        if let Some(value) = object::annotation(old, key).filter(|_| object::annotation(new, key).is_none())
            && !is_taken_back
        {
            object::set_annotation(new, key, value);
            kept.push((key.to_string(), owners.join(", ")));
        }
    }
    kept
}

/// Whether two field managers are one. Each command of kubectl that reads manifests has a name of its own.
fn is_same_manager(one: &str, other: &str) -> bool {
    let reads_manifests = |manager: &str| KUBECTL_MANIFESTS.contains(&manager);
    one == other || (reads_manifests(one) && reads_manifests(other))
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

/// Whether the Lease of a scheduler outside of the server says, at a time in seconds, that one runs.
pub fn is_lease_held(lease: &Value, now: i64) -> bool {
    let spec = &lease["spec"];
    let renewed = spec["renewTime"].as_str().and_then(|text| time::parse_micro(text).ok());
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or(0);
    spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
        && renewed.is_some_and(|renewed| now < renewed.seconds.saturating_add(seconds))
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
    fn manifests_do_not_remove_what_others_have_set() {
        let object = |annotations: Value, manager: &str| {
            let fields = json!({ "f:metadata": { "f:annotations": {
                "f:atoll.dev/clusters": {}, "f:atoll.dev/needs": {}, "f:example.com/a": {}, ".": {},
            } } });
            json!({ "metadata": {
                "annotations": annotations, "managedFields": [{ "manager": manager, "fieldsV1": fields }],
            } })
        };
        let before = json!({ CLUSTERS: "west", "atoll.dev/needs": "secret/a", "example.com/a": "b" });
        let (replace, annotate) = ("kubectl-replace", "kubectl-annotate");
        for (annotations, owner, manager, expected, kept) in [
            (json!({}), COMMAND_MANAGER, replace, Some("west"), "atoll.dev/clusters atoll.dev/needs"),
            (Value::Null, COMMAND_MANAGER, "gitops", Some("west"), "atoll.dev/clusters atoll.dev/needs"),
            (json!({}), annotate, replace, Some("west"), "atoll.dev/clusters"),
            (json!({}), annotate, "gitops", Some("west"), "atoll.dev/clusters"),
            (json!({}), "gitops", replace, Some("west"), "atoll.dev/clusters"),
            // An annotation in the manifest counts.
            (json!({ CLUSTERS: "east" }), annotate, replace, Some("east"), ""),
            // A manifest takes back what an earlier one has said.
            (json!({}), "gitops", "gitops", None, ""),
            (json!({}), "kubectl-create", replace, None, ""),
            (json!({}), "kubectl-client-side-apply", replace, None, ""),
            (json!({}), "kubectl", replace, None, ""),
        ] {
            let old = object(before.clone(), owner);
            let mut new = json!({ "metadata": { "annotations": annotations } });
            let found = keep_annotations_of_others(&mut new, &old, manager);
            assert_eq!(object::annotation(&new, CLUSTERS), expected, "{annotations} {owner} {manager}");
            assert_eq!(object::annotation(&new, "example.com/a"), None);
            assert!(found.iter().all(|(_, known)| known == owner), "{found:?}");
            let found: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(found.join(" "), kept, "{annotations} {owner} {manager}");
        }
    }

    #[test]
    fn leases_end() {
        let lease = |holder: &str, renewed: &str| json!({ "spec": { "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 60 } });
        let now = 1_000_000;
        let [recent, old] = [now - 59, now - 60].map(|at| time::format_micro(at, 0));
        for (lease, expected) in [
            (lease("a", &recent), true),
            (lease("a", &old), false),
            (lease("", &recent), false),
            (lease("a", "yesterday"), false),
            (json!({}), false),
        ] {
            assert_eq!(is_lease_held(&lease, now), expected, "{lease}");
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
