//! The side of a HorizontalPodAutoscaler: whether the control plane or the cluster of its target scales that.
//!
//! ```text
//!   undivided:  below     the autoscaler is placed on the only cluster of its target
//!                 │         the target is to be divided, or to leave the cluster
//!                 ▼
//!               stopping  the autoscaler leaves the cluster; then spec.replicas above is set to what runs
//!                 │
//!                 ▼
//!   divided:    above     the control plane scales the target, by the usage in all clusters
//! ```
//!
//! A target on a cluster of a workspace above counts as divided: others use that cluster, too, and an autoscaler there
//! would scale past the room that the scheduler knows.
//!
//! The side is a field of the target's placement, so that a write of its scale that is conditional on its revision
//! is also conditional on the side.

use atoll_meta::object;
use serde_json::Value;

/// The cluster of the target scales it.
pub const BELOW: &str = "below";
/// The autoscaler is leaving the cluster of the target.
pub const STOPPING: &str = "stopping";
/// The control plane scales the target.
pub const ABOVE: &str = "above";
/// Nothing scales the target, because its user has pinned the number of replicas on each cluster.
pub const PINNED: &str = "pinned";
/// All sides.
pub const SIDES: [&str; 4] = [BELOW, STOPPING, ABOVE, PINNED];

/// Why an autoscaler is not placed on a cluster of a workspace above, of which this is said.
pub const WHY_ABOVE: &str = "belongs to a workspace above: autoscalers of workloads there act in the control plane, so that replicas find room first";

/// Whether a resource, by group and name, is that of autoscalers.
pub fn is_autoscaler(resource: (&str, &str)) -> bool {
    resource == ("autoscaling", "horizontalpodautoscalers")
}

/// Annotation of objects whose Pods are created in the control plane.
const GRAIN: &str = "atoll.dev/grain";

/// The target of an autoscaler in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleTarget<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
}

impl ScaleTarget<'_> {
    /// Returns the target of an autoscaler; `None` if it names none.
    pub fn of(autoscaler: &Value) -> Option<ScaleTarget<'_>> {
        let reference = &autoscaler["spec"]["scaleTargetRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (group, _) = object::split_api_version(text("apiVersion"))?;
        let target = ScaleTarget { group, kind: text("kind"), name: text("name") };
        (!target.kind.is_empty() && !target.name.is_empty()).then_some(target)
    }
}

/// Whether an autoscaler belongs to workloads that are placed as a whole. The others act on Pods in the control
/// plane.
pub fn is_of_placed_workloads(autoscaler: &Value) -> bool {
    object::annotation(autoscaler, GRAIN) != Some("pod")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_found_by_group_and_kind() {
        for (reference, expected) in [
            (
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }),
                Some(("apps", "Deployment", "web")),
            ),
            (
                json!({ "apiVersion": "v1", "kind": "ReplicationController", "name": "web" }),
                Some(("", "ReplicationController", "web")),
            ),
            (json!({ "apiVersion": "a/b/c", "kind": "Deployment", "name": "web" }), None),
            (json!({ "apiVersion": "apps/v1", "kind": "Deployment" }), None),
            (json!(null), None),
        ] {
            let autoscaler = json!({ "spec": { "scaleTargetRef": reference } });
            let found = ScaleTarget::of(&autoscaler).map(|target| (target.group, target.kind, target.name));
            assert_eq!(found, expected, "{reference}");
        }
    }
}
