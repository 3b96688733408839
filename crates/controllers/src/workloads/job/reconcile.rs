//! Computes the state of a Job from its pods, and the actions for its pods.

// upstream: pkg/controller/job/job_controller.go
// upstream: pkg/controller/job/indexed_job_utils.go

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::{ContainerStatusView, PodView};
use serde_json::Value;

use super::backoff::{self, Failures};
use super::indexes::Indexes;
use super::new_pods::{failures_before, index, is_tracked};
use super::policies::{FailureAction, failure_action, success};
use super::status::{Condition, FAILED, FAILURE_TARGET, JobStatus, SUCCESS_CRITERIA_MET, SUSPENDED};
use crate::shared::pods::{is_active, is_ready, is_terminating, phase};
use crate::shared::views::JobView;

pub struct Observed<'a> {
    pub job: &'a Value,
    pub pods: &'a [Arc<Value>],
    /// Failures of previous syncs.
    pub failures: Failures,
    pub now: Timestamp,
}

/// State of a Job and its pods during a sync.
pub struct SyncContext<'a> {
    pub job: &'a Value,
    pub pods: &'a [Arc<Value>],
    pub now: Timestamp,
    pub status: JobStatus,
    pub active: Vec<Arc<Value>>,
    pub ready: i64,
    pub terminating: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub failures: Failures,
    /// The terminal condition, if the Job is finished or finishing.
    pub finished: Option<Condition>,
    /// Indexes that have succeeded: as stored in the status, and including new ones.
    pub known_indexes: Indexes,
    pub succeeded_indexes: Indexes,
    /// Failed indexes, if the Job has a backoff limit per index.
    pub failed_indexes: Option<Indexes>,
    /// Failed pods that are kept until their replacement has copied the failure counts, by index.
    pub delayed: BTreeMap<i64, Arc<Value>>,
    /// Time until the active deadline.
    pub time_left: Option<Duration>,
}

/// Numbers of created and deleted pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Managed {
    pub created: i64,
    pub deleted: i64,
    pub deleted_ready: i64,
}

pub fn is_failed(job: &Value, pod: &Value) -> bool {
    phase(pod) == "Failed"
        || (!JobView::of(job).replaces_only_failed()
            && object::is_being_deleted(pod)
            && phase(pod) != "Succeeded")
}

/// Returns the index of a pod, if it is valid for the Job.
pub fn valid_index(job: &Value, pod: &Value) -> Option<i64> {
    index(pod).filter(|index| *index < JobView::of(job).completions().unwrap_or(0))
}

pub fn observe<'a>(observed: &Observed<'a>) -> SyncContext<'a> {
    let job = observed.job;
    let mut status = JobStatus::of(job);
    let active: Vec<Arc<Value>> = observed.pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    // Finished pods that are not in the status yet.
    let fresh = |known: &[String]| {
        let known = known.to_vec();
        let is_fresh = move |pod: &&Arc<Value>| {
            is_tracked(pod)
                && !known.iter().any(|uid| uid == object::uid(pod))
                && (!JobView::of(job).is_indexed() || valid_index(job, pod).is_some())
        };
        observed.pods.iter().filter(is_fresh)
    };
    let new_succeeded: Vec<_> =
        fresh(&status.uncounted_succeeded).filter(|pod| phase(pod) == "Succeeded").collect();
    let new_failed: Vec<_> = fresh(&status.uncounted_failed).filter(|pod| is_failed(job, pod)).collect();
    let policy = JobView::of(job).pod_failure_policy();
    let counted = new_failed.iter().filter(|pod| failure_action(policy, pod).counts()).count();
    if status.start_time.is_none() && !JobView::of(job).is_suspended() {
        status.start_time = Some(observed.now.to_time());
    }
    let sum = |known: i64, new: usize, uncounted: &[String]| known + new as i64 + uncounted.len() as i64;
    let mut context = SyncContext {
        job,
        pods: observed.pods,
        now: observed.now,
        ready: active.iter().filter(|pod| is_ready(pod)).count() as i64,
        terminating: observed.pods.iter().filter(|pod| is_terminating(pod)).count() as i64,
        active,
        succeeded: sum(status.succeeded, new_succeeded.len(), &status.uncounted_succeeded),
        failed: sum(status.failed, counted, &status.uncounted_failed),
        failures: observed
            .failures
            .and(new_succeeded.iter().map(|pod| pod.as_ref()), new_failed.iter().map(|pod| pod.as_ref())),
        status,
        finished: None,
        known_indexes: Indexes::default(),
        succeeded_indexes: Indexes::default(),
        failed_indexes: None,
        delayed: BTreeMap::new(),
        time_left: None,
    };
    context.finished = context.known_end().or_else(|| context.failure());
    if JobView::of(job).is_indexed() {
        context.observe_indexes();
    }
    context
}

impl<'a> SyncContext<'a> {
    pub fn view(&self) -> JobView<'a> {
        JobView::of(self.job)
    }

    /// Returns the end that is stored in the status.
    fn known_end(&self) -> Option<Condition> {
        let failure = || self.status.condition(FAILURE_TARGET).map(|target| target.as_kind(FAILED));
        self.status.condition(SUCCESS_CRITERIA_MET).or_else(failure)
    }

    fn failure(&mut self) -> Option<Condition> {
        let because = |reason, message: &str| Some(Condition::new(FAILURE_TARGET, reason, message));
        let policy = self.view().pod_failure_policy();
        let failed = self.pods.iter().filter(|pod| is_failed(self.job, pod));
        let fatal = failed.into_iter().find_map(|pod| match failure_action(policy, pod) {
            FailureAction::FailJob(why) => Some(why),
            _ => None,
        });
        if let Some(why) = fatal {
            return because("PodFailurePolicy", &why);
        }
        let limit = self.view().backoff_limit();
        if self.failed > limit || self.restarts_exceed(limit) {
            return because("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let view = self.view();
        let allowed = view.active_deadline_seconds().filter(|_| !view.is_suspended())?;
        let started = self.status.start_time.as_deref().and_then(|text| time::parse(text).ok())?;
        let deadline = Timestamp::new(started.seconds.saturating_add(allowed), started.nanos);
        if deadline <= self.now {
            return because("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        self.time_left = Some(backoff::until(deadline, self.now));
        None
    }

    /// Whether the containers of pods with restart policy OnFailure were restarted too often.
    fn restarts_exceed(&self, limit: i64) -> bool {
        if self.view().pod_spec().restart_policy() != "OnFailure" {
            return false;
        }
        let restarts: i64 = self
            .pods
            .iter()
            .filter(|pod| matches!(phase(pod), "Running" | "Pending"))
            .map(|pod| PodView::of(pod))
            .flat_map(|pod| pod.init_container_statuses().chain(pod.container_statuses()))
            .map(ContainerStatusView::restart_count)
            .sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    fn observe_indexes(&mut self) {
        let (job, view) = (self.job, self.view());
        let completions = view.completions().unwrap_or(0);
        let tracked = |pods: &[Arc<Value>], is_meant: &dyn Fn(&Value) -> bool| {
            let meant = pods.iter().filter(|pod| is_tracked(pod) && is_meant(pod));
            Indexes::of(meant.filter_map(|pod| valid_index(job, pod)))
        };
        self.known_indexes = Indexes::parse(&self.status.completed_indexes, completions);
        let new = tracked(self.pods, &|pod| phase(pod) == "Succeeded");
        self.succeeded_indexes = self.known_indexes.and(&new);
        self.succeeded = self.succeeded_indexes.total();
        if view.backoff_limit_per_index().is_some() {
            let known = self.status.failed_indexes.as_deref().unwrap_or_default();
            let new = tracked(self.pods, &|pod| self.is_index_failed(pod));
            let failed = Indexes::parse(known, completions).and(&new);
            if self.finished.is_none() {
                self.finished = self.failure_by_index(&failed, completions);
            }
            self.failed_indexes = Some(failed);
            self.delayed = self.delayed_pods();
        }
        if self.finished.is_none()
            && let Some(message) = success(view.success_policy(), completions, &self.succeeded_indexes)
        {
            self.finished = Some(Condition::new(SUCCESS_CRITERIA_MET, "SuccessPolicy", message));
        }
    }

    fn is_index_failed(&self, pod: &Value) -> bool {
        if !is_failed(self.job, pod) {
            return false;
        }
        let limit = self.view().backoff_limit_per_index().unwrap_or(0);
        match failure_action(self.view().pod_failure_policy(), pod) {
            FailureAction::FailIndex => true,
            failure_action => failure_action.counts() && failures_before(pod).0 >= limit,
        }
    }

    fn failure_by_index(&self, failed: &Indexes, completions: i64) -> Option<Condition> {
        let because = |reason, message: &str| Some(Condition::new(FAILURE_TARGET, reason, message));
        let most = self.view().max_failed_indexes();
        if most.is_some_and(|most| failed.total() > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return because("MaxFailedIndexesExceeded", message);
        }
        if failed.total() > 0 && failed.total() + self.succeeded_indexes.total() >= completions {
            return because("FailedIndexes", "Job has failed indexes");
        }
        None
    }

    fn delayed_pods(&self) -> BTreeMap<i64, Arc<Value>> {
        let active = Indexes::of(self.active.iter().filter_map(|pod| index(pod)));
        let is_over = |index: i64| {
            self.succeeded_indexes.has(index)
                || active.has(index)
                || self.failed_indexes.as_ref().is_some_and(|failed| failed.has(index))
        };
        let failures = |pod: &Value| failures_before(pod).0 + failures_before(pod).1;
        let mut delayed: BTreeMap<i64, Arc<Value>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| is_tracked(pod) && is_failed(self.job, pod)) {
            let Some(index) = valid_index(self.job, pod).filter(|index| !is_over(*index)) else { continue };
            let is_last = delayed.get(&index).is_none_or(|other| {
                failures(other) <= failures(pod) && backoff::finished(pod) >= backoff::finished(other)
            });
            if is_last {
                delayed.insert(index, pod.clone());
            }
        }
        delayed
    }

    /// Updates the status of an unfinished Job after the actions in `managed`. Returns whether the Job was
    /// just suspended (`true`) or resumed (`false`).
    pub fn update_running(&mut self, managed: Managed) -> Option<bool> {
        let active = self.apply(managed);
        let is_complete = match self.view().completions() {
            Some(completions) => self.succeeded >= completions && active == 0,
            None => self.succeeded > 0 && active == 0,
        };
        if is_complete {
            let message = "Reached expected number of succeeded pods";
            self.finished = Some(Condition::new(SUCCESS_CRITERIA_MET, "CompletionsReached", message));
            return None;
        }
        // The status of a Job that is being deleted is not updated.
        if object::is_being_deleted(self.job) {
            return None;
        }
        let suspended = self.view().is_suspended();
        let condition = match suspended {
            true => Condition::new(SUSPENDED, "JobSuspended", "Job suspended"),
            false => Condition::new(SUSPENDED, "JobResumed", "Job resumed"),
        };
        let is_changed = self.status.ensure(&condition, suspended, self.now);
        if is_changed {
            // The active deadline starts again.
            self.status.start_time = (!suspended).then(|| self.now.to_time());
        }
        is_changed.then_some(suspended)
    }

    /// Applies the actions to the counts. Returns the number of active pods.
    pub fn apply(&mut self, managed: Managed) -> i64 {
        let active = self.active.len() as i64 + managed.created - managed.deleted;
        self.terminating += managed.deleted;
        self.ready -= managed.deleted_ready;
        self.status.active = active;
        self.status.ready = Some(self.ready);
        self.status.terminating = Some(self.terminating);
        active
    }
}

#[cfg(test)]
mod tests;
