//! Removes the tracking finalizer from pods whose Job is gone.

// upstream: pkg/controller/job/job_controller.go

use std::sync::Arc;

use atoll_informer::{Key, Next, Queue};
use atoll_meta::{Status, object};
use serde_json::Value;

use super::new_pods::is_tracked;
use super::{Controller, is_controlled_by_job, is_finished, is_managed_elsewhere, job_of};

impl Controller {
    /// Enqueues pods that may have lost their Job.
    pub(super) fn enqueue_orphans(&self, queue: &Queue) {
        let (jobs, orphans) = (self.jobs.clone(), queue.clone());
        self.pods.listen(move |change| {
            let Some(pod) = change.new.as_deref().filter(|pod| is_tracked(pod)) else { return };
            let is_orphan = match object::controller_of(pod) {
                None => true,
                Some(_) => {
                    is_controlled_by_job(pod) && job_of(&jobs, pod).is_none_or(|job| is_finished(&job))
                }
            };
            if is_orphan {
                orphans.add(change.key.clone());
            }
        });
        // A strong reference between the caches would leak both.
        let (pods, orphans) = (Arc::downgrade(&self.pods), queue.clone());
        self.jobs.listen(move |change| {
            let Some(pods) = pods.upgrade() else { return };
            if change.new.as_deref().is_some_and(|job| !is_finished(job)) {
                return;
            }
            let own = pods.owned_by(&change.key, object::uid(change.object()));
            for pod in own.iter().filter(|pod| is_tracked(pod)) {
                orphans.add(Key::of(pod));
            }
        });
    }

    /// Removes the tracking finalizer from a pod that no Job counts.
    pub(super) async fn sync_orphan(&self, key: Key) -> Result<Next, Status> {
        let Some(pod) = self.pods.get(&key).filter(|pod| is_tracked(pod)) else { return Ok(Next::Done) };
        if self.is_orphan(&pod) {
            self.remove_tracking_finalizer(&pod).await?;
        }
        Ok(Next::Done)
    }

    fn is_orphan(&self, pod: &Value) -> bool {
        match object::controller_of(pod) {
            None => true,
            Some(_) if !is_controlled_by_job(pod) => false,
            Some(_) => job_of(&self.jobs, pod).is_none_or(|job| {
                is_finished(&job) && !is_managed_elsewhere(&job) && self.context.manages(&job)
            }),
        }
    }
}
