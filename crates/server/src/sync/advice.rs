//! What somebody who writes objects is warned of: that nothing will run yet, or nothing be deleted yet.

use atoll_fleet::placed;
use atoll_fleet::{Placement, labels};
use atoll_meta::object;
use atoll_registry::dialect::kcp;
use atoll_registry::placement::is_placeable;
use atoll_registry::{Place, Row};
use serde_json::Value;

use super::brakes;
use crate::Server;
use crate::workspace::Workspace;

/// How an object says that its pods are made here.
const GRAIN: &str = "atoll.dev/grain";
const NOWHERE: &str = "it is placed on no cluster, so nothing runs yet";

/// Whether the pods of a workload are made here, and not where it is placed.
pub fn makes_pods_here(workload: &Value) -> bool {
    object::annotation(workload, GRAIN) == Some("pod")
}

/// That a new workload runs nowhere until it is placed, where there are clusters to place it on.
pub fn unplaced(server: &Server, row: &Row, place: &Place<'_>, new: &Value) -> Option<String> {
    let is_workload = placed::is_workload((&row.group, &row.resource));
    if !is_workload || makes_pods_here(new) || !Placement::of(new).is_empty() {
        return None;
    }
    let registry = &server.registry;
    let advice =
        || registry.choice(row, place.workspace, new).advice(&row.kind, place.namespace, object::name(new));
    let named = match labels::naming(new).first() {
        None => return Some(format!("{NOWHERE}; {}", advice()?)),
        Some((label, _)) if !registry.speaks(place.workspace, kcp::NAME) => {
            let enable = format!("atoll dialect enable {}", kcp::NAME);
            return Some(format!("{NOWHERE}; its label {label} does nothing here ({enable}); {}", advice()?));
        }
        Some(_) => registry.named_by_labels(row, place.workspace, new),
    };
    // What a label names is placed there without anything else being done.
    let is_taken = named.iter().any(|one| matches!(one.outcome, Some(Ok(_))));
    let refused = named.iter().filter_map(|one| match &one.outcome {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(format!("its label {} is not followed: {why}", one.label)),
        None => {
            Some(format!("its label {} names the cluster {:?}, which is not there", one.label, one.cluster))
        }
    });
    let refused: Vec<String> = refused.collect();
    match (is_taken, refused.is_empty()) {
        (true, true) => None,
        (true, false) => Some(refused.join("; ")),
        (false, _) => Some(format!("{NOWHERE}; {}", refused.join("; "))),
    }
}

/// That clusters do not let go of what is deleted, for that is paused.
pub fn paused(server: &Server, workspace: &Workspace, old: &Value) -> Option<String> {
    let placement = Placement::of(old);
    let why = brakes::why(server, workspace, &placement)?;
    Some(format!("it stays until clusters have let go of it, and {why}"))
}

/// That a placement is not written this way.
pub fn ignored(server: &Server, row: &Row, place: &Place<'_>, new: &Value) -> String {
    let what = format!("metadata.annotations[{}] is ignored", atoll_fleet::marks::PLACEMENT);
    let choice = is_placeable(row).then(|| server.registry.choice(row, place.workspace, new));
    match choice.and_then(|choice| choice.advice(&row.kind, place.namespace, object::name(new))) {
        Some(advice) => format!("{what}; {advice}"),
        None => what,
    }
}
