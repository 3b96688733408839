//! Placements of objects, stored in an annotation that only `…/placement` writes.

mod access;
mod index;
mod known_clusters;
mod namespaces;
mod parsed;
mod policies;

use atoll_fleet::api_access::is_reserved_name;
use atoll_fleet::marks::{PLACEMENT, SYSTEM_NAMESPACE};
use atoll_fleet::{Pause, Placement, placed_by, placed_condition, placement};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::row::{ObjectRef, Row};
use crate::{Admission, Registry, RenderedObject, Update};

pub use access::RegisteredCluster;
pub use index::{PlacementSubscriber, Placements};
pub use namespaces::is_namespace;
pub use parsed::ParsedObjects;

/// The placement subresource.
pub const SUBRESOURCE: &str = "placement";
/// Verbs of the placement subresource.
pub const VERBS: [&str; 3] = ["get", "patch", "update"];

/// Types of Secrets with tokens that are valid in the control plane only.
const TOKENS: [&str; 2] = ["bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token"];

/// Whether objects of this kind can be placed on clusters.
pub fn is_placeable(row: &Row) -> bool {
    !placement::is_never_placed(&row.group, &row.resource) && row.serves("update")
}

/// The reason why this object cannot be placed on clusters, if there is one.
pub fn unplaceable_reason(group: &str, resource: &str, object: &Value) -> Option<&'static str> {
    if object::namespace(object) == SYSTEM_NAMESPACE {
        return Some("objects in Atoll's system namespace stay in the control plane");
    }
    if (group, resource) == ("", "secrets") && is_reserved_name(object::name(object)) {
        return Some("in clusters, names that begin with atoll-api- are those of the tokens of Pods");
    }
    let is_token = (group, resource) == ("", "secrets") && TOKENS.iter().any(|kind| object["type"] == *kind);
    is_token.then_some("tokens are valid in the control plane only; a cluster issues its own")
}

/// Keeps the existing placement in an object that is written. Returns whether the object contains a different
/// one.
pub(crate) fn keep(new: &mut Value, old: Option<&Value>) -> bool {
    let kept = old.and_then(|old| old["metadata"]["annotations"].get(PLACEMENT));
    let given = new["metadata"]["annotations"].get(PLACEMENT);
    let is_another = given.is_some() && given != kept;
    if given != kept {
        set(new, kept.cloned());
    }
    is_another
}

/// Holds the shares of a divided workload whose Pod template changes, in the same write: otherwise every
/// cluster would roll the template out before the scheduler can say whose turn it is. Shares that other
/// writers than the scheduler made are not held, because only the scheduler gives turns.
pub(crate) fn hold_rollout(row: &Row, new: &mut Value, old: &Value) {
    let rolls_out =
        row.group == "apps" && matches!(row.resource.as_str(), "deployments" | "statefulsets" | "daemonsets");
    if !rolls_out || old["metadata"]["annotations"].get(PLACEMENT).is_none() {
        return;
    }
    let mut placement = Placement::of(old);
    if placement.clusters.len() < 2
        || !placed_by::is_scheduled(&placement.by)
        || new["spec"]["template"] == old["spec"]["template"]
    {
        return;
    }
    placement.clusters.iter_mut().for_each(|share| share.held = true);
    set(new, placement.text().map(Value::String));
}

/// Whether some cluster may still have the object, so that it cannot be removed yet.
pub(crate) fn is_on_clusters(object: &Value) -> bool {
    object["metadata"]["annotations"].get(PLACEMENT).is_some() && !Placement::of(object).is_empty()
}

fn set(object: &mut Value, placement: Option<Value>) {
    let fields = object::metadata_mut(object);
    let annotations = fields.entry("annotations").or_insert_with(|| Value::Object(Default::default()));
    if !annotations.is_object() {
        *annotations = Value::Object(Default::default());
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    match placement {
        Some(placement) => drop(annotations.insert(PLACEMENT.into(), placement)),
        None => drop(annotations.remove(PLACEMENT)),
    }
    if annotations.is_empty() {
        fields.remove("annotations");
    }
}

impl Registry {
    /// The reason why a workspace is paused, with the command that resumes it.
    pub fn pause_message(&self, workspace: &str, pause: &Pause) -> String {
        let path = self.workspace_path(workspace);
        pause.why(&format!("workspace {path}"), &format!("atoll resume --workspace {path}"))
    }

    /// Changes the placement of an object. `change` is called again after concurrent changes.
    pub async fn place<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        uid: Option<&str>,
        dry_run: bool,
        admission: &A,
        change: &(dyn Fn(&Value, &Placement) -> Result<Placement, Status> + Sync),
    ) -> Result<RenderedObject, Status> {
        let transform = |existing: Option<&Value>| {
            let existing =
                existing.ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
            let before = Placement::of(existing);
            let placement = change(existing, &before)?;
            let mut placed = existing.clone();
            set(&mut placed, placement.text().map(Value::String));
            if before.clusters.is_empty()
                && !placement.clusters.is_empty()
                && let Some(status) = placed.get_mut("status")
            {
                placed_condition::clear_unplaced(status);
            }
            Ok(placed)
        };
        let update = Update {
            subresource: SUBRESOURCE,
            manager: None,
            size: 0,
            transform: &transform,
            admission,
            uid,
            create_missing: false,
            dry_run,
        };
        Ok(self.update(row, object_ref, &update).await?.0)
    }
}
