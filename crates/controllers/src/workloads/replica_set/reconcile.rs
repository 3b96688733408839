//! Computes actions and status from a set and its pods.

// upstream: pkg/controller/replicaset/replica_set.go
// upstream: pkg/controller/replicaset/replica_set_utils.go

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use atoll_meta::views::ConditionView;
use serde_json::{Value, json};

use crate::shared::pods;
use crate::shared::views::WorkloadView;
use crate::shared::views::status::{
    AVAILABLE_REPLICAS, CONDITIONS, FULLY_LABELED_REPLICAS, OBSERVED_GENERATION, READY_REPLICAS, REPLICAS,
    TERMINATING_REPLICAS,
};
use crate::workloads::status::{fields, is_same_status, unless_zero};

const FAILURE: &str = "ReplicaFailure";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    None,
    Create(usize),
    Delete(usize),
}

pub fn next_action(set: &Value, active: usize) -> ReplicaAction {
    let wanted = usize::try_from(WorkloadView::of(set).replicas()).unwrap_or(1);
    match object::is_being_deleted(set) {
        true => ReplicaAction::None,
        false if active < wanted => ReplicaAction::Create(wanted - active),
        false if active > wanted => ReplicaAction::Delete(active - wanted),
        false => ReplicaAction::None,
    }
}

/// Returns the new status; `None` if unchanged. `failure` is the error of creating or deleting pods.
pub fn status(
    set: &Value,
    active: &[Arc<Value>],
    terminating: Option<usize>,
    failure: Option<&str>,
    now: Timestamp,
) -> Option<Value> {
    let view = WorkloadView::of(set);
    let (seconds, labels) = (view.min_ready_seconds(), view.template_labels());
    let is_fully_labelled = |pod: &Value| {
        labels.into_iter().flatten().all(|(key, value)| object::label(pod, key) == value.as_str())
    };
    let count =
        |counts: &dyn Fn(&Value) -> bool| -> i64 { active.iter().map(|pod| i64::from(counts(pod))).sum() };
    let mut status = fields([
        (REPLICAS, Some(count(&|_| true))),
        (FULLY_LABELED_REPLICAS, unless_zero(count(&is_fully_labelled))),
        (READY_REPLICAS, unless_zero(count(&pods::is_ready))),
        (AVAILABLE_REPLICAS, unless_zero(count(&|pod| pods::is_available(pod, seconds, now)))),
        (TERMINATING_REPLICAS, terminating.and_then(|count| i64::try_from(count).ok())),
        (OBSERVED_GENERATION, unless_zero(object::generation(set))),
    ]);
    let conditions = conditions(set, active.len(), failure, now);
    if !conditions.is_empty() {
        status.insert(CONDITIONS.into(), conditions.into());
    }
    (!is_same_status(view.status().json(), &status)).then_some(Value::Object(status))
}

fn conditions(set: &Value, active: usize, failure: Option<&str>, now: Timestamp) -> Vec<Value> {
    let mut conditions = WorkloadView::of(set).status().conditions().to_vec();
    let is_failure = |condition: &Value| ConditionView::of(condition).kind() == FAILURE;
    let failed = conditions.iter().any(is_failure);
    match failure {
        None => conditions.retain(|condition| !is_failure(condition)),
        // The first failure is kept.
        Some(_) if failed => {}
        Some(message) => {
            let reason = match next_action(set, active) {
                ReplicaAction::Create(_) => "FailedCreate",
                ReplicaAction::Delete(_) => "FailedDelete",
                ReplicaAction::None => "",
            };
            conditions.push(json!({
                "type": FAILURE,
                "status": "True",
                "lastTransitionTime": now.to_time(),
                "reason": reason,
                "message": message,
            }));
        }
    }
    conditions
}

#[cfg(test)]
mod tests;
