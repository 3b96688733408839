//! Writes the scheduling status of Pods, and evicts preemption victims.

// upstream: pkg/scheduler/schedule_one.go
// upstream: pkg/scheduler/framework/preemption/executor.go

use std::sync::Arc;

use atoll_informer::{DeleteOptions, Key, resources};
use atoll_meta::views::PodView;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::{Context, with_timeout};
use crate::pod::Pod;
use crate::preemption::Preemption;

/// Longest message of an Event (`noteLengthLimit`).
const NOTE_LIMIT: usize = 1024;
/// Attempts of a write after conflicts.
const ATTEMPTS: usize = 5;

/// Reports that a Pod is unschedulable, and carries out its preemption.
pub async fn refuse(
    context: &Context,
    workspace: &Arc<str>,
    pod: &Pod,
    message: &str,
    preemption: Option<&Preemption>,
    clears_nomination: bool,
) {
    let nominated = match preemption {
        Some(preemption) => Some(Some(&*preemption.node)),
        None if clears_nomination => Some(None),
        None => None,
    };
    say(context, workspace, pod, "Unschedulable", message, nominated).await;
    if let Some(preemption) = preemption {
        for displaced in &preemption.displaced {
            let key = Context::key(workspace, displaced);
            report(&key, change(context, &key, &displaced.uid, |_| None, Some(None)).await);
        }
        for victim in &preemption.victims {
            evict(context, workspace, pod, victim, &preemption.node).await;
        }
    }
}

/// Reports an error of a Pod.
pub async fn fail(context: &Context, workspace: &Arc<str>, pod: &Pod, message: &str) {
    say(context, workspace, pod, "SchedulerError", message, Some(None)).await;
}

async fn say(
    context: &Context,
    workspace: &Arc<str>,
    pod: &Pod,
    reason: &str,
    message: &str,
    nominated: Option<Option<&str>>,
) {
    let key = Context::key(workspace, pod);
    context.events.warning(&key, &pod.uid, "FailedScheduling", "Scheduling", shortened(message));
    // Another scheduler may have assigned the Pod meanwhile.
    let condition = |object: &Value| {
        PodView::of(object)
            .node_name()
            .is_none()
            .then(|| condition(object, "PodScheduled", "False", reason, message))
    };
    report(&key, change(context, &key, &pod.uid, condition, nominated).await);
}

/// Sets the disruption condition of a victim and deletes it.
async fn evict(context: &Context, workspace: &Arc<str>, preemptor: &Pod, victim: &Pod, node: &str) {
    let key = Context::key(workspace, victim);
    let message = format!("{}: preempting to accommodate a higher priority pod", context.name);
    if !victim.class.terminating {
        let mark = |object: &Value| {
            Some(condition(object, "DisruptionTarget", "True", "PreemptionByScheduler", &message))
        };
        report(&key, change(context, &key, &victim.uid, mark, None).await);
        let options = DeleteOptions { uid: Some(&victim.uid), ..DeleteOptions::default() };
        let deleted = with_timeout(context.informers.api().delete(&resources::PODS, &key, options)).await;
        if let Err(status) = deleted {
            if status.code() != 404 {
                context.shared.stays(workspace, &key);
                report(&key, Err(status));
            }
            return;
        }
    }
    let message = format!("Preempted by pod {} on node {node}", preemptor.uid);
    context.events.normal(&key, &victim.uid, "Preempted", "Preempting", message);
}

fn condition(object: &Value, kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastProbeTime": null,
    });
    let generation = object::generation(object);
    if generation > 0 {
        condition["observedGeneration"] = generation.into();
    }
    condition
}

/// Updates a condition and the nominated node of a Pod, if they change.
async fn change(
    context: &Context,
    key: &Key,
    uid: &str,
    condition: impl Fn(&Value) -> Option<Value>,
    nominated: Option<Option<&str>>,
) -> Result<(), Status> {
    let cache = context.informers.of(&resources::PODS);
    let mut known = cache.get(key);
    for _ in 0..ATTEMPTS {
        let Some(pod) = known.filter(|pod| object::uid(pod) == uid) else { return Ok(()) };
        let now = context.clock.now().to_time();
        let Some(patch) = patch(&pod, condition(&pod), nominated, &now) else { return Ok(()) };
        match with_timeout(context.informers.api().patch(&resources::PODS, key, "status", &patch)).await {
            Ok(patched) => {
                cache.wrote(&patched);
                return Ok(());
            }
            Err(status) if status.code() == 404 => return Ok(()),
            Err(status) if status.code() == 409 => {
                known =
                    with_timeout(context.informers.api().get(&resources::PODS, key)).await.ok().map(Arc::new);
            }
            Err(status) => return Err(status),
        }
    }
    Err(Status::service_unavailable("the Pod keeps changing"))
}

/// Returns the patch of a Pod's status; `None` if nothing changes.
fn patch(pod: &Value, condition: Option<Value>, nominated: Option<Option<&str>>, now: &str) -> Option<Value> {
    let mut status = json!({});
    if let Some(mut condition) = condition {
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let known = conditions.iter_mut().find(|known| known["type"] == condition["type"]);
        let is_same = |known: &Value| {
            ["status", "reason", "message", "observedGeneration"]
                .iter()
                .all(|field| known[field] == condition[field])
        };
        match known {
            Some(known) if is_same(known) => {}
            Some(known) => {
                let since = known["lastTransitionTime"].clone();
                let changed = known["status"] != condition["status"] || since.is_null();
                condition["lastTransitionTime"] = if changed { now.into() } else { since };
                *known = condition;
                status["conditions"] = conditions.into();
            }
            None => {
                condition["lastTransitionTime"] = now.into();
                conditions.push(condition);
                status["conditions"] = conditions.into();
            }
        }
    }
    if let Some(nominated) = nominated
        && PodView::of(pod).nominated_node_name() != nominated
    {
        status["nominatedNodeName"] = nominated.into();
    }
    let is_empty = status.as_object().is_none_or(serde_json::Map::is_empty);
    // The patch replaces all conditions, so it must not overwrite those of other writers.
    (!is_empty).then(|| {
        json!({
            "metadata": {"uid": object::uid(pod), "resourceVersion": object::resource_version(pod)},
            "status": status,
        })
    })
}

fn report(key: &Key, result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::warn!(%status, pod = %key, "cannot update the status of a Pod");
    }
}

/// Cuts a message to the limit of Events (`truncateMessage`).
fn shortened(message: &str) -> String {
    const REST: &str = " ...";
    if message.len() <= NOTE_LIMIT {
        return message.to_owned();
    }
    let mut end = NOTE_LIMIT - REST.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{REST}", &message[..end])
}

#[cfg(test)]
mod tests;
