//! Makes pods and deletes them, and says so.

use std::future::Future;
use std::sync::Arc;

use atoll_informer::{Cache, DeleteOptions, Key, Recorder, Resource, World, resources};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::task::JoinSet;

/// Requests for one owner that are under way together.
const AT_ONCE: usize = 64;
/// Why nothing can be made in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// In the name of one controller.
#[derive(Clone)]
pub struct Maker {
    pub world: World,
    /// All pods.
    pub cache: Arc<Cache>,
    pub recorder: Recorder,
    /// What those are in whose name pods are made.
    pub owners: &'static Resource,
}

impl Maker {
    /// Makes one pod for `owner`.
    pub async fn create(&self, owner: &Value, pod: &Value) -> Result<Value, Status> {
        let place = Key::of(owner);
        if object::labels(pod).next().is_none() {
            return Err(Status::plain_internal("unable to create pods, no labels"));
        }
        match self.world.create(&resources::PODS, &place.workspace, &place.namespace, pod).await {
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

    /// Makes `count` pods that are all alike, until one cannot be made. In a namespace that is being deleted nothing
    /// can, and that is no failure.
    pub async fn create_many(&self, owner: &Arc<Value>, pod: Value, count: usize) -> Result<(), Status> {
        let pod = Arc::new(pod);
        let (_, outcome) = made_slowly(count, |_| {
            let (maker, owner, pod) = (self.clone(), owner.clone(), pod.clone());
            async move {
                match maker.create(&owner, &pod).await {
                    Err(status) if !is_namespace_terminating(&status) => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        outcome
    }

    /// Deletes a pod of `owner`. That it is gone already is an error like others (`NotFound`), and not told of.
    pub async fn delete(&self, owner: &Value, pod: &Value) -> Result<(), Status> {
        let key = Key::of(pod);
        match self.world.delete(&resources::PODS, &key, DeleteOptions::default()).await {
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

    /// Deletes pods, all of them even if some cannot be. Fails with the first failure; those that are gone are none.
    pub async fn delete_many(&self, owner: &Arc<Value>, pods: Vec<Arc<Value>>) -> Result<(), Status> {
        let (mut running, mut outcome) = (JoinSet::new(), Ok(()));
        for pod in pods {
            if running.len() >= AT_ONCE {
                outcome = outcome.and(joined(running.join_next().await));
            }
            let (maker, owner) = (self.clone(), owner.clone());
            running.spawn(async move {
                match maker.delete(&owner, &pod).await {
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

/// Does something `count` times, one at a time first and, as it keeps succeeding, more and more together, for what
/// fails once would fail often. Begins nothing more after the first failure. Says how often it succeeded.
pub async fn made_slowly<W, F>(count: usize, work: W) -> (usize, Result<(), Status>)
where
    W: Fn(usize) -> F,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (mut running, mut begun, mut done) = (JoinSet::new(), 0, 0);
    let mut outcome = Ok(());
    loop {
        while outcome.is_ok() && begun < count && running.len() < (1 + done).min(AT_ONCE) {
            running.spawn(work(begun));
            begun += 1;
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
    async fn what_fails_is_not_tried_often() {
        // What fails from the first time on, and how often it was tried then.
        for (fails_from, count, tried, done) in [(0, 100, 1, 0), (1, 100, 3, 1), (1000, 100, 100, 100)] {
            let tries = Arc::new(AtomicUsize::new(0));
            let (succeeded, outcome) = made_slowly(count, |number| {
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
    async fn what_succeeds_is_done_many_at_once() {
        let (now, most) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, _) = made_slowly(1000, |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                {
                    let mut now = now.lock().expect("nobody panics");
                    *now += 1;
                    most.fetch_max(*now, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                *now.lock().expect("nobody panics") -= 1;
                Ok(())
            }
        })
        .await;
        assert_eq!((done, most.load(Ordering::SeqCst)), (1000, AT_ONCE));
    }
}
