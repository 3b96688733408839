//! Counts finished pods exactly once, whatever fails in between.
//!
//! ```text
//!   pod finished ─► uid in the status ─► tracking finalizer removed ─► counted, uid removed
//!                   (one write)           (one write)                  (one write)
//! ```
//!
//! The state after each write is unambiguous. A uid whose pod still has the finalizer is not counted yet. A
//! uid whose pod has no finalizer any more, or is gone, is counted with the write that removes it from the
//! list.

// upstream: pkg/controller/job/job_controller.go

use std::collections::HashSet;
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::indexes::Indexes;
use super::new_pods::{index, is_tracked};
use super::policies::failure_action;
use super::reconcile::{SyncContext, is_failed, valid_index};
use super::status::{COMPLETE, Condition, FAILED, FAILURE_TARGET, JobStatus, SUCCESS_CRITERIA_MET};
use crate::shared::pods::phase;
use crate::shared::views::JobView;

/// Maximum number of uncounted pods in the status, which limits its size.
const MAX_UNCOUNTED: usize = 500;

/// The status to write before tracking finalizers are removed.
pub struct Tracked {
    pub status: JobStatus,
    /// Pods whose tracking finalizer to remove.
    pub release: Vec<Arc<Value>>,
    /// Uids of pods with the tracking finalizer.
    pub tracked_uids: HashSet<String>,
    /// The terminal condition for when all pods are counted.
    pub finished: Option<Condition>,
    /// There are more pods than the status may list.
    pub is_full: bool,
}

/// Moves uids of pods without the tracking finalizer from the list to the counts. Returns whether there were
/// any.
pub fn count(status: &mut JobStatus, tracked_uids: &HashSet<String>) -> bool {
    let drain_counted = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(|uid| tracked_uids.contains(uid));
        (before - uids.len()) as i64
    };
    let succeeded = drain_counted(&mut status.uncounted_succeeded);
    let failed = drain_counted(&mut status.uncounted_failed);
    status.succeeded += succeeded;
    status.failed += failed;
    succeeded + failed > 0
}

pub fn track(context: SyncContext<'_>) -> Tracked {
    let mut status = context.status.clone();
    let (known_succeeded, known_failed) =
        (status.uncounted_succeeded.clone(), status.uncounted_failed.clone());
    let mut tracked_pods: Vec<&Arc<Value>> = context.pods.iter().filter(|pod| is_tracked(pod)).collect();
    if context.view().is_indexed() {
        tracked_pods.sort_by_key(|pod| index(pod));
    }
    let tracked_uids: HashSet<String> = tracked_pods.iter().map(|pod| object::uid(pod).to_owned()).collect();
    count(&mut status, &tracked_uids);
    let (mut release, mut new_indexes, mut is_full) = (Vec::new(), Vec::new(), false);
    for pod in tracked_pods {
        if !can_remove_finalizer(&context, pod) {
            continue;
        }
        release.push(pod.clone());
        let uid = object::uid(pod);
        let is_known = |uids: &[String]| uids.iter().any(|known| known == uid);
        if phase(pod) == "Succeeded" && !is_known(&known_failed) {
            if context.view().is_indexed() {
                // The index suffices to count the pod once.
                let new = valid_index(context.job, pod).filter(|index| !context.known_indexes.has(*index));
                new_indexes.extend(new);
            } else if !is_known(&known_succeeded) {
                status.uncounted_succeeded.push(uid.into());
            }
        } else if is_failed(context.job, pod) || has_failed(context.finished.as_ref()) {
            let has_place = !context.view().is_indexed() || valid_index(context.job, pod).is_some();
            let counts = || failure_action(context.view().pod_failure_policy(), pod).counts();
            if has_place && !is_known(&known_failed) && counts() {
                status.uncounted_failed.push(uid.into());
            }
        }
        if new_indexes.len() + status.uncounted_succeeded.len() + status.uncounted_failed.len()
            >= MAX_UNCOUNTED
        {
            is_full = true;
            break;
        }
    }
    if context.view().is_indexed() {
        let succeeded = context.succeeded_indexes.and(&Indexes::of(new_indexes));
        status.succeeded = succeeded.total();
        status.completed_indexes = succeeded.to_string();
        status.failed_indexes = context.failed_indexes.as_ref().map(Indexes::to_string);
    }
    let finished = context.finished.map(|end| add_interim_condition(&mut status, end, context.now));
    Tracked { status, release, tracked_uids, finished, is_full }
}

/// Unfinished pods of a failed Job count as failed.
fn has_failed(finished: Option<&Condition>) -> bool {
    finished.is_some_and(|end| end.kind != SUCCESS_CRITERIA_MET)
}

fn can_remove_finalizer(context: &SyncContext<'_>, pod: &Value) -> bool {
    if object::is_being_deleted(context.job) || context.finished.is_some() || phase(pod) == "Succeeded" {
        return true;
    }
    let waits = || {
        let delayed = index(pod).and_then(|index| context.delayed.get(&index));
        delayed.is_some_and(|delayed| object::uid(delayed) == object::uid(pod))
    };
    is_failed(context.job, pod) && !waits()
}

/// Adds the interim condition to the status, and returns the terminal one.
fn add_interim_condition(status: &mut JobStatus, end: Condition, now: Timestamp) -> Condition {
    match end.kind {
        FAILURE_TARGET => {
            status.add(&end, now);
            end.as_kind(FAILED)
        }
        SUCCESS_CRITERIA_MET => {
            if status.condition(SUCCESS_CRITERIA_MET).is_none() {
                status.add(&end, now);
            }
            end.as_kind(COMPLETE)
        }
        _ => end,
    }
}

/// Finishes a Job when all its pods are counted and gone. Returns whether it did.
pub fn finish(status: &mut JobStatus, finished: &Condition, now: Timestamp) -> bool {
    let is_counted = status.uncounted_succeeded.is_empty() && status.uncounted_failed.is_empty();
    if !is_counted || status.terminating.unwrap_or(0) > 0 {
        return false;
    }
    status.ensure(finished, true, now);
    if finished.kind == COMPLETE {
        status.completion_time = Some(now.to_time());
    }
    true
}

/// Whether more pods succeeded than requested.
pub fn has_surplus_successes(job: &Value, status: &JobStatus) -> bool {
    JobView::of(job).completions().is_some_and(|completions| status.succeeded > completions)
}

#[cfg(test)]
mod tests;
