//! Pauses of a cluster, or of a workspace and its descendants.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::pause::CAUSE;
use atoll_fleet::{Pause, Placement, placed_by};
use atoll_meta::{Status, object};
use atoll_registry::Row;
use serde_json::Value;

use crate::Server;
use crate::workspace::Workspace;

/// Returns why the changes of workspaces on a cluster are paused, by workspace ID; with an empty ID for all
/// of them.
pub fn for_view(
    server: &Server,
    name: &str,
    cluster: &Value,
    home: &str,
    workspaces: impl FnOnce() -> BTreeSet<String>,
) -> BTreeMap<String, String> {
    if let Some(pause) = Pause::of_cluster(cluster) {
        return BTreeMap::from([(String::new(), cluster_pause_reason(&pause, name))]);
    }
    let pauses = server.registry.placements.pauses();
    let mut paused = BTreeMap::new();
    if pauses.is_empty() {
        return paused;
    }
    // Workspaces are looked up by their ancestors, because there may be many pauses.
    let why = |workspace: &str| {
        let mut ancestry = server.registry.ancestry(workspace).into_iter();
        ancestry.find_map(|above| Some(server.registry.pause_message(&above, pauses.get(&above)?)))
    };
    if let Some(why) = why(home) {
        return BTreeMap::from([(String::new(), why)]);
    }
    for workspace in workspaces() {
        if let Some(why) = why(&workspace) {
            paused.insert(workspace, why);
        }
    }
    paused
}

fn cluster_pause_reason(pause: &Pause, name: &str) -> String {
    pause.why(&format!("cluster {name}"), &format!("atoll resume --cluster {name}"))
}

/// Refuses a change of the placement of an object that adds or removes shares, or moves replicas between them, while that
/// is paused. The numbers of existing shares may follow those of the object.
pub fn check(
    server: &Server,
    row: &Row,
    workspace: &Workspace,
    existing: &Value,
    before: &Placement,
    after: &Placement,
) -> Result<(), Status> {
    let moved = before.moved_shares(after);
    // Numbers that are set by hand need not follow those of the object.
    let is_scheduled = placed_by::is_scheduled(&after.by) || after.by == placed_by::LABEL;
    let moved = match existing["spec"]["replicas"].as_i64() {
        Some(replicas) if moved.is_empty() && is_scheduled => before.moved_replicas(after, replicas),
        _ => moved,
    };
    if moved.is_empty() {
        return Ok(());
    }
    let why = workspace_pause_reason(server, workspace).or_else(|| {
        moved.into_iter().find_map(|share| cluster_paused(server, workspace, &share.name, &share.uid))
    });
    match why {
        None => Ok(()),
        Some(why) => Err(Status::forbidden(&row.group, &row.resource, object::name(existing), &why)
            .with_cause(CAUSE, &why, "spec.clusters")),
    }
}

/// Returns why deletions from the clusters of a placement are paused.
pub fn pause_reason(server: &Server, workspace: &Workspace, placement: &Placement) -> Option<String> {
    if placement.is_empty() {
        return None;
    }
    let of_cluster = |(name, uid)| cluster_paused(server, workspace, name, uid);
    workspace_pause_reason(server, workspace).or_else(|| placement.cluster_refs().find_map(of_cluster))
}

/// Returns why a workspace or one of its ancestors is paused.
pub fn workspace_pause_reason(server: &Server, workspace: &Workspace) -> Option<String> {
    let pauses = server.registry.placements.pauses();
    if pauses.is_empty() {
        return None;
    }
    let mut path = String::from(atoll_registry::bootstrap::ROOT);
    for (id, step) in path_steps(workspace) {
        if let Some(pause) = pauses.get(id) {
            return Some(
                pause.why(&format!("workspace {path}"), &format!("atoll resume --workspace {path}")),
            );
        }
        path.push(':');
        path.push_str(step);
    }
    None
}

/// Returns the IDs of all workspaces from root to this one, each with the name of the next.
fn path_steps(workspace: &Workspace) -> Vec<(&str, &str)> {
    let Workspace::One { id, steps, .. } = workspace else { return Vec::new() };
    let mut path: Vec<(&str, &str)> =
        steps.iter().map(|step| (step.parent.as_str(), step.name.as_str())).collect();
    path.push((id, ""));
    path
}

/// Returns why a cluster of a placement is paused.
fn cluster_paused(server: &Server, workspace: &Workspace, name: &str, uid: &str) -> Option<String> {
    let registered = server.registry.cluster(workspace.id().ok()?, name, uid)?;
    Pause::of_cluster(&registered.cluster).map(|pause| cluster_pause_reason(&pause, name))
}
