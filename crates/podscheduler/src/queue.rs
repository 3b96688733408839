//! Scheduling queue: active Pods, Pods in backoff, and unschedulable Pods that wait for an event.
//!
//! ```text
//!   add ──► active ── pop ──► (in flight) ────────► done
//!             ▲                  │ unschedulable  │ failed
//!             │ after backoff    ▼                ▼
//!             └──────── backoff ◄─ unschedulable
//!                            event
//! ```
//!
//! Times are durations since an arbitrary start.

// upstream: pkg/scheduler/backend/queue/scheduling_queue.go
// upstream: pkg/scheduler/backend/queue/active_queue.go
// upstream: pkg/scheduler/backend/queue/backoff_queue.go
// upstream: pkg/scheduler/backend/queue/unschedulable_pods.go
// upstream: pkg/scheduler/framework/plugins/queuesort/priority_sort.go

mod events;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub use events::ClusterEvent;

use crate::node_index::PodKey;
use crate::refusal::Plugin;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// Longest time in the unschedulable queue without a helpful event
/// (`DefaultPodMaxInUnschedulablePodsDuration`).
const MAX_UNSCHEDULABLE_DURATION: Duration = Duration::from_secs(300);

/// Sort key of active Pods: priority, then time of arrival.
type Rank = (Reverse<i64>, Duration, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Active,
    /// End of the backoff, and whether the Pod may be popped earlier if the active queue is empty.
    BackingOff(Duration, bool),
    /// In the unschedulable queue since this time.
    Unschedulable(Duration),
    /// Popped: a node is being searched.
    InFlight,
}

#[derive(Debug)]
struct Entry {
    rank: Rank,
    place: QueueState,
    /// Consecutive unschedulable attempts and errors.
    refusals: u32,
    failures: u32,
    last_try: Duration,
    /// Plugins that rejected the Pod; empty if it was none in particular.
    plugins: BTreeSet<Plugin>,
}

/// The pending Pods of one cluster.
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<PodKey, Entry>,
    active: BTreeSet<(Rank, PodKey)>,
    backing_off: BTreeSet<(Duration, Rank, PodKey)>,
    waiting: BTreeSet<PodKey>,
    /// Number of unschedulable Pods by the plugin that rejected them; `None` if it was none in particular.
    refused_by: HashMap<Option<Plugin>, usize>,
    count: u64,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn contains(&self, key: &PodKey) -> bool {
        self.entries.contains_key(key)
    }

    /// Adds a Pod, or requeues it because its requirements have changed.
    pub fn add(&mut self, key: &PodKey, priority: i64, now: Duration) {
        self.count += 1;
        match self.entries.get_mut(key) {
            None => {
                let rank = (Reverse(priority), now, self.count);
                let entry = Entry {
                    rank,
                    place: QueueState::Active,
                    refusals: 0,
                    failures: 0,
                    last_try: now,
                    plugins: BTreeSet::new(),
                };
                self.entries.insert(key.clone(), entry);
                self.active.insert((rank, key.clone()));
            }
            Some(entry) if matches!(entry.place, QueueState::Unschedulable(_)) => {
                entry.rank.0 = Reverse(priority);
                self.requeue(key, now);
            }
            Some(_) => {}
        }
    }

    /// Removes a Pod that was assigned or deleted.
    pub fn remove(&mut self, key: &PodKey) {
        self.detach(key);
        self.entries.remove(key);
    }

    /// Returns the next Pod to schedule.
    pub fn pop(&mut self, now: Duration) -> Option<PodKey> {
        while let Some((until, rank, key)) = self.backing_off.first().cloned() {
            if until > now {
                break;
            }
            self.backing_off.pop_first();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = QueueState::Active;
            }
            self.active.insert((rank, key));
        }
        let key = match self.active.pop_first() {
            Some((_, key)) => key,
            // Pop Pods in backoff early if there is nothing else to do, except after an error.
            None => {
                let eager = |key: &PodKey| {
                    self.entries
                        .get(key)
                        .is_some_and(|entry| matches!(entry.place, QueueState::BackingOff(_, true)))
                };
                let candidates = self.backing_off.iter().filter(|(_, _, key)| eager(key));
                let (_, _, key) = candidates.min_by_key(|(_, rank, _)| *rank)?.clone();
                self.detach(&key);
                key
            }
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = QueueState::InFlight;
            entry.last_try = now;
        }
        Some(key)
    }

    /// Moves a Pod to the unschedulable queue; `plugins` rejected it.
    pub fn unschedulable(&mut self, key: &PodKey, plugins: BTreeSet<Plugin>, now: Duration) {
        self.detach(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.refusals += 1;
        entry.failures = 0;
        entry.rank.1 = now;
        entry.last_try = now;
        entry.plugins = plugins;
        entry.place = QueueState::Unschedulable(now);
        for plugin in rejecting_plugins(&entry.plugins) {
            *self.refused_by.entry(plugin).or_default() += 1;
        }
        self.waiting.insert(key.clone());
    }

    /// Moves a Pod to the backoff queue after an error.
    pub fn failed(&mut self, key: &PodKey, now: Duration) {
        self.detach(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.failures += 1;
        entry.rank.1 = now;
        entry.last_try = now;
        let until = now + backoff(entry.failures);
        entry.place = QueueState::BackingOff(until, false);
        self.backing_off.insert((until, entry.rank, key.clone()));
    }

    /// Requeues the unschedulable Pods that an event may help.
    pub fn requeue_on(&mut self, event: ClusterEvent, now: Duration) {
        self.requeue_on_if(event, now, |_, _| true);
    }

    /// Requeues the unschedulable Pods that an event may help and for which `concerns` is true, given the Pod
    /// and the plugin.
    pub fn requeue_on_if(
        &mut self,
        event: ClusterEvent,
        now: Duration,
        concerns: impl Fn(&PodKey, Plugin) -> bool,
    ) {
        let may_help = |plugin: Option<Plugin>| plugin.is_none_or(|plugin| event.may_help(plugin));
        // Most events help no Pod, and thousands may be unschedulable.
        if !self.refused_by.keys().any(|plugin| may_help(*plugin)) {
            return;
        }
        let helped = |key: &&PodKey| {
            let entry = self.entries.get(*key);
            let concerned = |plugin: Option<Plugin>| plugin.is_none_or(|plugin| concerns(key, plugin));
            entry.is_some_and(|entry| {
                rejecting_plugins(&entry.plugins).any(|plugin| may_help(plugin) && concerned(plugin))
            })
        };
        let keys: Vec<PodKey> = self.waiting.iter().filter(helped).cloned().collect();
        for key in keys {
            self.requeue(&key, now);
        }
    }

    /// Requeues Pods that have been unschedulable for too long, and returns when to call this again.
    pub fn next_flush(&mut self, now: Duration) -> Option<Duration> {
        let since = |entry: &Entry| match entry.place {
            QueueState::Unschedulable(since) => Some(since),
            _ => None,
        };
        let long = self.entries.iter().filter(|(_, entry)| {
            since(entry).is_some_and(|since| now.saturating_sub(since) > MAX_UNSCHEDULABLE_DURATION)
        });
        for key in long.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.requeue(&key, now);
        }
        let soonest = self.backing_off.first().map(|(until, _, _)| *until);
        let oldest = self.waiting.iter().filter_map(|key| since(self.entries.get(key)?)).min();
        let oldest = oldest.map(|since| since + MAX_UNSCHEDULABLE_DURATION + Duration::from_secs(1));
        soonest.into_iter().chain(oldest).min()
    }

    /// Moves a Pod from the unschedulable queue to the active or the backoff queue.
    fn requeue(&mut self, key: &PodKey, now: Duration) {
        self.detach(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        let until = entry.last_try + backoff(entry.refusals);
        if until > now {
            entry.place = QueueState::BackingOff(until, true);
            self.backing_off.insert((until, entry.rank, key.clone()));
        } else {
            entry.place = QueueState::Active;
            self.active.insert((entry.rank, key.clone()));
        }
    }

    fn detach(&mut self, key: &PodKey) {
        let Some(entry) = self.entries.get(key) else { return };
        match entry.place {
            QueueState::Active => drop(self.active.remove(&(entry.rank, key.clone()))),
            QueueState::BackingOff(until, _) => {
                self.backing_off.remove(&(until, entry.rank, key.clone()));
            }
            QueueState::Unschedulable(_) => {
                self.waiting.remove(key);
                for plugin in rejecting_plugins(&entry.plugins) {
                    if let Some(count) = self.refused_by.get_mut(&plugin) {
                        *count -= 1;
                        if *count == 0 {
                            self.refused_by.remove(&plugin);
                        }
                    }
                }
            }
            QueueState::InFlight => {}
        }
    }
}

/// Returns the plugins that rejected a Pod; `None` if it was none in particular.
fn rejecting_plugins(plugins: &BTreeSet<Plugin>) -> impl Iterator<Item = Option<Plugin>> {
    plugins.iter().copied().map(Some).chain(plugins.is_empty().then_some(None))
}

/// Returns the backoff: one second, doubled each time, up to ten.
fn backoff(count: u32) -> Duration {
    match count {
        0 => Duration::ZERO,
        count => FIRST_BACKOFF.saturating_mul(1 << (count - 1).min(10)).min(LAST_BACKOFF),
    }
}

#[cfg(test)]
mod tests;
