//! Filters by access: whether the cluster serves the workspace and the kind of the object.

use atoll_fleet::autoscaling;

use super::{Cause, Question};
use crate::fleet::ClusterEntry;

/// Refuses clusters that are not open to the workspace.
pub fn workspaces<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    (!entry.state.is_open_to(&question.demand.workspace_path)).then_some(Cause::WorkspaceRefused)
}

/// Refuses shared clusters for cluster-scoped objects, and for autoscalers: an autoscaler would scale workloads in the
/// cluster beyond the room that they were given.
pub fn scope<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let demand = question.demand;
    let is_autoscaler = autoscaling::is_autoscaler((&demand.object.group, &demand.object.resource));
    match question.is_shared(entry) {
        true if demand.is_cluster_scoped => Some(Cause::ClusterScoped),
        true if is_autoscaler => Some(Cause::Autoscales),
        _ => None,
    }
}

/// Refuses clusters that do not serve the resource in the version of the object, or do not let the syncer write
/// it.
pub fn apis<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let state = &entry.state;
    let resource = question.resource;
    if state.apis.as_ref().is_some_and(|apis| !apis.contains(resource)) {
        return Some(Cause::NotServed { resource });
    }
    let version = &*question.demand.version;
    let served = state.versions.get(&*question.demand.object.group);
    if served.is_some_and(|served| !version.is_empty() && !served.contains(version)) {
        return Some(Cause::VersionNotServed { resource, version });
    }
    state.missing_rights.contains(resource).then_some(Cause::RightsMissing { resource })
}

/// Refuses clusters without the classes that the object names.
pub fn classes<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let present = entry.state.classes.as_ref()?;
    let (kind, name) = question.demand.needs.classes.missing_in(present)?;
    Some(Cause::ClassMissing { kind, name })
}
