//! Work queue: each key at most once at a time, round-robin over workspaces, which have a share of the workers each,
//! exponential backoff.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_meta::Status;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::Key;

const FIRST_DELAY: Duration = Duration::from_millis(20);
const LAST_DELAY: Duration = Duration::from_secs(30);
/// Delays for keys that did not fail, but are not finished either.
const FIRST_RECHECK: Duration = Duration::from_millis(100);
const LAST_RECHECK: Duration = Duration::from_secs(10);
/// Attempts for a key in an unknown workspace before it is dropped; they take five minutes.
const UNKNOWN_WORKSPACE_ATTEMPTS: u32 = 20;

/// Outcome of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Finished until the key is added again.
    Done,
    /// Process the key again after this delay, or earlier if it is added.
    After(Duration),
    /// Not finished: process the key again with increasing delays, or at once if it is added.
    Again,
}

/// Outcome of a key in a batch.
pub enum BatchOutcome {
    Finished(Result<Next, Status>),
    /// The rest of the work on the key.
    Working(Pin<Box<dyn Future<Output = Result<Next, Status>> + Send>>),
}

/// Limits of batches.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    /// Most keys of a batch.
    pub batch: usize,
    /// Most keys that are processed at once, with those of earlier batches.
    pub at_once: usize,
    /// The same for one workspace, whose work may be slow.
    pub per_workspace: usize,
}

/// The part of a batch for which there must be places before it begins.
const LEAST_BATCH_PART: usize = 16;

/// Adds a free place, if there is one.
fn grow(free: &mut OwnedSemaphorePermit, places: &Arc<Semaphore>) -> bool {
    places.clone().try_acquire_owned().map(|place| free.merge(place)).is_ok()
}

/// A work queue. Clones share the same queue.
#[derive(Clone, Default)]
pub struct Queue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<QueueState>,
    /// Notified when a key was added.
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    /// Keys that are ready, by workspace.
    ready: HashMap<Arc<str>, VecDeque<Key>>,
    /// Workspaces with ready keys, in round-robin order.
    turns: VecDeque<Arc<str>>,
    waiting: HashSet<Key>,
    running: HashSet<Key>,
    /// Number of running keys of each workspace.
    running_in: HashMap<Arc<str>, usize>,
    /// Keys that were added while they were being processed.
    again: HashSet<Key>,
    failures: HashMap<Key, u32>,
    /// Number of rechecks since a key was last added.
    rechecks: HashMap<Key, u32>,
    later: BTreeMap<(Instant, Key), ()>,
    due: HashMap<Key, Instant>,
}

/// The longest delay. After it, a key is processed although it is not due, which does no harm.
const MAX_DELAY: Duration = Duration::from_secs(365 * 86_400);

/// Returns the time after a delay, which may be any number of seconds that a user has written.
fn after(delay: Duration) -> Instant {
    Instant::now() + delay.min(MAX_DELAY)
}

impl Queue {
    pub fn new() -> Queue {
        Queue::default()
    }

    /// Adds a key. Adding a waiting key has no effect; a key that is being processed is processed once more
    /// afterwards.
    pub fn add(&self, key: Key) {
        let mut state = self.state();
        // Something has changed, so further changes may follow soon: restart the recheck delays.
        state.rechecks.remove(&key);
        state.add(key);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Adds a key after a delay.
    pub fn add_after(&self, key: Key, delay: Duration) {
        self.state().add_at(key, after(delay));
        self.shared.changed.notify_one();
    }

    /// Takes all keys at once in the order in which they would be processed, also those that were added with a
    /// delay.
    pub fn drain(&self) -> Vec<Key> {
        let mut state = self.state();
        while let Some(((_, key), ())) = state.later.pop_first() {
            state.due.remove(&key);
            state.add(key);
        }
        let keys: Vec<Key> = std::iter::from_fn(|| state.take(usize::MAX)).collect();
        keys.iter().for_each(|key| state.end(key));
        keys
    }

    /// Processes keys, up to `at_once` concurrently, for as long as it is polled. Failed keys are retried;
    /// `what` names the work in the log.
    pub async fn work<W, F>(&self, what: &'static str, at_once: usize, work: W)
    where
        W: Fn(Key) -> F,
        F: Future<Output = Result<Next, Status>> + Send + 'static,
    {
        self.work_with_share(what, at_once, share_of(at_once), work).await;
    }

    /// The same with at most `per_workspace` keys of one workspace at once.
    pub async fn work_with_share<W, F>(
        &self,
        what: &'static str,
        at_once: usize,
        per_workspace: usize,
        work: W,
    ) where
        W: Fn(Key) -> F,
        F: Future<Output = Result<Next, Status>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(at_once));
        loop {
            // The semaphore is never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let key = self.next(per_workspace).await;
            let (queue, working) = (self.clone(), work(key.clone()));
            tokio::spawn(async move {
                // A panic counts as a failure.
                let outcome = tokio::spawn(working).await.map_err(|error| error.to_string());
                drop(place);
                queue.finish(key, outcome, what);
            });
        }
    }

    /// Processes keys in batches, one batch after the other, for as long as it is polled. A batch contains the
    /// keys that are ready, at most `size.batch`, with workspaces taking turns; those without an outcome are
    /// finished. The remaining work on its keys goes on while further batches are processed.
    pub async fn work_in_batches<W, F>(&self, what: &'static str, size: BatchSize, work: W)
    where
        W: Fn(Vec<Key>) -> F,
        F: Future<Output = Vec<(Key, BatchOutcome)>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(size.at_once));
        loop {
            // Wait for more than one place, so that batches stay large while many keys are ready.
            let least = u32::try_from(size.batch.div_ceil(LEAST_BATCH_PART)).unwrap_or(1).max(1);
            let Ok(mut free) = places.clone().acquire_many_owned(least).await else { return };
            let mut keys = vec![self.next(size.per_workspace).await];
            {
                let mut state = self.state();
                while keys.len() < size.batch
                    && (keys.len() < free.num_permits() || grow(&mut free, &places))
                    && let Some(key) = state.take(size.per_workspace)
                {
                    keys.push(key);
                }
            }
            // A panic counts as a failure of all of them.
            let outcomes = tokio::spawn(work(keys.clone())).await.map_err(|error| error.to_string());
            let mut outcomes: Result<HashMap<Key, BatchOutcome>, String> =
                outcomes.map(|outcomes| outcomes.into_iter().collect());
            for key in keys {
                let outcome = match &mut outcomes {
                    Ok(outcomes) => Ok(outcomes.remove(&key)),
                    Err(error) => Err(error.clone()),
                };
                match outcome {
                    Ok(None) => self.finish(key, Ok(Ok(Next::Done)), what),
                    Ok(Some(BatchOutcome::Finished(outcome))) => self.finish(key, Ok(outcome), what),
                    Ok(Some(BatchOutcome::Working(working))) => {
                        let (queue, place) = (self.clone(), free.split(1));
                        tokio::spawn(async move {
                            let outcome = tokio::spawn(working).await.map_err(|error| error.to_string());
                            drop(place);
                            queue.finish(key, outcome, what);
                        });
                    }
                    Err(error) => self.finish(key, Err(error), what),
                }
            }
        }
    }

    async fn next(&self, share: usize) -> Key {
        loop {
            let due = {
                let mut state = self.state();
                let due = state.add_due(Instant::now());
                if let Some(key) = state.take(share) {
                    return key;
                }
                due
            };
            let changed = self.shared.changed.notified();
            match due {
                Some(due) => {
                    tokio::select! { biased; () = changed => {} () = tokio::time::sleep_until(due) => {} }
                }
                None => changed.await,
            }
        }
    }

    fn finish(&self, key: Key, outcome: Result<Result<Next, Status>, String>, what: &'static str) {
        let mut state = self.state();
        state.end(&key);
        if !matches!(outcome, Ok(Ok(Next::Again))) {
            state.rechecks.remove(&key);
        }
        let failed = match outcome {
            Ok(Ok(Next::Done)) => false,
            Ok(Ok(Next::After(delay))) => {
                state.add_at(key.clone(), after(delay));
                false
            }
            Ok(Ok(Next::Again)) => {
                let delay = state.recheck_delay(&key);
                state.add_at(key.clone(), after(delay));
                false
            }
            // A workspace that stays unknown was deleted; drop the key.
            Ok(Err(status))
                if status.has_cause(crate::api_scope::UNKNOWN)
                    && state
                        .failures
                        .get(&key)
                        .is_some_and(|failures| *failures >= UNKNOWN_WORKSPACE_ATTEMPTS) =>
            {
                false
            }
            // Write conflicts and new workspaces are normal, so they are not logged as warnings.
            Ok(Err(status)) if is_transient(&status) => {
                tracing::debug!(%status, %key, "{what}: trying again");
                true
            }
            Ok(Err(status)) => {
                tracing::warn!(%status, %key, "{what}: trying again");
                true
            }
            Err(error) => {
                tracing::error!(%error, %key, "{what}: panicked; trying again");
                true
            }
        };
        match failed {
            false => drop(state.failures.remove(&key)),
            true => {
                let failures = state.failures.entry(key.clone()).or_default();
                let delay = FIRST_DELAY.saturating_mul(1 << (*failures).min(16)).min(LAST_DELAY);
                *failures += 1;
                state.add_at(key.clone(), after(delay));
            }
        }
        if state.again.remove(&key) {
            state.add(key);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn add(&mut self, key: Key) {
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&(due, key.clone()));
        }
        if self.running.contains(&key) {
            self.again.insert(key);
            return;
        }
        if !self.waiting.insert(key.clone()) {
            return;
        }
        let keys = self.ready.entry(key.workspace.clone()).or_default();
        if keys.is_empty() {
            self.turns.push_back(key.workspace.clone());
        }
        keys.push_back(key);
    }

    /// Returns the delay until an unfinished key is processed again.
    fn recheck_delay(&mut self, key: &Key) -> Duration {
        // A key that was added while it was processed is processed again at once, and its delays restart.
        if self.again.contains(key) {
            return FIRST_RECHECK;
        }
        let rechecks = self.rechecks.entry(key.clone()).or_default();
        let delay = FIRST_RECHECK.saturating_mul(1 << (*rechecks).min(16)).min(LAST_RECHECK);
        *rechecks += 1;
        delay
    }

    /// Schedules a key. The earlier of two times wins.
    fn add_at(&mut self, key: Key, due: Instant) {
        if self.waiting.contains(&key) || self.due.get(&key).is_some_and(|known| *known <= due) {
            return;
        }
        if let Some(known) = self.due.insert(key.clone(), due) {
            self.later.remove(&(known, key.clone()));
        }
        self.later.insert((due, key), ());
    }

    /// Adds all keys that are due, and returns when the next one will be.
    fn add_due(&mut self, now: Instant) -> Option<Instant> {
        while let Some(((due, key), ())) = self.later.pop_first() {
            if due > now {
                self.later.insert((due, key), ());
                return Some(due);
            }
            self.due.remove(&key);
            self.add(key);
        }
        None
    }

    /// Takes the first key of the next workspace that does not have its share of the workers. The work of a workspace
    /// may be slow, so it never occupies all of them, even if no other workspace waits yet.
    fn take(&mut self, share: usize) -> Option<Key> {
        let has_room = |workspace: &Arc<str>| {
            is_unlimited(workspace) || self.running_in.get(workspace).is_none_or(|running| *running < share)
        };
        let position = self.turns.iter().position(has_room)?;
        let workspace = self.turns.remove(position)?;
        let keys = self.ready.get_mut(&workspace)?;
        let key = keys.pop_front()?;
        match keys.is_empty() {
            true => drop(self.ready.remove(&workspace)),
            false => self.turns.push_back(workspace),
        }
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        *self.running_in.entry(key.workspace.clone()).or_default() += 1;
        Some(key)
    }

    /// The work on a key has ended.
    fn end(&mut self, key: &Key) {
        self.running.remove(key);
        if let Some(running) = self.running_in.get_mut(&key.workspace) {
            *running -= 1;
            if *running == 0 {
                self.running_in.remove(&key.workspace);
            }
        }
    }
}

/// Returns the number of workers that one workspace may occupy, of `at_once`.
fn share_of(at_once: usize) -> usize {
    at_once.div_ceil(2).min(at_once.saturating_sub(1)).max(1)
}

/// Whether a workspace may occupy all workers: root, which has no tenants, and another API server without workspaces.
pub fn is_unlimited(workspace: &str) -> bool {
    matches!(workspace, "" | "root")
}

fn is_transient(status: &Status) -> bool {
    matches!(status.reason(), "Conflict" | "AlreadyExists") || status.has_cause(crate::api_scope::UNKNOWN)
}

#[cfg(test)]
mod tests;
