//! Batches of quota reservations, one at a time per namespace: the request whose turn it is processes all
//! that are waiting.
//!
//! Requests of a namespace contend for its quotas. Written one by one, each would wait for the disk once for
//! every request before it; a batch waits once.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_meta::Status;
use atoll_quota::{Amounts, Evaluator, Quota, QuotaOperation, QuotaRefusal, check};
use atoll_registry::{ObjectRef, Registry, WriteOutcome};
use atoll_watch::Snapshot;
use serde_json::Value;

use super::context::QuotaContext;
use super::pending_writes::{PendingWrite, PendingWrites};
use super::{RESOURCE, StoredQuota, quotas, release_usage};

/// Retries if quotas were changed concurrently.
const RETRIES: usize = 3;

/// A request for quota.
pub struct QuotaRequest {
    pub evaluator: Evaluator,
    pub operation: QuotaOperation,
    pub subresource: String,
    pub new: Value,
    pub old: Option<Value>,
    /// Whether nothing is to be reserved.
    pub check_only: bool,
    pub group: String,
    pub resource: String,
    pub name: String,
}

/// Queues by workspace and namespace; idle namespaces have no entry.
#[derive(Default)]
pub struct QuotaQueues {
    queues_by_namespace: Mutex<HashMap<(String, String), Arc<Queue>>>,
}

/// The queue of one namespace's quotas.
#[derive(Default)]
struct Queue {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Arc<Waiter>>>,
}

struct Waiter {
    change: QuotaRequest,
    outcome: Mutex<Option<ReserveResult>>,
}

/// A waiting request, and the amounts of each quota that it reserves.
type PendingRequest = (Arc<Waiter>, Vec<Amounts>);

type ReserveResult = Result<Option<PendingWrite>, Status>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QuotaQueues {
    /// Reserves the usage of a change in the quotas of its namespace. `None` if it uses nothing.
    pub async fn take(
        &self,
        registry: &Registry,
        workspace: &str,
        namespace: &str,
        change: QuotaRequest,
        pending_writes: &Arc<PendingWrites>,
    ) -> ReserveResult {
        let group = NamespaceQuotas { registry, workspace, namespace, pending_writes };
        // Requests that need nothing, or more than is left, do not wait.
        if group.check_request(&change)?.iter().all(Amounts::is_empty) || change.check_only {
            return Ok(None);
        }
        let queue = self.queue(workspace, namespace);
        let waiter = Arc::new(Waiter { change, outcome: Mutex::default() });
        locked(&queue.waiting).push(waiter.clone());
        loop {
            let _turn = queue.turn.lock().await;
            if let Some(outcome) = locked(&waiter.outcome).take() {
                return outcome;
            }
            let mut waiting = std::mem::take(&mut *locked(&queue.waiting));
            // Requests that were cancelled meanwhile need nothing.
            waiting.retain(|waiter| Arc::strong_count(waiter) > 1);
            // The task that had taken this request was cancelled before it was done.
            if !waiting.iter().any(|own| Arc::ptr_eq(own, &waiter)) {
                waiting.push(waiter.clone());
            }
            group.process(&waiting).await;
        }
    }

    /// Runs other work on the quotas of a namespace when it is its turn.
    pub async fn exclusively<T>(&self, workspace: &str, namespace: &str, work: impl Future<Output = T>) -> T {
        let queue = self.queue(workspace, namespace);
        let _turn = queue.turn.lock().await;
        work.await
    }

    fn queue(&self, workspace: &str, namespace: &str) -> QueueEntry<'_> {
        let at = (workspace.to_string(), namespace.to_string());
        let queue = locked(&self.queues_by_namespace).entry(at.clone()).or_default().clone();
        QueueEntry { queues: self, at, queue }
    }
}

/// An entry in a queue. The last one to be dropped removes the queue.
struct QueueEntry<'t> {
    queues: &'t QuotaQueues,
    at: (String, String),
    queue: Arc<Queue>,
}

impl Deref for QueueEntry<'_> {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut queues_by_namespace = locked(&self.queues.queues_by_namespace);
        // One reference is this one, one is in the map.
        if Arc::strong_count(&self.queue) == 2 {
            queues_by_namespace.remove(&self.at);
        }
    }
}

/// All quotas of a namespace.
struct NamespaceQuotas<'a> {
    registry: &'a Registry,
    workspace: &'a str,
    namespace: &'a str,
    pending_writes: &'a Arc<PendingWrites>,
}

impl NamespaceQuotas<'_> {
    fn object_ref<'p>(&'p self, name: &'p str) -> ObjectRef<'p> {
        ObjectRef { workspace: self.workspace, namespace: self.namespace, name }
    }

    fn context<'s>(&'s self, snapshot: &'s Snapshot) -> QuotaContext<'s> {
        QuotaContext { registry: self.registry, snapshot, workspace: self.workspace }
    }

    fn stored(&self, context: &QuotaContext<'_>) -> Vec<StoredQuota> {
        context.list("", RESOURCE, self.namespace).into_iter().map(StoredQuota::read).collect()
    }

    /// Returns the amounts that the change would reserve now.
    fn check_request(&self, change: &QuotaRequest) -> Result<Vec<Amounts>, Status> {
        let snapshot = self.registry.snapshot();
        let context = self.context(&snapshot);
        check_request(&quotas_of(&self.stored(&context)), change, &context)
    }

    /// Processes all waiting requests.
    async fn process(&self, waiting: &[Arc<Waiter>]) {
        let mut last_conflict = None;
        for _ in 0..=RETRIES {
            let (stored, pending) = self.check_all(waiting);
            if pending.is_empty() {
                return;
            }
            // Recorded before it is written, so that no recount in between misses it.
            let taken = self.record_pending(&stored, &pending);
            let written = self.write(&stored, &pending).await;
            for ((waiter, _), mut taken) in pending.iter().zip(taken) {
                match written {
                    Ok(()) => *locked(&waiter.outcome) = Some(Ok(Some(taken))),
                    Err(_) => taken.finish(WriteOutcome::NotWritten),
                }
            }
            match written {
                Ok(()) => return,
                Err(status) if matches!(status.reason(), "Conflict" | "NotFound") => {
                    last_conflict = Some(status)
                }
                Err(status) => return fail(pending.iter().map(|(waiter, _)| waiter), &status),
            }
        }
        if let Some(status) = last_conflict {
            let undecided = waiting.iter().filter(|waiter| locked(&waiter.outcome).is_none());
            fail(undecided, &status);
        }
    }

    /// Answers requests that need nothing or too much. Returns the updated quotas and the requests that wait
    /// for them to be written.
    fn check_all(&self, waiting: &[Arc<Waiter>]) -> (Vec<StoredQuota>, Vec<PendingRequest>) {
        let snapshot = self.registry.snapshot();
        let context = self.context(&snapshot);
        let mut stored = self.stored(&context);
        let mut pending = Vec::new();
        for waiter in waiting {
            if locked(&waiter.outcome).is_some() {
                continue;
            }
            match check_request(&quotas_of(&stored), &waiter.change, &context) {
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
    async fn write(&self, stored: &[StoredQuota], pending: &[PendingRequest]) -> Result<(), Status> {
        let mut written: BTreeMap<usize, Amounts> = BTreeMap::new();
        for (index, quota) in stored.iter().enumerate() {
            let mut sum = Amounts::default();
            pending.iter().for_each(|(_, taken)| sum.add(&taken[index]));
            if sum.is_empty() {
                continue;
            }
            if let Err(status) = quota.write(self.registry, &self.object_ref(&quota.quota.name)).await {
                for (index, sum) in &written {
                    let name = &stored[*index].quota.name;
                    release_usage(self.registry, self.workspace, self.namespace, name, sum).await;
                }
                return Err(status);
            }
            written.insert(index, sum);
        }
        Ok(())
    }

    fn record_pending(&self, stored: &[StoredQuota], pending: &[PendingRequest]) -> Vec<PendingWrite> {
        let row = quotas(self.registry);
        let of = |taken: &Vec<Amounts>| {
            let quotas = stored.iter().zip(taken).filter(|(_, taken)| !taken.is_empty());
            let quotas = quotas.filter_map(|(stored, taken)| {
                let name = stored.quota.name.clone();
                Some((name.clone(), row.as_ref()?.key(&self.object_ref(&name)), taken.clone()))
            });
            self.pending_writes.start(quotas.collect())
        };
        pending.iter().map(|(_, taken)| of(taken)).collect()
    }
}

fn fail<'w>(waiters: impl Iterator<Item = &'w Arc<Waiter>>, status: &Status) {
    waiters.for_each(|waiter| *locked(&waiter.outcome) = Some(Err(status.clone())));
}

fn quotas_of(stored: &[StoredQuota]) -> Vec<Quota> {
    stored.iter().map(|stored| stored.quota.clone()).collect()
}

fn check_request(
    quotas: &[Quota],
    change: &QuotaRequest,
    context: &QuotaContext<'_>,
) -> Result<Vec<Amounts>, Status> {
    let QuotaRequest { evaluator, operation, subresource, new, old, .. } = change;
    let about = atoll_quota::QuotaChange { operation: *operation, subresource, new, old: old.as_ref() };
    check(evaluator, quotas, &about, context).map_err(|refusal| match refusal {
        QuotaRefusal::Forbidden(message) => {
            Status::forbidden(&change.group, &change.resource, &change.name, message)
        }
        QuotaRefusal::Internal(message) => Status::plain_internal(message),
    })
}
