//! Executes the planned actions.

// upstream: pkg/controller/job/job_controller.go

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use atoll_informer::{Key, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Controller;
use super::new_pods::{TRACKING, is_tracked};
use super::reconcile::Managed;
use super::status::JobStatus;
use crate::shared::controller_refs::{self, ControllerRefManager};
use crate::shared::pods::{is_ready, slow_start_batch};

/// Maximum number of concurrent requests for one Job.
const MAX_CONCURRENT_REQUESTS: usize = 64;

impl Controller {
    pub(super) async fn claimed(
        &self,
        job: &Value,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, Status> {
        let claim = ControllerRefManager {
            api: &self.api,
            cache: &self.pods,
            owners: &resources::JOBS,
            owner: job,
            selector,
            finalizers: &[TRACKING],
        };
        claim.claim(controller_refs::candidates(&self.pods, self.orphans, job)).await
    }

    pub(super) async fn create(
        self: &Arc<Self>,
        job: &Arc<Value>,
        pods: Vec<Value>,
    ) -> (Managed, Result<(), Status>) {
        let pods = Arc::new(pods);
        let (created, outcome) = slow_start_batch(pods.len(), |place| {
            let (controller, job, pods) = (self.clone(), job.clone(), pods.clone());
            async move {
                match controller.pod_control.create(&job, &pods[place]).await {
                    // Failing to create a pod in a terminating namespace is no error.
                    Err(status) if !status.has_cause("NamespaceTerminating") => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        (Managed { created: created as i64, ..Managed::default() }, outcome)
    }

    /// Deletes pods. Without `keeps_finalizer` the tracking finalizer is removed first, so that they are not
    /// counted.
    pub(super) async fn delete(
        self: &Arc<Self>,
        job: &Arc<Value>,
        pods: Vec<Arc<Value>>,
        keeps_finalizer: bool,
    ) -> (Managed, Result<(), Status>) {
        let mut managed = Managed::default();
        let (done, outcome) = all(pods, |pod| {
            let (controller, job) = (self.clone(), job.clone());
            async move {
                if !keeps_finalizer {
                    controller.remove_tracking_finalizer(&pod).await?;
                }
                match controller.pod_control.delete(&job, &pod).await {
                    Err(status) if status.reason() != "NotFound" => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        managed.deleted = done.len() as i64;
        managed.deleted_ready = done.iter().filter(|pod| is_ready(pod)).count() as i64;
        (managed, outcome)
    }

    /// Removes the tracking finalizer from pods. Returns the uids of those without it.
    pub(super) async fn release(
        self: &Arc<Self>,
        pods: Vec<Arc<Value>>,
    ) -> (HashSet<String>, Result<(), Status>) {
        let (done, outcome) = all(pods, |pod| {
            let controller = self.clone();
            async move { controller.remove_tracking_finalizer(&pod).await }
        })
        .await;
        (done.iter().map(|pod| object::uid(pod).to_owned()).collect(), outcome)
    }

    /// Removes the tracking finalizer from a pod.
    pub(super) async fn remove_tracking_finalizer(&self, pod: &Value) -> Result<(), Status> {
        if !is_tracked(pod) {
            return Ok(());
        }
        let metadata = json!({"uid": object::uid(pod), "$deleteFromPrimitiveList/finalizers": [TRACKING]});
        let patch = json!({"metadata": metadata});
        match self.api.patch_strategic(&resources::PODS, &Key::of(pod), &patch).await {
            Ok(patched) => {
                self.pods.wrote(&patched);
                Ok(())
            }
            Err(status) if status.reason() == "NotFound" => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Writes a status, and returns the updated Job.
    pub(super) async fn write(&self, job: &Value, status: &JobStatus) -> Result<Arc<Value>, Status> {
        let mut changed = job.clone();
        changed["status"] = status.to_value();
        let written = self.api.update_status(&resources::JOBS, &changed).await?;
        self.jobs.wrote(&written);
        Ok(Arc::new(written))
    }
}

/// Runs `work` for all pods concurrently. Returns the pods for which it succeeded, and the first error.
async fn all<W, F>(pods: Vec<Arc<Value>>, work: W) -> (Vec<Arc<Value>>, Result<(), Status>)
where
    W: Fn(Arc<Value>) -> F,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (mut running, mut done, mut outcome) = (JoinSet::new(), Vec::new(), Ok(()));
    let mut waiting = pods.into_iter();
    loop {
        while running.len() < MAX_CONCURRENT_REQUESTS
            && let Some(pod) = waiting.next()
        {
            let doing = work(pod.clone());
            running.spawn(async move { doing.await.map(|()| pod) });
        }
        match running.join_next().await {
            None => return (done, outcome),
            Some(Ok(Ok(pod))) => done.push(pod),
            Some(Ok(Err(status))) => outcome = outcome.and(Err(status)),
            Some(Err(error)) => outcome = outcome.and(Err(Status::plain_internal(error.to_string()))),
        }
    }
}
