//! Creates and deletes pods, and records events.

// upstream: pkg/controller/controller_utils.go
// upstream: pkg/controller/replicaset/replica_set.go

use std::future::Future;
use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, DeleteOptions, Key, Recorder, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::task::JoinSet;

/// Maximum number of concurrent requests for one owner.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// Cause of failed creations in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Creates and deletes pods for one controller.
#[derive(Clone)]
pub struct PodControl {
    pub api: ApiScope,
    /// Cache of all pods.
    pub cache: Arc<Cache>,
    pub recorder: Recorder,
    /// Resource of the owners.
    pub owners: &'static Resource,
}

impl PodControl {
    /// Creates a pod for `owner`.
    pub async fn create(&self, owner: &Value, pod: &Value) -> Result<Value, Status> {
        let place = Key::of(owner);
        if object::labels(pod).next().is_none() {
            return Err(Status::plain_internal("unable to create pods, no labels"));
        }
        match self.api.create(&resources::PODS, &place.workspace, &place.namespace, pod).await {
            Ok(made) => {
                self.cache.wrote(&made);
                let message = format!("Created pod: {}", object::name(&made));
                self.recorder.normal(self.owners, owner, "SuccessfulCreate", message);
                Ok(made)
            }
            Err(status) => {
                if !is_namespace_terminating(&status) {
                    let message = format!("Error creating: {status}");
                    self.recorder.warning(self.owners, owner, "FailedCreate", message);
                }
                Err(status)
            }
        }
    }

    /// Creates `count` identical pods, until a creation fails. Failures in a terminating namespace are
    /// ignored.
    pub async fn create_many(&self, owner: &Arc<Value>, pod: Value, count: usize) -> Result<(), Status> {
        let pod = Arc::new(pod);
        let (_, outcome) = slow_start_batch(count, |_| {
            let (pod_control, owner, pod) = (self.clone(), owner.clone(), pod.clone());
            async move {
                match pod_control.create(&owner, &pod).await {
                    Err(status) if !is_namespace_terminating(&status) => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        outcome
    }

    /// Deletes a pod of `owner`. If it is already gone, returns `NotFound` and records no event.
    pub async fn delete(&self, owner: &Value, pod: &Value) -> Result<(), Status> {
        let key = Key::of(pod);
        match self.api.delete(&resources::PODS, &key, DeleteOptions::default()).await {
            Ok(_) => {
                self.cache.deleting(&key, object::uid(pod));
                let message = format!("Deleted pod: {}", key.name);
                self.recorder.normal(self.owners, owner, "SuccessfulDelete", message);
                Ok(())
            }
            Err(status) if status.reason() == "NotFound" => Err(status),
            Err(status) => {
                let message = format!("Error deleting: {status}");
                self.recorder.warning(self.owners, owner, "FailedDelete", message);
                let message = format!("unable to delete pods: {status}");
                Err(status.with_message(message))
            }
        }
    }

    /// Deletes all pods, even if some deletions fail. Returns the first error; pods that are already gone are
    /// ignored.
    pub async fn delete_many(&self, owner: &Arc<Value>, pods: Vec<Arc<Value>>) -> Result<(), Status> {
        let (mut running, mut outcome) = (JoinSet::new(), Ok(()));
        for pod in pods {
            if running.len() >= MAX_CONCURRENT_REQUESTS {
                outcome = outcome.and(joined(running.join_next().await));
            }
            let (pod_control, owner) = (self.clone(), owner.clone());
            running.spawn(async move {
                match pod_control.delete(&owner, &pod).await {
                    Err(status) if status.reason() != "NotFound" => Err(status),
                    _ => Ok(()),
                }
            });
        }
        while !running.is_empty() {
            outcome = outcome.and(joined(running.join_next().await));
        }
        outcome
    }
}

fn is_namespace_terminating(status: &Status) -> bool {
    status.has_cause(NAMESPACE_TERMINATING)
}

/// Runs `work` `count` times with slow start: one at first, then more concurrently with each success, because
/// a failure is likely to repeat. Starts nothing after the first failure. Returns the number of successes.
pub async fn slow_start_batch<W, F>(count: usize, work: W) -> (usize, Result<(), Status>)
where
    W: Fn(usize) -> F,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (mut running, mut started, mut done) = (JoinSet::new(), 0, 0);
    let mut outcome = Ok(());
    loop {
        while outcome.is_ok() && started < count && running.len() < (1 + done).min(MAX_CONCURRENT_REQUESTS) {
            running.spawn(work(started));
            started += 1;
        }
        if running.is_empty() {
            return (done, outcome);
        }
        match joined(running.join_next().await) {
            Ok(()) => done += 1,
            failed => outcome = outcome.and(failed),
        }
    }
}

fn joined(outcome: Option<Result<Result<(), Status>, tokio::task::JoinError>>) -> Result<(), Status> {
    match outcome {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Status::plain_internal(error.to_string())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn failures_stop_further_attempts() {
        // First failing attempt, count, expected attempts and successes.
        for (fails_from, count, tried, done) in [(0, 100, 1, 0), (1, 100, 3, 1), (1000, 100, 100, 100)] {
            let tries = Arc::new(AtomicUsize::new(0));
            let (succeeded, outcome) = slow_start_batch(count, |number| {
                let tries = tries.clone();
                async move {
                    tries.fetch_add(1, Ordering::SeqCst);
                    if number < fails_from { Ok(()) } else { Err(Status::plain_internal("no")) }
                }
            })
            .await;
            assert_eq!((tries.load(Ordering::SeqCst), succeeded), (tried, done), "from {fails_from}");
            assert_eq!(outcome.is_err(), fails_from < count);
        }
    }

    #[tokio::test]
    async fn successes_increase_concurrency() {
        let (now, most) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, _) = slow_start_batch(1000, |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                {
                    let mut now = now.lock().expect("no panic");
                    *now += 1;
                    most.fetch_max(*now, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                *now.lock().expect("no panic") -= 1;
                Ok(())
            }
        })
        .await;
        assert_eq!((done, most.load(Ordering::SeqCst)), (1000, MAX_CONCURRENT_REQUESTS));
    }
}
