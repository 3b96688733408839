//! The desired state of all placed objects, and their last observed state in the cluster.

mod entry;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::memory_limits::{Budget, Charge};
use atoll_fleet::view::{ObjectTarget, PodCounts, Record, ServiceEndpoints, State, SyncResource};
use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;
use tokio::time::Instant;

use entry::TableEntry;

use crate::objects::digest;
use crate::objects::mark::Mark;
use crate::objects::reconcile::{Action, Desired, ObservedObject, action, record};
use crate::reporting::inventory::PlacedWorkload;
use crate::settings::Drift;

pub use entry::SHORTEST;

/// Longest pause between corrections of the same object.
const LAST_CORRECTION: Duration = Duration::from_secs(60);
/// Time without a correction after which the pauses start again.
const CORRECTION_RESET: Duration = Duration::from_secs(600);

/// Returns the key of an object above: with its resource, and without its uid.
pub fn key(target: &ObjectTarget) -> Key {
    key_of(&target.resource, &target.workspace, &target.namespace, &target.name)
}

pub fn key_of(resource: &SyncResource, workspace: &str, namespace: &str, name: &str) -> Key {
    Key::new(workspace, namespace, &format!("{}.{}/{name}", resource.resource, resource.group))
}

/// Work on one object.
#[derive(Clone)]
pub struct Task {
    pub target: Arc<ObjectTarget>,
    pub desired: Desired,
    pub seen: Option<ObservedObject>,
    /// Revision above at which the removal was requested, if it was.
    pub since: u64,
    pub keep: String,
}

/// Consequence of an observation.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The object must be reported.
    Report,
    /// The object must be reported and reconciled.
    Reconcile,
}

#[derive(Default)]
pub struct Table {
    state: Mutex<TableState>,
}

#[derive(Default)]
struct TableState {
    /// Sorted, so that the order is reproducible.
    entries: BTreeMap<Key, TableEntry>,
    round: u64,
    /// Budget for the observed state.
    budget: Option<Arc<Budget>>,
}

impl Table {
    pub fn new(budget: Option<Arc<Budget>>) -> Table {
        Table { state: Mutex::new(TableState { budget, ..TableState::default() }) }
    }

    /// Starts a round: the view is about to be sent again.
    pub fn begin_round(&self) {
        self.state().round += 1;
    }

    /// Ends a round: forgets all objects that were not in it, without touching them in the cluster. Returns
    /// the remaining keys.
    pub fn end_round(&self) -> Vec<Key> {
        let mut state = self.state();
        let round = state.round;
        state.entries.retain(|_, entry| entry.round == round);
        state.entries.keys().cloned().collect()
    }

    pub fn set_desired(&self, target: ObjectTarget, desired: Desired) -> Key {
        let key = key(&target);
        let mut state = self.state();
        let round = state.round;
        let charge = Charge::new(state.budget.clone());
        match state.entries.get_mut(&key) {
            Some(entry) => {
                if *entry.target != target {
                    // A new object with the same name: the observed state belongs to the old one.
                    if entry.target.uid != target.uid {
                        entry.seen = None;
                    }
                    entry.target = Arc::new(target);
                    entry.last_reported = None;
                }
                if entry.desired != desired {
                    let is_corrected = |desired: &Desired| desired.drift(Drift::Correct) == Drift::Correct;
                    // Drift that was only reported must be corrected now.
                    if let Some(seen) = entry.seen.as_mut()
                        && !is_corrected(&entry.desired)
                        && is_corrected(&desired)
                    {
                        seen.drifted = true;
                    }
                    entry.desired = desired;
                    entry.set_failure(None);
                }
                // The control plane may have lost the last report; report again.
                if entry.round != round {
                    entry.last_reported = None;
                }
                entry.round = round;
            }
            None => {
                let target = Arc::new(target);
                let entry = TableEntry {
                    target,
                    desired,
                    seen: None,
                    keep: String::new(),
                    failure: None,
                    last_reported: None,
                    round,
                    corrections: (0, None),
                    corrected: 0,
                    since: 0,
                    charge,
                };
                state.entries.insert(key.clone(), entry);
            }
        }
        key
    }

    /// Sets the revision above at which the removal was requested.
    pub fn set_removed_since(&self, key: &Key, since: u64) {
        if let Some(entry) = self.state().entries.get_mut(key) {
            entry.since = since;
        }
    }

    pub fn forget(&self, target: &ObjectTarget) {
        let mut state = self.state();
        let key = key(target);
        if state.entries.get(&key).is_some_and(|entry| entry.target.uid == target.uid) {
            state.entries.remove(&key);
        }
    }

    /// Whether another object in the namespace exists below or is desired.
    pub fn has_others_in_namespace(&self, key: &Key, target: &ObjectTarget) -> bool {
        let is_in = |entry: &TableEntry| {
            entry.target.workspace == target.workspace && entry.target.namespace == target.namespace
        };
        let is_there = |entry: &TableEntry| entry.seen.is_some() || entry.desired != Desired::Absent;
        self.state().entries.iter().any(|(other, entry)| other != key && is_in(entry) && is_there(entry))
    }

    /// Whether the table has any object of a namespace above.
    pub fn has_namespace(&self, workspace: &str, namespace: &str) -> bool {
        let is_in =
            |entry: &TableEntry| entry.target.workspace == workspace && entry.target.namespace == namespace;
        self.state().entries.values().any(is_in)
    }

    pub fn task(&self, key: &Key) -> Option<Task> {
        let state = self.state();
        let entry = state.entries.get(key)?;
        Some(Task {
            target: entry.target.clone(),
            desired: entry.desired.clone(),
            seen: entry.seen.clone(),
            since: entry.since,
            keep: entry.keep.clone(),
        })
    }

    /// Returns the keys of objects that need work.
    pub fn pending_keys(&self, drift: Drift) -> Vec<Key> {
        let state = self.state();
        let todo = |entry: &TableEntry| {
            action(&entry.target.resource, &entry.desired, entry.seen.as_ref(), drift) != Action::None
        };
        state.entries.iter().filter(|(_, entry)| todo(entry)).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the resources of all objects.
    pub fn resources(&self) -> BTreeSet<SyncResource> {
        self.state().entries.values().map(|entry| entry.target.resource.clone()).collect()
    }

    /// Records an object that was observed in the cluster with a mark for `key`.
    pub fn observe(&self, key: &Key, control_plane: &str, found: &Value) -> Effect {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key) else { return Effect::None };
        let mark = Mark::of(found);
        if mark.is_released {
            // A released object must be left alone.
            let was_managed = entry.seen.take().is_some();
            return if was_managed { Effect::Reconcile } else { Effect::None };
        }
        if !mark.is_of(control_plane, &entry.target) {
            // The object has lost a mark, which is restored like any other drift.
            return match entry.seen.as_mut().filter(|seen| seen.uid == object::uid(found) && !seen.drifted) {
                Some(seen) => {
                    seen.drifted = true;
                    Effect::Reconcile
                }
                None => Effect::None,
            };
        }
        let now = ObservedObject::of(found);
        let before = entry.seen.as_ref();
        if before.is_some_and(|before| before.uid == now.uid && before.revision() >= now.revision()) {
            return Effect::None;
        }
        let same = before.filter(|before| before.uid == now.uid);
        let now = now.after(same, &entry.desired, found);
        let is_new_drift = now.drifted && before.is_none_or(|before| !before.drifted);
        // A write may take effect long after it was sent.
        let is_news = before.is_none_or(|before| before.uid != now.uid || before.applied != now.applied);
        // Drift that is only reported is reported again whenever it may have changed.
        let is_reported = now.drifted && entry.desired.drift(Drift::Correct) == Drift::Report;
        let has_changed_drift = is_reported && same.is_some_and(|same| now.differs(same));
        // The object exists now, so the reported failure is obsolete.
        let is_recovered = before.is_none() && entry.failure.is_some();
        let is_work =
            is_new_drift || has_changed_drift || is_recovered || is_news && !entry.desired.is_applied(&now);
        entry.keep.clone_from(&now.keep);
        entry.set_observed(now);
        if is_work { Effect::Reconcile } else { Effect::Report }
    }

    /// Records the response to a write.
    pub fn record_write(&self, key: &Key, answer: &Value) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key) else { return };
        if Mark::of(answer).is_released {
            entry.seen = None;
            return;
        }
        let now = ObservedObject::of(answer);
        let is_older = |seen: &ObservedObject| seen.uid == now.uid && seen.revision() > now.revision();
        // A newer observation may contain changes by other writers.
        if !entry.seen.as_ref().is_some_and(is_older) {
            entry.set_observed(now);
        }
    }

    /// Records that drift was left as it is.
    pub fn set_drifted(&self, key: &Key, uid: &str) {
        let mut state = self.state();
        if let Some(seen) = state.entries.get_mut(key).and_then(|entry| entry.seen.as_mut())
            && seen.uid == uid
        {
            seen.drifted = true;
        }
    }

    /// Records that the object with this uid below was deleted.
    pub fn record_deleted(&self, key: &Key, uid: &str) -> bool {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key) else { return false };
        let was_it = entry.seen.as_ref().is_none_or(|seen| seen.uid == uid);
        if was_it {
            entry.seen = None;
        }
        was_it
    }

    /// Records a complete list of uids at a revision. Returns all keys of the resource, and whether an object
    /// is missing.
    pub fn retain(
        &self,
        resource: &SyncResource,
        present: &HashSet<String>,
        revision: u64,
    ) -> (Vec<Key>, bool) {
        let mut state = self.state();
        let (mut keys, mut is_missing) = (Vec::new(), false);
        for (key, entry) in &mut state.entries {
            if entry.target.resource != *resource {
                continue;
            }
            if let Some(seen) = &entry.seen {
                let is_later = seen.revision() > revision;
                if !is_later && !present.contains(&seen.uid) {
                    entry.seen = None;
                    is_missing = true;
                } else if is_later {
                    // Written after the list, or the cluster was restored to an earlier state: read it again.
                    entry.seen = None;
                }
            }
            keys.push(key.clone());
        }
        (keys, is_missing)
    }

    pub fn set_failure(&self, key: &Key, failure: Option<(State, String)>) {
        if let Some(entry) = self.state().entries.get_mut(key) {
            entry.set_failure(failure);
        }
    }

    /// Returns the record to report, if it has changed since the last report.
    /// `pods` returns the Pods of a workload by its uid below, `endpoints` those of a Service.
    pub fn changed_record(
        &self,
        key: &Key,
        pods: &dyn Fn(&str) -> Option<PodCounts>,
        endpoints: &dyn Fn(&str) -> Option<ServiceEndpoints>,
    ) -> Option<Record> {
        let mut state = self.state();
        let entry = state.entries.get_mut(key)?;
        if entry.seen.is_none() && entry.failure.is_none() {
            return None;
        }
        let mut record = record(&entry.target, &entry.desired, entry.seen.as_ref(), entry.failure.as_ref());
        record.pods = entry.workload_uid().and_then(pods);
        record.endpoints = entry.service_uid().and_then(endpoints);
        let last_reported = digest::of(&[&serde_json::to_vec(&record).unwrap_or_default()]);
        if entry.last_reported.replace(last_reported) == Some(last_reported) {
            return None;
        }
        Some(record)
    }

    /// Returns the placed workloads that exist in the cluster.
    pub fn workloads(&self) -> Vec<PlacedWorkload> {
        let state = self.state();
        let workloads = state.entries.values().filter_map(|entry| {
            let uid_below = entry.workload_uid()?.to_string();
            Some(PlacedWorkload { uid_above: entry.target.uid.clone(), uid_below })
        });
        workloads.collect()
    }

    /// Returns how long to wait before drift is corrected, so that two writers do not fight at full speed.
    pub fn correction_delay(&self, key: &Key) -> Duration {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key) else { return Duration::ZERO };
        let (count, last) = entry.corrections;
        let now = Instant::now();
        let quiet = last.map(|last| now.saturating_duration_since(last));
        if quiet.is_none_or(|quiet| quiet > CORRECTION_RESET) {
            entry.corrections = (1, Some(now));
            return Duration::ZERO;
        }
        let pause = Duration::from_millis(500).saturating_mul(1 << count.min(10)).min(LAST_CORRECTION);
        let rest = pause.saturating_sub(quiet.unwrap_or_default());
        if rest.is_zero() {
            entry.corrections = (count + 1, Some(now));
        }
        rest
    }

    /// Counts a correction of drift.
    pub fn count_correction(&self, key: &Key) -> u32 {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key) else { return 1 };
        entry.corrected += 1;
        entry.corrected
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
