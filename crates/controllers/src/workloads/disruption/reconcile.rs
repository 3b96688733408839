//! Computes the status of a budget from its pods and the number of expected pods.

// upstream: pkg/controller/disruption/disruption.go

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use serde_json::{Map, Value, json};

use crate::shared::conditions;
use crate::shared::pods;

/// Seconds for which an evicted pod that is not being deleted yet counts as disrupted.
const DELETION_TIMEOUT: i64 = 120;
const CONDITION: &str = "DisruptionAllowed";

#[derive(Debug)]
pub struct BudgetUpdate {
    /// The budget with the new status, if it must be written.
    pub updated: Option<Value>,
    /// Delay after which the disrupted pods must be checked again.
    pub recheck: Option<Duration>,
    /// Pods that were evicted but not deleted in time.
    pub not_deleted: Vec<Arc<Value>>,
}

pub fn reconcile(
    budget: &Value,
    pods: &[Arc<Value>],
    expected: i64,
    desired: i64,
    now: Timestamp,
) -> BudgetUpdate {
    let mut outcome = BudgetUpdate { updated: None, recheck: None, not_deleted: Vec::new() };
    let disrupted = disrupted(budget, pods, now, &mut outcome);
    let healthy = pods.iter().filter(|pod| {
        !object::is_being_deleted(pod) && !disrupted.contains_key(object::name(pod)) && pods::is_ready(pod)
    });
    let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let mut updated = budget.clone();
    let mut status = json!({
        "observedGeneration": object::generation(budget),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = disrupted.into();
    }
    if let Some(conditions) = budget["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    updated["status"] = status;
    let (state, reason) = match allowed > 0 {
        true => ("True", "SufficientPods"),
        false => ("False", "InsufficientPods"),
    };
    let condition = condition(state, reason, "", object::generation(budget));
    conditions::set_in(&mut updated, condition, &now.to_time());
    outcome.updated = (!is_same_status(&updated["status"], &budget["status"])).then_some(updated);
    outcome
}

/// Returns pods whose eviction was granted and that are not being deleted yet.
fn disrupted(
    budget: &Value,
    pods: &[Arc<Value>],
    now: Timestamp,
    outcome: &mut BudgetUpdate,
) -> Map<String, Value> {
    let mut disrupted = Map::new();
    let recorded = &budget["status"]["disruptedPods"];
    for pod in pods.iter().filter(|pod| !object::is_being_deleted(pod)) {
        let Some(at) = recorded.get(object::name(pod)) else { continue };
        let granted = at.as_str().and_then(|at| time::parse(at).ok()).map_or(0, |at| at.seconds);
        let left = granted + DELETION_TIMEOUT - now.seconds;
        if left < 0 || (left == 0 && now.nanos > 0) {
            outcome.not_deleted.push(pod.clone());
            continue;
        }
        let left = Duration::from_secs(left.unsigned_abs()) + Duration::from_millis(1);
        outcome.recheck = Some(outcome.recheck.map_or(left, |other| other.min(left)));
        disrupted.insert(object::name(pod).into(), at.clone());
    }
    disrupted
}

/// Compares two statuses. A missing number equals zero; the condition's observed generation is ignored.
fn is_same_status(new: &Value, old: &Value) -> bool {
    let number = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    let numbers =
        ["observedGeneration", "currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"];
    let condition = |status: &Value| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == CONDITION);
        found.map(|condition| (condition["status"].clone(), condition["reason"].clone()))
    };
    let disrupted =
        |status: &Value| status["disruptedPods"].as_object().filter(|pods| !pods.is_empty()).cloned();
    numbers.into_iter().all(|field| number(new, field) == number(old, field))
        && disrupted(new) == disrupted(old)
        && condition(new) == condition(old)
}

fn condition(status: &str, reason: &str, message: &str, generation: i64) -> Value {
    json!({
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    })
}

/// Returns a budget that allows no disruptions, because its pods could not be counted.
pub fn failed(budget: &Value, problem: &str, now: &str) -> Option<Value> {
    let mut updated = budget.clone();
    if !updated["status"].is_object() {
        updated["status"] = json!({"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    }
    updated["status"]["disruptionsAllowed"] = 0.into();
    let generation = updated["status"]["observedGeneration"].as_i64().unwrap_or(0);
    let mut condition = condition("False", "SyncFailed", problem, generation);
    if generation == 0 {
        condition.as_object_mut().map(|fields| fields.remove("observedGeneration"));
    }
    conditions::set_in(&mut updated, condition, now);
    (updated != *budget).then_some(updated)
}

#[cfg(test)]
mod tests;
