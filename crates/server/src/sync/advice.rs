//! What somebody who writes objects is warned of: that nothing will run yet, or nothing be deleted yet.

use atoll_fleet::placed;
use atoll_fleet::{Placement, labels};
use atoll_meta::object;
use atoll_registry::catalog::ATOLL;
use atoll_registry::{Place, Row};
use atoll_watch::Scope;
use serde_json::Value;

use super::brakes;
use crate::Server;
use crate::workspace::Workspace;

/// How an object says that its pods are made here.
const GRAIN: &str = "atoll.dev/grain";

/// That a new workload runs nowhere until it is placed, where there are clusters to place it on.
pub fn unplaced(server: &Server, row: &Row, place: &Place<'_>, new: &Value) -> Option<String> {
    let is_workload = placed::is_workload((&row.group, &row.resource));
    if !is_workload || object::annotation(new, GRAIN) == Some("pod") || !Placement::of(new).is_empty() {
        return None;
    }
    let names = clusters(server, place.workspace);
    let first = names.first()?;
    // What a label names is placed there without anybody doing anything.
    if labels::naming(new).iter().any(|(_, name)| names.iter().any(|known| known == name)) {
        return None;
    }
    let command = placed::command(&row.kind, place.namespace, object::name(new), first);
    Some(format!("it is placed on no cluster, so nothing runs yet; place it with: {command}"))
}

/// That clusters do not let go of what is deleted, for that is paused.
pub fn paused(server: &Server, workspace: &Workspace, old: &Value) -> Option<String> {
    let placement = Placement::of(old);
    let why = brakes::why(server, workspace, &placement)?;
    Some(format!("it stays until clusters have let go of it, and {why}"))
}

/// The names of all clusters that serve a workspace, the nearest first.
fn clusters(server: &Server, workspace: &str) -> Vec<String> {
    let registry = &server.registry;
    let snapshot = registry.snapshot();
    let mut names = Vec::new();
    for workspace in registry.line(workspace) {
        let scope = Scope::new(ATOLL, "clusters", Some(&workspace), Some(""));
        names.extend(snapshot.list(&scope, None).map(|cluster| cluster.name().to_string()));
    }
    names
}

/// That a placement is not written this way.
pub fn ignored(server: &Server, row: &Row, place: &Place<'_>, name: &str) -> String {
    let names = clusters(server, place.workspace);
    let cluster = names.first().map_or("CLUSTER", String::as_str);
    let command = placed::command(&row.kind, place.namespace, name, cluster);
    format!("metadata.annotations[{}] is ignored; place it with: {command}", atoll_fleet::marks::PLACEMENT)
}
