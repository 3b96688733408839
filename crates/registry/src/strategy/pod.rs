//! Pods: the status of a new Pod, and status fields that updates keep.

// upstream: pkg/registry/core/pod/strategy.go

mod app_armor;
mod parts;
mod quality;
mod selectors;

use serde_json::{Value, json};

use super::{Context, Part, Strategy, counted, disabled, field, spec_differs, text};

pub static STRATEGY: Strategy = Strategy {
    status_keeps: &["ownerReferences"],
    generation: true,
    raises_generation: spec_differs,
    keeps_status: true,
    prepare_create,
    prepare_update: |new, _, _| disabled::drop_from_pod(new),
    prepare_subresource,
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
    parts: &[("ephemeralcontainers", Part::Own), ("resize", Part::Own)],
    explains_empty_lists: true,
    ..Strategy::GENERIC
};

/// The requested grace period, or that of the spec; 0 for a Pod that is not assigned to a node or has ended.
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

fn prepare_create(pod: &mut Value, context: &Context<'_>) {
    // As in upstream, a given class is kept.
    let quality = match text(pod, "status.qosClass") {
        "" => quality::class(pod),
        given => given,
    };
    let mut status = json!({ "phase": "Pending", "qosClass": quality });
    let gates = pod["spec"].get("schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": context.now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
    disabled::drop_from_pod(pod);
    selectors::merge_label_keys(pod);
    app_armor::fields_from_annotations(pod);
}

fn prepare_subresource(subresource: &str, new: &mut Value, old: &Value, _: &Context<'_>) {
    match subresource {
        "ephemeralcontainers" => parts::ephemeral_containers(new, old),
        "resize" => parts::resize(new, old),
        _ => keep_status(new, old),
    }
    disabled::drop_from_pod(new);
}

fn keep_status(new: &mut Value, old: &Value) {
    // Clients that do not know these fields must not remove them.
    let (status, before) = (&mut new["status"], &old["status"]);
    for name in ["qosClass", "observedGeneration"] {
        keep_unset(status, before, name);
    }
    let empty = Vec::new();
    let before = before["conditions"].as_array().unwrap_or(&empty);
    let mut used = vec![false; before.len()];
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        // Condition types may occur repeatedly and are matched in order.
        let same =
            (0..before.len()).find(|index| !used[*index] && before[*index]["type"] == condition["type"]);
        if let Some(index) = same {
            used[index] = true;
            keep_unset(condition, &before[index], "observedGeneration");
        }
    }
}

fn keep_unset(new: &mut Value, old: &Value, name: &str) {
    let unset = |value: &Value| value.is_null() || value == "" || value == 0;
    if new.get(name).is_none_or(unset)
        && let Some(value) = old.get(name).filter(|value| !unset(value))
    {
        new[name] = value.clone();
    }
}
