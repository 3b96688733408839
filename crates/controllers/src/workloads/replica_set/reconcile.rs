//! Computes actions and status from a set and its pods.

// upstream: pkg/controller/replicaset/replica_set.go
// upstream: pkg/controller/replicaset/replica_set_utils.go

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use crate::shared::pods;
use crate::workloads::status::{fields, is_same_status, unless_zero};

const FAILURE: &str = "ReplicaFailure";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    None,
    Create(usize),
    Delete(usize),
}

pub fn next_action(set: &Value, active: usize) -> ReplicaAction {
    let wanted = replicas(set);
    match object::is_being_deleted(set) {
        true => ReplicaAction::None,
        false if active < wanted => ReplicaAction::Create(wanted - active),
        false if active > wanted => ReplicaAction::Delete(active - wanted),
        false => ReplicaAction::None,
    }
}

pub fn min_ready_seconds(set: &Value) -> i64 {
    set["spec"]["minReadySeconds"].as_i64().unwrap_or(0)
}

fn replicas(set: &Value) -> usize {
    set["spec"]["replicas"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

/// Returns the new status; `None` if unchanged. `failure` is the error of creating or deleting pods.
pub fn status(
    set: &Value,
    active: &[Arc<Value>],
    terminating: Option<usize>,
    failure: Option<&str>,
    now: Timestamp,
) -> Option<Value> {
    let seconds = min_ready_seconds(set);
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object();
    let is_fully_labelled = |pod: &Value| {
        labels.into_iter().flatten().all(|(key, value)| object::label(pod, key) == value.as_str())
    };
    let count =
        |counts: &dyn Fn(&Value) -> bool| -> i64 { active.iter().map(|pod| i64::from(counts(pod))).sum() };
    let mut status = fields([
        ("replicas", Some(count(&|_| true))),
        ("fullyLabeledReplicas", unless_zero(count(&is_fully_labelled))),
        ("readyReplicas", unless_zero(count(&pods::is_ready))),
        ("availableReplicas", unless_zero(count(&|pod| pods::is_available(pod, seconds, now)))),
        ("terminatingReplicas", terminating.and_then(|count| i64::try_from(count).ok())),
        ("observedGeneration", unless_zero(object::generation(set))),
    ]);
    let conditions = conditions(set, active.len(), failure, now);
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    (!is_same_status(&set["status"], &status)).then_some(Value::Object(status))
}

fn conditions(set: &Value, active: usize, failure: Option<&str>, now: Timestamp) -> Vec<Value> {
    let mut conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let failed = conditions.iter().any(|condition| condition["type"] == FAILURE);
    match failure {
        None => conditions.retain(|condition| condition["type"] != FAILURE),
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
