//! Manages the ControllerRevisions of a DaemonSet.

// upstream: pkg/controller/daemon/update.go

use std::collections::HashSet;
use std::sync::Arc;

use atoll_informer::{Key, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use super::Controller;
use crate::shared::views::WorkloadView;
use crate::shared::views::status::COLLISION_COUNT;
use crate::workloads::history::{self, REVISION_LABEL};

/// The current revision and the old ones.
type Revisions = (Arc<Value>, Vec<Arc<Value>>);

impl Controller {
    pub(super) async fn revisions(
        &self,
        set: &Value,
        selector: &LabelSelector,
        pods: &[Arc<Value>],
    ) -> Result<Revisions, Status> {
        let data = history::snapshot(set);
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for revision in self.history.claimed(set, selector).await? {
            let revision = self.with_hash_label(revision).await?;
            let is_current = history::same(&revision["data"], &data);
            if is_current { &mut current } else { &mut old }.push(revision);
        }
        let number = old.iter().map(|revision| history::number(revision)).max().unwrap_or(0) + 1;
        // The revisions are sorted, so the last one is the newest.
        let Some(newest) = current.pop() else {
            return Ok((self.new_revision(set, data, number).await?, old));
        };
        if !current.is_empty() {
            self.dedup_current_revisions(&newest, &current, pods).await?;
        }
        if history::number(&newest) < number {
            return Ok((self.history.renumber(&newest, number).await?, old));
        }
        Ok((newest, old))
    }

    /// Adds the hash label to a revision that lacks it.
    async fn with_hash_label(&self, revision: Arc<Value>) -> Result<Arc<Value>, Status> {
        if object::label(&revision, REVISION_LABEL).is_some() {
            return Ok(revision);
        }
        let mut changed = revision.as_ref().clone();
        object::set_label(&mut changed, REVISION_LABEL, object::name(&revision));
        self.history.update(&changed).await
    }

    /// Merges several revisions with the same template into one.
    async fn dedup_current_revisions(
        &self,
        kept: &Value,
        others: &[Arc<Value>],
        pods: &[Arc<Value>],
    ) -> Result<(), Status> {
        let hash = object::label(kept, REVISION_LABEL);
        for pod in pods.iter().filter(|pod| object::label(pod, REVISION_LABEL) != hash) {
            let patch = json!({"metadata": {"labels": {REVISION_LABEL: hash}}});
            let patched = self.api.patch(&resources::PODS, &Key::of(pod), "", &patch).await?;
            self.pods.wrote(&patched);
        }
        for other in others {
            self.history.delete(other).await?;
        }
        Ok(())
    }

    async fn new_revision(&self, set: &Value, data: Value, number: i64) -> Result<Arc<Value>, Status> {
        let collisions = WorkloadView::of(set).status().collision_count();
        let hash = history::hash(&data, collisions);
        let kind = &resources::DAEMON_SETS;
        let new = history::revision(set, kind, data, number, REVISION_LABEL, &hash);
        let key = Key::of(set);
        match self.history.create_once(&key, &new).await {
            Err(status) if status.reason() == "AlreadyExists" => {
                let existing = self.history.get(&key.sibling(object::name(&new))).await?;
                if history::same(&existing["data"], &new["data"]) {
                    return Ok(Arc::new(existing));
                }
                // The name belongs to another template. A higher collision count produces another name.
                let fresh = self.api.get(kind, &key).await?;
                let found = WorkloadView::of(&fresh).status();
                if found.collision_count() == collisions {
                    let mut counted = found.json().clone();
                    counted[COLLISION_COUNT] = (collisions.unwrap_or(0) + 1).into();
                    self.write_status(&fresh, counted).await?;
                }
                Err(status)
            }
            created => created,
        }
    }

    /// Deletes old revisions that no pod uses.
    pub(super) async fn cleanup_history(
        &self,
        set: &Value,
        pods: &[Arc<Value>],
        old: Vec<Arc<Value>>,
    ) -> Result<(), Status> {
        for revision in revisions_to_delete(set, pods, &old) {
            self.history.delete(revision).await?;
        }
        Ok(())
    }
}

/// Returns the oldest unused revisions beyond the history limit. `old` is sorted.
fn revisions_to_delete<'a>(set: &Value, pods: &[Arc<Value>], old: &'a [Arc<Value>]) -> Vec<&'a Arc<Value>> {
    let kept = WorkloadView::of(set).revision_history_limit();
    let count = old.len().saturating_sub(usize::try_from(kept).unwrap_or(0));
    let live: HashSet<&str> = pods.iter().filter_map(|pod| object::label(pod, REVISION_LABEL)).collect();
    let is_live =
        |revision: &Value| object::label(revision, REVISION_LABEL).is_some_and(|hash| live.contains(hash));
    old.iter().filter(|revision| !is_live(revision)).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_unused_revisions_are_deleted_first() {
        let revision = |number: i64| {
            let labels = json!({REVISION_LABEL: number.to_string()});
            Arc::new(json!({"metadata": {"labels": labels}, "revision": number}))
        };
        let old: Vec<_> = (1..=5).map(revision).collect();
        let pods = [Arc::new(json!({"metadata": {"labels": {REVISION_LABEL: "2"}}}))];
        let deleted = |limit: i64| {
            let set = json!({"spec": {"revisionHistoryLimit": limit}});
            revisions_to_delete(&set, &pods, &old)
                .into_iter()
                .map(|one| history::number(one))
                .collect::<Vec<_>>()
        };
        assert_eq!(deleted(5), [] as [i64; 0]);
        assert_eq!(deleted(3), [1, 3]);
        assert_eq!(deleted(0), [1, 3, 4, 5]);
    }
}
