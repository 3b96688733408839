//! Decides which pods of an unfinished Job to create and to delete.

// upstream: pkg/controller/job/job_controller.go

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::backoff::{self, Failures};
use super::indexes::Indexes;
use super::new_pods::{failures_before, index, new_indexed_pod, new_pod};
use super::reconcile::{SyncContext, valid_index};
use crate::shared::pods::{RelatedPods, is_terminating, sort_for_deletion};

/// Maximum number of pods created or deleted in one sync.
const MAX_PODS_PER_SYNC: usize = 500;

/// Action for the pods of a Job.
#[derive(Debug, PartialEq)]
pub enum Manage {
    Nothing,
    /// No pod may be created before this delay.
    Wait(Duration),
    /// Delete these pods without counting them.
    Delete(Vec<Arc<Value>>),
    Create(Vec<Value>),
}

impl SyncContext<'_> {
    /// Returns the action for an unfinished Job.
    pub fn manage(&self) -> Manage {
        let (view, active) = (self.view(), self.active.len() as i64);
        if view.is_suspended() {
            return deletion(self.to_remove(active));
        }
        let parallelism = view.parallelism();
        let wanted = match view.completions() {
            Some(completions) => (completions - self.succeeded).min(parallelism).max(0),
            // Without completions, no pods are created after the first success, and running ones continue.
            None if self.succeeded > 0 => active,
            None => parallelism,
        };
        let mut surplus = self.to_remove((active - wanted).max(0));
        if !surplus.is_empty() {
            surplus.truncate(MAX_PODS_PER_SYNC);
            return deletion(surplus);
        }
        let ending = if view.replaces_only_failed() { self.terminating } else { 0 };
        let missing = usize::try_from(wanted - ending - active).unwrap_or(0).min(MAX_PODS_PER_SYNC);
        if missing == 0 {
            return Manage::Nothing;
        }
        self.creation(missing)
    }

    fn creation(&self, missing: usize) -> Manage {
        let per_index = self.view().backoff_limit_per_index().is_some();
        if !per_index {
            let wait = self.failures.remaining(self.now);
            if !wait.is_zero() {
                return Manage::Wait(wait);
            }
        }
        if !self.view().is_indexed() {
            return Manage::Create(vec![new_pod(self.job); missing]);
        }
        let mut pending = self.pending_indexes(missing);
        if per_index && self.view().is_indexed() {
            let wait = |index: &i64| {
                self.delayed.get(index).map_or(Duration::ZERO, |pod| {
                    let (counted, ignored) = failures_before(pod);
                    let last = Some(backoff::finished(pod));
                    Failures { count: counted + ignored + 1, last }.remaining(self.now)
                })
            };
            let soonest = pending.iter().map(wait).min();
            pending.retain(|index| wait(index).is_zero());
            if let (true, Some(soonest)) = (pending.is_empty(), soonest) {
                return Manage::Wait(soonest);
            }
        }
        let made = pending
            .into_iter()
            .map(|index| new_indexed_pod(self.job, index, self.delayed.get(&index).map(AsRef::as_ref)));
        Manage::Create(made.collect())
    }

    fn pending_indexes(&self, count: usize) -> Vec<i64> {
        let of = |pods: &mut dyn Iterator<Item = &Arc<Value>>| Indexes::of(pods.filter_map(|pod| index(pod)));
        let mut taken = self.succeeded_indexes.and(&of(&mut self.active.iter()));
        if self.view().replaces_only_failed() {
            taken = taken.and(&of(&mut self.pods.iter().filter(|pod| is_terminating(pod))));
        }
        if let Some(failed) = &self.failed_indexes {
            taken = taken.and(failed);
        }
        taken.first_missing(count, self.view().completions().unwrap_or(0))
    }

    /// Returns at least `count` active pods to delete, including those with an invalid or duplicate index.
    fn to_remove(&self, count: i64) -> Vec<Arc<Value>> {
        let (mut removed, mut left) = (Vec::new(), self.active.clone());
        let none = RelatedPods::of([]);
        if self.view().is_indexed() {
            let mut by_index: BTreeMap<i64, Vec<Arc<Value>>> = BTreeMap::new();
            for pod in left.drain(..) {
                match valid_index(self.job, &pod) {
                    Some(index) => by_index.entry(index).or_default().push(pod),
                    None => removed.push(pod),
                }
            }
            for mut same in by_index.into_values() {
                sort_for_deletion(&mut same, &none, self.now);
                left.extend(same.pop());
                removed.extend(same);
            }
        }
        let more = usize::try_from(count).unwrap_or(0).saturating_sub(removed.len());
        if more > 0 {
            sort_for_deletion(&mut left, &none, self.now);
            removed.extend(left.into_iter().take(more));
        }
        removed
    }
}

fn deletion(pods: Vec<Arc<Value>>) -> Manage {
    if pods.is_empty() { Manage::Nothing } else { Manage::Delete(pods) }
}
