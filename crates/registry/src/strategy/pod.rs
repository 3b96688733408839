//! Pods: what runs on a node does not end at once.

use serde_json::Value;

use super::{ONLY_STATUS, Strategy, counted, field, text};

pub static STRATEGY: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    generation: true,
    returns_deleted: true,
    fields: &[
        field("spec.nodeName"),
        field("spec.restartPolicy"),
        field("spec.schedulerName"),
        field("spec.serviceAccountName"),
        counted("spec.hostNetwork", "spec.hostNetwork", "false"),
        field("status.phase"),
        field("status.podIP"),
        field("status.nominatedNodeName"),
    ],
    grace_period: Some(grace_period),
    ..Strategy::GENERIC
};

/// What was asked for, else what the Pod says; none for a Pod that runs nowhere, or no longer.
fn grace_period(pod: &Value, wanted: Option<i64>) -> i64 {
    let ended = matches!(text(pod, "status.phase"), "Failed" | "Succeeded");
    if text(pod, "spec.nodeName").is_empty() || ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    match wanted.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}
