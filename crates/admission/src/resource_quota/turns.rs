//! Batches of quota reservations, one at a time per namespace: the request whose turn it is processes all
//! that are waiting.
//!
//! Requests of a namespace contend for its quotas. Written one by one, each would wait for the disk once for
//! every request before it; a batch waits once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_meta::Status;
use atoll_quota::{Amounts, Evaluator, Operation, Quota, Refusal, check};
use atoll_registry::{Place, Registry, Written};
use atoll_watch::Snapshot;
use serde_json::Value;

use super::ledger::{Ledger, Taken};
use super::surroundings::Around;
use super::{RESOURCE, Stored, give_back, quotas};

/// Retries if quotas were changed concurrently.
const RETRIES: usize = 3;

/// A request for quota.
pub struct Change {
    pub evaluator: Evaluator,
    pub operation: Operation,
    pub subresource: String,
    pub new: Value,
    pub old: Option<Value>,
    /// Whether nothing is to be reserved.
    pub only_checked: bool,
    pub group: String,
    pub resource: String,
    pub name: String,
}

/// Queues by workspace and namespace; idle namespaces have no entry.
#[derive(Default)]
pub struct Turns {
    places: Mutex<HashMap<(String, String), Arc<Line>>>,
}

/// The queue of one namespace's quotas.
#[derive(Default)]
struct Line {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Arc<Waiter>>>,
}

struct Waiter {
    change: Change,
    outcome: Mutex<Option<Outcome>>,
}

/// A waiting request, and the amounts of each quota that it reserves.
type Pending = (Arc<Waiter>, Vec<Amounts>);

type Outcome = Result<Option<Taken>, Status>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Reserves the usage of a change in the quotas of its namespace. `None` if it uses nothing.
    pub async fn take(
        &self,
        registry: &Registry,
        workspace: &str,
        namespace: &str,
        change: Change,
        ledger: &Arc<Ledger>,
    ) -> Outcome {
        let group = Group { registry, workspace, namespace, ledger };
        // Requests that need nothing, or more than is left, do not wait.
        if group.judge(&change)?.iter().all(Amounts::is_empty) || change.only_checked {
            return Ok(None);
        }
        let line = self.line(workspace, namespace);
        let waiter = Arc::new(Waiter { change, outcome: Mutex::default() });
        locked(&line.waiting).push(waiter.clone());
        loop {
            let _turn = line.turn.lock().await;
            if let Some(outcome) = locked(&waiter.outcome).take() {
                return outcome;
            }
            let mut waiting = std::mem::take(&mut *locked(&line.waiting));
            // Requests that were cancelled meanwhile need nothing.
            waiting.retain(|waiter| Arc::strong_count(waiter) > 1);
            // The task that had taken this request was cancelled before it was done.
            if !waiting.iter().any(|own| Arc::ptr_eq(own, &waiter)) {
                waiting.push(waiter.clone());
            }
            group.work(&waiting).await;
        }
    }

    /// Runs other work on the quotas of a namespace when it is its turn.
    pub async fn alone<T>(&self, workspace: &str, namespace: &str, work: impl Future<Output = T>) -> T {
        let line = self.line(workspace, namespace);
        let _turn = line.turn.lock().await;
        work.await
    }

    fn line(&self, workspace: &str, namespace: &str) -> InLine<'_> {
        let at = (workspace.to_string(), namespace.to_string());
        let line = locked(&self.places).entry(at.clone()).or_default().clone();
        InLine { turns: self, at, line }
    }
}

/// An entry in a queue. The last one to be dropped removes the queue.
struct InLine<'t> {
    turns: &'t Turns,
    at: (String, String),
    line: Arc<Line>,
}

impl Deref for InLine<'_> {
    type Target = Line;
    fn deref(&self) -> &Line {
        &self.line
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut places = locked(&self.turns.places);
        // One reference is this one, one is in the map.
        if Arc::strong_count(&self.line) == 2 {
            places.remove(&self.at);
        }
    }
}

/// All quotas of a namespace.
struct Group<'a> {
    registry: &'a Registry,
    workspace: &'a str,
    namespace: &'a str,
    ledger: &'a Arc<Ledger>,
}

impl Group<'_> {
    fn place<'p>(&'p self, name: &'p str) -> Place<'p> {
        Place { workspace: self.workspace, namespace: self.namespace, name }
    }

    fn around<'s>(&'s self, snapshot: &'s Snapshot) -> Around<'s> {
        Around { registry: self.registry, snapshot, workspace: self.workspace }
    }

    fn stored(&self, around: &Around<'_>) -> Vec<Stored> {
        around.list("", RESOURCE, self.namespace).into_iter().map(Stored::read).collect()
    }

    /// Returns the amounts that the change would reserve now.
    fn judge(&self, change: &Change) -> Result<Vec<Amounts>, Status> {
        let snapshot = self.registry.snapshot();
        let around = self.around(&snapshot);
        judge(&quotas_of(&self.stored(&around)), change, &around)
    }

    /// Processes all waiting requests.
    async fn work(&self, waiting: &[Arc<Waiter>]) {
        let mut conflict = None;
        for _ in 0..=RETRIES {
            let (stored, pending) = self.judge_all(waiting);
            if pending.is_empty() {
                return;
            }
            // Recorded before it is written, so that no recount in between misses it.
            let taken = self.note(&stored, &pending);
            let written = self.write(&stored, &pending).await;
            for ((waiter, _), mut taken) in pending.iter().zip(taken) {
                match written {
                    Ok(()) => *locked(&waiter.outcome) = Some(Ok(Some(taken))),
                    Err(_) => taken.finish(Written::No),
                }
            }
            match written {
                Ok(()) => return,
                Err(status) if matches!(status.reason(), "Conflict" | "NotFound") => conflict = Some(status),
                Err(status) => return fail(pending.iter().map(|(waiter, _)| waiter), &status),
            }
        }
        if let Some(status) = conflict {
            let undecided = waiting.iter().filter(|waiter| locked(&waiter.outcome).is_none());
            fail(undecided, &status);
        }
    }

    /// Answers requests that need nothing or too much. Returns the updated quotas and the requests that wait
    /// for them to be written.
    fn judge_all(&self, waiting: &[Arc<Waiter>]) -> (Vec<Stored>, Vec<Pending>) {
        let snapshot = self.registry.snapshot();
        let around = self.around(&snapshot);
        let mut stored = self.stored(&around);
        let mut pending = Vec::new();
        for waiter in waiting {
            if locked(&waiter.outcome).is_some() {
                continue;
            }
            match judge(&quotas_of(&stored), &waiter.change, &around) {
                Err(status) => *locked(&waiter.outcome) = Some(Err(status)),
                Ok(taken) if taken.iter().all(Amounts::is_empty) => {
                    *locked(&waiter.outcome) = Some(Ok(None));
                }
                Ok(taken) => {
                    for (stored, taken) in stored.iter_mut().zip(&taken) {
                        stored.quota.used.add(taken);
                    }
                    pending.push((waiter.clone(), taken));
                }
            }
        }
        (stored, pending)
    }

    /// Writes all quotas with reservations. If one write fails, the others are reverted.
    async fn write(&self, stored: &[Stored], pending: &[Pending]) -> Result<(), Status> {
        let mut written: BTreeMap<usize, Amounts> = BTreeMap::new();
        for (index, quota) in stored.iter().enumerate() {
            let mut sum = Amounts::default();
            pending.iter().for_each(|(_, taken)| sum.add(&taken[index]));
            if sum.is_empty() {
                continue;
            }
            if let Err(status) = quota.write(self.registry, &self.place(&quota.quota.name)).await {
                for (index, sum) in &written {
                    let name = &stored[*index].quota.name;
                    give_back(self.registry, self.workspace, self.namespace, name, sum).await;
                }
                return Err(status);
            }
            written.insert(index, sum);
        }
        Ok(())
    }

    fn note(&self, stored: &[Stored], pending: &[Pending]) -> Vec<Taken> {
        let row = quotas(self.registry);
        let of = |taken: &Vec<Amounts>| {
            let quotas = stored.iter().zip(taken).filter(|(_, taken)| !taken.is_empty());
            let quotas = quotas.filter_map(|(stored, taken)| {
                let name = stored.quota.name.clone();
                Some((name.clone(), row.as_ref()?.key(&self.place(&name)), taken.clone()))
            });
            self.ledger.begin(quotas.collect())
        };
        pending.iter().map(|(_, taken)| of(taken)).collect()
    }
}

fn fail<'w>(waiters: impl Iterator<Item = &'w Arc<Waiter>>, status: &Status) {
    waiters.for_each(|waiter| *locked(&waiter.outcome) = Some(Err(status.clone())));
}

fn quotas_of(stored: &[Stored]) -> Vec<Quota> {
    stored.iter().map(|stored| stored.quota.clone()).collect()
}

fn judge(quotas: &[Quota], change: &Change, around: &Around<'_>) -> Result<Vec<Amounts>, Status> {
    let Change { evaluator, operation, subresource, new, old, .. } = change;
    let about = atoll_quota::Change { operation: *operation, subresource, new, old: old.as_ref() };
    check(evaluator, quotas, &about, around).map_err(|refusal| match refusal {
        Refusal::Forbidden(message) => {
            Status::forbidden(&change.group, &change.resource, &change.name, message)
        }
        Refusal::Internal(message) => Status::plain_internal(message),
    })
}
