//! Filters by what the cluster offers to the workspace and to the object.

use super::{Cause, Question};
use crate::cluster::resource_name;
use crate::fleet::ClusterEntry;

/// Open to the workspace.
pub fn workspaces<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let allowed = entry.state.workspaces.as_ref()?;
    let path = question.demand.workspace_path.strip_prefix(&*entry.state.workspace).unwrap_or_default();
    let path = path.strip_prefix(':').unwrap_or(path);
    let covers = |allowed: &String| {
        path.strip_prefix(allowed.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    (!path.is_empty() && !allowed.iter().any(covers)).then_some(Cause::WorkspaceRefused)
}

/// Serves the resource, and lets the syncer write it.
pub fn apis<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let state = &entry.state;
    if state.apis.is_none() && state.missing_rights.is_empty() {
        return None;
    }
    let name = resource_name(&question.demand.object.group, &question.demand.object.resource);
    if state.apis.as_ref().is_some_and(|apis| !apis.contains(&name)) {
        return Some(Cause::NotServed { resource: name });
    }
    state.missing_rights.contains(&name).then_some(Cause::RightsMissing { resource: name })
}

/// Has the classes that the object names.
pub fn classes<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let present = entry.state.classes.as_ref()?;
    let (kind, name) = question.demand.needs.classes.missing_in(present)?;
    Some(Cause::ClassMissing { kind, name })
}
