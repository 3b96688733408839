//! Clears the `DisruptionTarget` condition of pods that were not deleted in time.

// upstream: pkg/controller/disruption/disruption.go

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Key, Next, resources};
use atoll_meta::time::{self, Timestamp};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::context::Context;
use crate::shared::conditions;
use crate::shared::pods;

const TIMEOUT: i64 = 120;
const CONDITION: &str = "DisruptionTarget";

/// Returns the time until the condition is stale; `None` if it never is.
pub fn time_left(pod: &Value, now: Timestamp) -> Option<Duration> {
    if object::is_being_deleted(pod) || pods::is_terminal(pod) {
        return None;
    }
    let condition = conditions::find(pod, CONDITION)?;
    // Terminations by the kubelet have no time limit.
    if !condition.is_true() || condition.reason() == "TerminationByKubelet" {
        return None;
    }
    let since = condition.last_transition_time().and_then(|since| time::parse(since).ok());
    let left = since.map_or(0, |since| since.seconds + TIMEOUT - now.seconds).max(0);
    Some(Duration::from_secs(left.unsigned_abs()))
}

pub async fn sync(context: &Context, cache: &Arc<Cache>, key: &Key) -> Result<Next, Status> {
    let now = context.clock.now();
    let Some(pod) = cache.get(key) else { return Ok(Next::Done) };
    match time_left(&pod, now) {
        None => return Ok(Next::Done),
        Some(left) if !left.is_zero() => return Ok(Next::After(left)),
        Some(_) => {}
    }
    let mut updated = pod.as_ref().clone();
    let mut condition = json!({"type": CONDITION, "status": "False", "lastProbeTime": null});
    if object::generation(&pod) > 0 {
        condition["observedGeneration"] = object::generation(&pod).into();
    }
    conditions::set_in(&mut updated, condition, &now.to_time());
    match context.api().update_status(&resources::PODS, &updated).await {
        Ok(written) => cache.wrote(&written),
        Err(status) if status.reason() == "NotFound" => {}
        Err(status) => return Err(status),
    }
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disruption_target_is_stale_after_two_minutes() {
        let now = time::parse("2026-01-01T00:10:00Z").unwrap();
        for (status, reason, phase, since, expected) in [
            ("True", "EvictionByEvictionAPI", "Running", "2026-01-01T00:09:00Z", Some(60)),
            ("True", "EvictionByEvictionAPI", "Running", "2026-01-01T00:07:00Z", Some(0)),
            ("True", "TerminationByKubelet", "Running", "2026-01-01T00:07:00Z", None),
            ("False", "", "Running", "2026-01-01T00:07:00Z", None),
            ("True", "EvictionByEvictionAPI", "Failed", "2026-01-01T00:07:00Z", None),
        ] {
            let condition =
                json!({"type": CONDITION, "status": status, "reason": reason, "lastTransitionTime": since});
            let pod = json!({"metadata": {}, "status": {"phase": phase, "conditions": [condition]}});
            assert_eq!(time_left(&pod, now), expected.map(Duration::from_secs), "{pod}");
        }
    }
}
