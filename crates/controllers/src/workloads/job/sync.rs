//! Syncs one Job.

// upstream: pkg/controller/job/job_controller.go

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Next, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::Value;

use super::backoff::Failures;
use super::manage::Manage;
use super::reconcile::{Managed, Observed, observe};
use super::status::{COMPLETE, Condition, JobStatus};
use super::track::{Tracked, count, finish, has_surplus_successes, track};
use super::{Controller, is_finished, is_managed_elsewhere};
use crate::shared::views::JobView;

/// Minimum delay before the next sync during a backoff.
const MIN_DELAY: Duration = Duration::from_secs(1);

impl Controller {
    pub(super) async fn sync(self: &Arc<Self>, key: Key) -> Result<Next, Status> {
        let Some(job) = self.jobs.get(&key).filter(|job| !is_finished(job)) else {
            self.set_failures(&key, None);
            return Ok(Next::Done);
        };
        if !self.context.manages(&job) || is_managed_elsewhere(&job) {
            return Ok(Next::Done);
        }
        let view = JobView::of(&job);
        if !matches!(view.completion_mode(), "NonIndexed" | "Indexed") {
            let message = "Skipped Job sync because completion mode is unknown";
            self.pod_control.recorder.warning(&resources::JOBS, &job, "UnknownCompletionMode", message);
            return Ok(Next::Done);
        }
        let Ok(selector) = LabelSelector::from_object(view.selector()) else {
            return Ok(Next::Done);
        };
        let pods = self.claimed(&job, &selector).await?;
        let now = self.context.clock.now();
        let mut context =
            observe(&Observed { job: &job, pods: &pods, failures: self.failures_of(&key), now });
        let mut next = context.time_left;
        let outcome = if context.finished.is_some() {
            let active = context.active.clone();
            let (managed, outcome) = self.delete(&job, active, true).await;
            // The Job is not finished while pods may still be running.
            if managed.deleted != context.active.len() as i64 {
                context.finished = None;
            }
            context.apply(managed);
            outcome
        } else {
            let (managed, outcome) = match context.manage() {
                _ if object::is_being_deleted(&job) => (Managed::default(), Ok(())),
                Manage::Nothing => (Managed::default(), Ok(())),
                Manage::Wait(wait) => {
                    let wait = wait.max(MIN_DELAY);
                    next = Some(next.map_or(wait, |next| next.min(wait)));
                    (Managed::default(), Ok(()))
                }
                Manage::Delete(pods) => self.delete(&job, pods, false).await,
                Manage::Create(pods) => self.create(&job, pods).await,
            };
            if let Some(suspended) = context.update_running(managed) {
                let (reason, message) =
                    if suspended { ("Suspended", "Job suspended") } else { ("Resumed", "Job resumed") };
                self.pod_control.recorder.normal(&resources::JOBS, &job, reason, message);
            }
            outcome
        };
        let failures = context.failures;
        self.track_and_finish(&key, job.clone(), track(context), failures).await?;
        outcome?;
        Ok(next.map_or(Next::Done, Next::After))
    }

    /// Writes the status, removes the tracking finalizers of finished pods, and counts them.
    async fn track_and_finish(
        self: &Arc<Self>,
        key: &Key,
        mut job: Arc<Value>,
        tracked: Tracked,
        failures: Failures,
    ) -> Result<(), Status> {
        let Tracked { mut status, release, mut tracked_uids, finished, is_full } = tracked;
        if status != JobStatus::of(&job) {
            job = self.write(&job, &status).await?;
            self.set_failures(key, Some(failures));
        }
        let (released, outcome) = self.release(release).await;
        tracked_uids.retain(|uid| !released.contains(uid));
        let mut is_changed = count(&mut status, &tracked_uids);
        if outcome.is_err() {
            if is_changed {
                self.write(&job, &status).await?;
            }
            return outcome;
        }
        let ended = finished.filter(|end| !is_full && finish(&mut status, end, self.context.clock.now()));
        is_changed |= ended.is_some();
        if is_changed {
            job = self.write(&job, &status).await?;
        }
        if let Some(end) = ended {
            self.record_end(&job, &status, &end);
        }
        Ok(())
    }

    fn record_end(&self, job: &Value, status: &JobStatus, end: &Condition) {
        let (recorder, kind) = (&self.pod_control.recorder, &resources::JOBS);
        if end.kind != COMPLETE {
            recorder.warning(kind, job, &end.reason, end.message.clone());
            return;
        }
        if has_surplus_successes(job, status) {
            let message = "Too many succeeded pods running after completion count reached";
            recorder.warning(kind, job, "TooManySucceededPods", message);
        }
        recorder.normal(kind, job, "Completed", "Job completed");
    }

    fn failures_of(&self, key: &Key) -> Failures {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(key).copied().unwrap_or_default()
    }

    fn set_failures(&self, key: &Key, what: Option<Failures>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match what.filter(|what| what.count > 0) {
            Some(what) => drop(failures.insert(key.clone(), what)),
            None => drop(failures.remove(key)),
        }
    }
}
