//! Manages the ControllerRevisions of a StatefulSet.

// upstream: pkg/controller/statefulset/stateful_set_control.go

use std::collections::HashSet;
use std::sync::Arc;

use atoll_informer::resources;
use atoll_meta::{Status, object};
use serde_json::Value;

use super::Controller;
use super::identity::revision as revision_of;
use crate::shared::views::WorkloadView;
use crate::workloads::history::{self, HASH_LABEL};

/// The newest revision.
#[derive(Debug, PartialEq)]
pub enum Newest {
    Unchanged(Arc<Value>),
    /// An old revision that matches again, with its new number.
    Old(Arc<Value>, i64),
    New(Value),
}

/// Returns the newest revision. `revisions` are sorted.
pub fn newest(set: &Value, revisions: &[Arc<Value>], collisions: i64) -> Newest {
    let number = revisions.last().map_or(1, |last| history::number(last) + 1);
    let data = history::snapshot(set);
    let same = |revision: &&Arc<Value>| history::same(&revision["data"], &data);
    match revisions.iter().rfind(same) {
        Some(_) if revisions.last().is_some_and(|last| same(&last)) => {
            Newest::Unchanged(revisions[revisions.len() - 1].clone())
        }
        Some(old) => Newest::Old(old.clone(), number),
        None => {
            let hash = history::hash(&data, Some(collisions));
            let new = history::revision(set, &resources::STATEFUL_SETS, data, number, HASH_LABEL, &hash);
            Newest::New(new)
        }
    }
}

/// Returns unused revisions beyond the history limit.
pub fn revisions_to_delete<'a>(
    set: &Value,
    revisions: &'a [Arc<Value>],
    live: &HashSet<&str>,
) -> impl Iterator<Item = &'a Arc<Value>> {
    let old: Vec<_> = revisions.iter().filter(|revision| !live.contains(object::name(revision))).collect();
    let kept = WorkloadView::of(set).revision_history_limit();
    // A negative limit means no limit.
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    let count = old.len().saturating_sub(kept);
    old.into_iter().take(count)
}

impl Controller {
    /// Returns the revision that pods are updated to.
    pub(super) async fn update_revision(
        &self,
        set: &Value,
        revisions: &[Arc<Value>],
        collisions: &mut i64,
    ) -> Result<Arc<Value>, Status> {
        match newest(set, revisions, *collisions) {
            Newest::Unchanged(revision) => Ok(revision),
            Newest::Old(revision, number) => self.history.renumber(&revision, number).await,
            Newest::New(revision) => self.history.create(set, revision, collisions).await,
        }
    }

    /// Deletes old revisions.
    pub(super) async fn truncate(
        &self,
        set: &Value,
        pods: &[Arc<Value>],
        revisions: &[Arc<Value>],
        current: &Value,
        update: &Value,
    ) -> Result<(), Status> {
        let mut live: HashSet<&str> = pods.iter().map(|pod| revision_of(pod)).collect();
        live.extend([object::name(current), object::name(update)]);
        for revision in revisions_to_delete(set, revisions, &live) {
            self.history.delete(revision).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
