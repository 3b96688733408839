//! Computes the status of a Deployment.

// upstream: pkg/controller/deployment/sync.go
// upstream: pkg/controller/deployment/progress.go

use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::conditions::{AVAILABLE, Conditions, PROGRESSING, REPLICA_FAILURE, condition};
use super::limits;
use super::scale::Sets;
use super::set::Set;
use crate::shared::views::status::{
    AVAILABLE_REPLICAS, COLLISION_COUNT, CONDITIONS, OBSERVED_GENERATION, READY_REPLICAS, REPLICAS,
    TERMINATING_REPLICAS, UNAVAILABLE_REPLICAS, UPDATED_REPLICAS,
};
use crate::shared::views::{DeploymentView, WorkloadStatusView};
use crate::workloads::status::{fields, is_same_status, unless_zero};

/// Whether the progress of a rollout is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    Nothing,
    Progress,
}

/// Returns the new status. The Deployment's status has the conditions that were set during the
/// reconciliation.
pub fn status(deployment: &Value, sets: &Sets, estimate: Estimate, now: Timestamp) -> Value {
    let sum = |field: &str| sets.all().map(|set| set.count(field)).sum::<i64>();
    let view = DeploymentView::of(deployment);
    let available = sum(AVAILABLE_REPLICAS);
    let mut status = Value::Object(fields([
        (OBSERVED_GENERATION, unless_zero(object::generation(deployment))),
        (REPLICAS, unless_zero(sum(REPLICAS))),
        (UPDATED_REPLICAS, unless_zero(sets.new.as_ref().map_or(0, |new| new.count(REPLICAS)))),
        (READY_REPLICAS, unless_zero(sum(READY_REPLICAS))),
        (AVAILABLE_REPLICAS, unless_zero(available)),
        (UNAVAILABLE_REPLICAS, unless_zero((sets.replicas() - available).max(0))),
        (TERMINATING_REPLICAS, terminating(sets)),
        (COLLISION_COUNT, view.status().collision_count()),
    ]));
    let mut conditions = Conditions::of(view.status());
    let least = view.replicas() - limits::max_unavailable(deployment);
    conditions.set(match available >= least {
        true => {
            let message = "Deployment has minimum availability.";
            condition(AVAILABLE, "True", "MinimumReplicasAvailable", message, now)
        }
        false => {
            let message = "Deployment does not have minimum availability.";
            condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)
        }
    });
    if estimate == Estimate::Progress {
        set_progressing(deployment, WorkloadStatusView::of(&status), sets.new.as_ref(), &mut conditions, now);
        set_replica_failure(sets, &mut conditions);
    }
    if !conditions.0.is_empty() {
        status[CONDITIONS] = conditions.0.into();
    }
    status
}

pub fn is_same(status: WorkloadStatusView<'_>, wanted: &Value) -> bool {
    wanted.as_object().is_some_and(|wanted| is_same_status(status.json(), wanted))
}

/// Returns `None` as long as an observed set has not reported its count.
fn terminating(sets: &Sets) -> Option<i64> {
    let counted = sets.all().map(|set| set.current_view().status()).map(|status| {
        match status.reported(TERMINATING_REPLICAS) {
            None if status.observed_generation() == 0 => Some(0),
            count => count,
        }
    });
    counted.sum()
}

fn set_progressing(
    deployment: &Value,
    status: WorkloadStatusView<'_>,
    new: Option<&Set>,
    conditions: &mut Conditions,
    now: Timestamp,
) {
    let Some(deadline) = limits::progress_deadline(deployment) else {
        conditions.remove(PROGRESSING);
        return;
    };
    let old = DeploymentView::of(deployment).status();
    let before = Conditions::of(old);
    let is_over = status.count(REPLICAS) == status.count(UPDATED_REPLICAS)
        && before.has_reason(PROGRESSING, "NewReplicaSetAvailable");
    if is_over {
        return;
    }
    let subject = match new {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", object::name(deployment)),
    };
    if limits::is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions.set(condition(PROGRESSING, "True", "NewReplicaSetAvailable", &message, now));
    } else if has_progressed(old, status) {
        let message = format!("{subject} is progressing.");
        let mut progressing = condition(PROGRESSING, "True", "ReplicaSetUpdated", &message, now);
        // Replaced with every progress, because its update time shows when the last progress was made.
        if let Some(current) = before.get(PROGRESSING).filter(|current| current["status"] == "True") {
            progressing["lastTransitionTime"] = current["lastTransitionTime"].clone();
        }
        conditions.remove(PROGRESSING);
        conditions.set(progressing);
    } else if has_timed_out(conditions, deadline, now) {
        let message = format!("{subject} has timed out progressing.");
        conditions.set(condition(PROGRESSING, "False", "ProgressDeadlineExceeded", &message, now));
    }
}

fn has_progressed(before: WorkloadStatusView<'_>, after: WorkloadStatusView<'_>) -> bool {
    let old = |status: WorkloadStatusView<'_>| status.count(REPLICAS) - status.count(UPDATED_REPLICAS);
    let more = |field: &str| after.count(field) > before.count(field);
    more(UPDATED_REPLICAS) || old(after) < old(before) || more(READY_REPLICAS) || more(AVAILABLE_REPLICAS)
}

fn has_timed_out(conditions: &Conditions, deadline: i64, now: Timestamp) -> bool {
    if conditions.has_reason(PROGRESSING, "ProgressDeadlineExceeded") {
        return true;
    }
    !conditions.has_reason(PROGRESSING, "NewReplicaSetAvailable")
        && conditions.updated(PROGRESSING).is_some_and(|since| later(since, deadline) < now)
}

/// Copies the failure of a set to the Deployment, the new set's first.
fn set_replica_failure(sets: &Sets, conditions: &mut Conditions) {
    let failure = |set: &Set| Conditions::of(set.current_view().status()).get(REPLICA_FAILURE).cloned();
    match sets.new.as_ref().and_then(failure).or_else(|| sets.old.iter().find_map(failure)) {
        None => conditions.remove(REPLICA_FAILURE),
        Some(mut failure) => {
            failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
            conditions.set(failure);
        }
    }
}

/// Returns the time until the progress deadline is exceeded.
pub fn check_after(deployment: &Value, status: WorkloadStatusView<'_>, now: Timestamp) -> Option<Duration> {
    let deadline = limits::progress_deadline(deployment)?;
    let conditions = Conditions::of(status);
    let since = conditions.updated(PROGRESSING)?;
    if limits::is_complete(deployment, status)
        || conditions.has_reason(PROGRESSING, "ProgressDeadlineExceeded")
        || conditions.has_reason(PROGRESSING, "NewReplicaSetAvailable")
    {
        return None;
    }
    let seconds = later(since, deadline).seconds.saturating_sub(now.seconds);
    // Times are stored without fractions of seconds.
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0) + 1))
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::new(time.seconds.saturating_add(seconds), time.nanos)
}
