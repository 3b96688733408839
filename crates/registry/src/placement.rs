//! Where objects shall be: kept in an annotation that only `…/placement` writes.

mod access;
mod index;
mod namespaces;

use atoll_fleet::marks::{PLACEMENT, SYSTEM_NAMESPACE};
use atoll_fleet::{Brake, Placement, placed, placement};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::row::{Place, Row};
use crate::{Answer, Registry, Unasked, Update};

pub use access::Registered;
pub use index::{Placements, Subscriber};
pub use namespaces::is_namespace;

/// What says where an object shall be.
pub const SUBRESOURCE: &str = "placement";
/// What it can be asked for.
pub const VERBS: [&str; 3] = ["get", "patch", "update"];

/// Secrets with tokens that count in one place only.
const TOKENS: [&str; 2] = ["bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token"];

/// Whether objects of this kind can be placed on clusters.
pub fn is_placeable(row: &Row) -> bool {
    !placement::stays(&row.group, &row.resource) && row.serves("update")
}

/// Why this very object is not for clusters, if it is not.
pub fn is_kept(group: &str, resource: &str, object: &Value) -> Option<&'static str> {
    if object::namespace(object) == SYSTEM_NAMESPACE {
        return Some("what Atoll keeps for itself stays in the control plane");
    }
    let is_token = (group, resource) == ("", "secrets") && TOKENS.iter().any(|kind| object["type"] == *kind);
    is_token.then_some("tokens of ServiceAccounts stay where they count; a cluster makes its own")
}

/// What is written of an object has the placement that is there, whatever it says itself. Returns whether it says another one.
pub(crate) fn keep(new: &mut Value, old: Option<&Value>) -> bool {
    let kept = old.and_then(|old| old["metadata"]["annotations"].get(PLACEMENT));
    let given = new["metadata"]["annotations"].get(PLACEMENT);
    let is_another = given.is_some() && given != kept;
    if given != kept {
        set(new, kept.cloned());
    }
    is_another
}

/// Whether some cluster may still have it: then it is not gone.
pub(crate) fn holds(object: &Value) -> bool {
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
    /// Why nothing may be placed or taken away for a workspace from one placement to another, if so.
    pub(crate) fn paused(&self, workspace: &str, before: &Placement, after: &Placement) -> Option<String> {
        let moved = before.moved(after);
        if moved.is_empty() {
            return None;
        }
        let brakes = self.placements.brakes();
        let line = self.line(workspace);
        if let Some((id, brake)) = line.iter().find_map(|id| Some((id, brakes.get(id)?))) {
            return Some(self.why_paused(id, brake));
        }
        moved.into_iter().find_map(|share| {
            let name = &share.name;
            let brake = Brake::of_cluster(&self.cluster(workspace, name, &share.uid)?.cluster)?;
            Some(brake.why(&format!("cluster {name}"), &format!("atoll resume --cluster {name}")))
        })
    }

    /// Why a workspace is paused, with the command that ends it.
    pub fn why_paused(&self, workspace: &str, brake: &Brake) -> String {
        let path = self.path_of(workspace);
        brake.why(&format!("workspace {path}"), &format!("atoll resume --workspace {path}"))
    }

    /// Changes where an object shall be. `change` is asked as often as it takes.
    pub async fn place(
        &self,
        row: &Row,
        place: &Place<'_>,
        uid: Option<&str>,
        dry_run: bool,
        change: &(dyn Fn(&Value, &Placement) -> Result<Placement, Status> + Sync),
    ) -> Result<Answer, Status> {
        let transform = |existing: Option<&Value>| {
            let existing =
                existing.ok_or_else(|| Status::not_found(&row.group, &row.resource, place.name))?;
            let before = Placement::of(existing);
            let placement = change(existing, &before)?;
            let mut placed = existing.clone();
            set(&mut placed, placement.text().map(Value::String));
            if before.clusters.is_empty()
                && !placement.clusters.is_empty()
                && let Some(status) = placed.get_mut("status")
            {
                placed::forget_unplaced(status);
            }
            Ok(placed)
        };
        let update = Update {
            subresource: SUBRESOURCE,
            manager: None,
            transform: &transform,
            admission: &Unasked,
            uid,
            create_missing: false,
            dry_run,
        };
        Ok(self.update(row, place, &update).await?.0)
    }
}
