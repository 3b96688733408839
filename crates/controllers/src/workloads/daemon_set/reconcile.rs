//! Computes the pods to create and to delete from nodes and pods.

// upstream: pkg/controller/daemon/daemon_controller.go
// upstream: pkg/controller/daemon/update.go

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use atoll_meta::views::PodView;
use serde_json::Value;

use super::placement::{NodeRequirements, target};
use crate::shared::pods::{is_available, is_ready, is_terminal, phase};
use crate::shared::views::DaemonSetView;
use crate::shared::views::status::{
    CURRENT_NUMBER_SCHEDULED, DESIRED_NUMBER_SCHEDULED, NUMBER_AVAILABLE, NUMBER_MISSCHEDULED, NUMBER_READY,
    NUMBER_UNAVAILABLE, OBSERVED_GENERATION, UPDATED_NUMBER_SCHEDULED,
};
use crate::workloads::history::REVISION_LABEL;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";

pub struct Observed<'a> {
    pub set: &'a Value,
    pub nodes: &'a [Arc<Value>],
    pub pods: &'a [Arc<Value>],
    /// Hash of the current revision.
    pub hash: &'a str,
    pub now: Timestamp,
}

/// Actions to perform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Nodes on which to create a pod.
    pub create: Vec<String>,
    pub delete: Vec<Arc<Value>>,
    /// Failed pods with their nodes; deleted with a backoff.
    pub failed: Vec<(String, Arc<Value>)>,
    /// Succeeded pods with their nodes; deleted because daemon pods should not end.
    pub succeeded: Vec<(String, Arc<Value>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub desired: i64,
    pub current: i64,
    pub misscheduled: i64,
    pub ready: i64,
    pub updated: i64,
    pub available: i64,
}

/// The pod of the new template and the pod of the old one.
type NewAndOld<'a> = (Option<&'a Arc<Value>>, Option<&'a Arc<Value>>);

type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Value>>>;

/// Groups pods by the node that they run on or are bound to. Skips finished pods that are being deleted.
fn by_node<'a>(observed: &Observed<'a>) -> ByNode<'a> {
    let mut found = ByNode::new();
    let remaining = observed.pods.iter().filter(|pod| !(is_terminal(pod) && object::is_being_deleted(pod)));
    for (node, pod) in remaining.filter_map(|pod| Some((target(pod)?, pod))) {
        found.entry(node).or_default().push(pod);
    }
    found
}

/// Whether a pod has the current template of the set.
fn is_updated(observed: &Observed<'_>, pod: &Value) -> bool {
    let generation =
        object::annotation(observed.set, TEMPLATE_GENERATION).and_then(|text| text.parse::<i64>().ok());
    let of_generation = generation.is_some_and(|generation| {
        object::label(pod, TEMPLATE_GENERATION_LABEL) == Some(generation.to_string().as_str())
    });
    of_generation || object::label(pod, REVISION_LABEL) == Some(observed.hash)
}

pub fn template_generation(set: &Value) -> Option<(&'static str, String)> {
    let generation = object::annotation(set, TEMPLATE_GENERATION)?.parse::<i64>().ok()?;
    Some((TEMPLATE_GENERATION_LABEL, generation.to_string()))
}

fn is_pod_available(observed: &Observed<'_>, pod: &Value) -> bool {
    is_available(pod, DaemonSetView::of(observed.set).min_ready_seconds(), observed.now)
}

/// Orders pods with a node first, then by age.
fn oldest_first(one: &&Arc<Value>, other: &&Arc<Value>) -> Ordering {
    let is_waiting = |pod: &Value| PodView::of(pod).node_name().is_none();
    let created = |pod| object::creation_timestamp(pod).unwrap_or_default();
    is_waiting(one)
        .cmp(&is_waiting(other))
        .then_with(|| created(one).cmp(created(other)))
        .then_with(|| object::name(one).cmp(object::name(other)))
}

/// Returns the nodes that need a pod and the pods that must not run.
pub fn manage(observed: &Observed<'_>) -> Changes {
    let (requirements, on) = (NodeRequirements::of(observed.set), by_node(observed));
    let surges = limits(observed.set, 1).surge > 0;
    let mut changes = Changes::default();
    for node in observed.nodes {
        let (fit, name) = (requirements.fit(node), object::name(node));
        let pods = on.get(name);
        match pods {
            None if fit.should_run => changes.create.push(name.into()),
            _ if fit.should_continue => {
                let running = unfinished_pods(pods.map_or(&[], Vec::as_slice), name, &mut changes);
                match surges {
                    true if running.is_empty() && fit.should_run => changes.create.push(name.into()),
                    true => prune_surge(observed, &running, &mut changes),
                    false => changes.delete.extend(running.into_iter().skip(1).cloned()),
                }
            }
            _ => {
                let remaining = pods.into_iter().flatten().filter(|pod| !object::is_being_deleted(pod));
                changes.delete.extend(remaining.map(|pod| (*pod).clone()));
            }
        }
    }
    // The pod garbage collector skips pods without `nodeName`, so pods bound to a deleted node are deleted
    // here.
    let known: HashSet<&str> = observed.nodes.iter().map(|node| object::name(node)).collect();
    for pods in on.iter().filter(|(node, _)| !known.contains(*node)).map(|(_, pods)| pods) {
        let waiting = pods.iter().filter(|pod| PodView::of(pod).node_name().is_none());
        changes.delete.extend(waiting.map(|pod| (*pod).clone()));
    }
    changes.delete.retain(|pod| !object::is_being_deleted(pod));
    changes
}

/// Returns the unfinished pods of a node, oldest first. Finished ones are recorded in `changes`.
fn unfinished_pods<'a>(pods: &[&'a Arc<Value>], node: &str, changes: &mut Changes) -> Vec<&'a Arc<Value>> {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|pod| !object::is_being_deleted(pod)) {
        match phase(pod) {
            "Failed" => changes.failed.push((node.into(), (*pod).clone())),
            "Succeeded" => changes.succeeded.push((node.into(), (*pod).clone())),
            _ => running.push(*pod),
        }
    }
    running.sort_by(oldest_first);
    running
}

/// With surge, keeps one new and one old pod per node; the old one until the new one is available.
fn prune_surge(observed: &Observed<'_>, running: &[&Arc<Value>], changes: &mut Changes) {
    if running.len() <= 1 {
        return;
    }
    let (mut new, mut old) = (None, None);
    for pod in running {
        let slot =
            if object::label(pod, REVISION_LABEL) == Some(observed.hash) { &mut new } else { &mut old };
        match slot {
            None => *slot = Some(*pod),
            Some(_) => changes.delete.push((*pod).clone()),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!is_ready(old) || is_pod_available(observed, new))
    {
        changes.delete.push(old.clone());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    surge: i64,
    unavailable: i64,
}

/// Returns how many pods may be unavailable or surplus during an update.
fn limits(set: &Value, desired: i64) -> Limits {
    let Some(rolling) = DaemonSetView::of(set).rolling_update() else {
        return Limits { surge: 0, unavailable: 0 };
    };
    Limits {
        surge: scaled(rolling.max_surge, desired),
        unavailable: scaled(rolling.max_unavailable, desired),
    }
}

/// Returns a number, or a percentage of `total`, rounded up.
fn scaled(value: &Value, total: i64) -> i64 {
    let percent = || value.as_str()?.strip_suffix('%')?.parse::<i64>().ok();
    value.as_i64().or_else(|| Some((percent()?.saturating_mul(total) + 99).div_euclid(100))).unwrap_or(0)
}

/// Returns the next actions of a rolling update.
pub fn rolling_update(observed: &Observed<'_>) -> Changes {
    if !DaemonSetView::of(observed.set).is_rolling() {
        return Changes::default();
    }
    let (requirements, mut on) = (NodeRequirements::of(observed.set), by_node(observed));
    let wanted: HashSet<&str> = observed
        .nodes
        .iter()
        .filter(|node| requirements.fit(node).should_run)
        .map(|node| object::name(node))
        .collect();
    for node in &wanted {
        on.entry(node).or_default();
    }
    let desired = wanted.len() as i64;
    let mut limits = limits(observed.set, desired);
    if desired > 0 && limits == (Limits { surge: 0, unavailable: 0 }) {
        limits.unavailable = 1;
    }
    match limits.surge {
        0 => rolling_update_without_surge(observed, &on, limits.unavailable),
        surge => rolling_update_with_surge(observed, &on, &wanted, surge),
    }
}

/// Returns the new and the old pod of a node; `None` if there are several of either.
fn new_and_old<'a>(observed: &Observed<'_>, pods: &[&'a Arc<Value>]) -> Option<NewAndOld<'a>> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().filter(|pod| !object::is_being_deleted(pod)) {
        let slot = if is_updated(observed, pod) { &mut new } else { &mut old };
        if slot.replace(*pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// Deletes unavailable old pods, and available ones within `maxUnavailable`.
fn rolling_update_without_surge(observed: &Observed<'_>, on: &ByNode<'_>, most: i64) -> Changes {
    let (mut unavailable, mut replaced, mut candidates) = (0, Vec::new(), Vec::new());
    for pods in on.values() {
        match new_and_old(observed, pods) {
            Some((None, Some(old))) if !is_pod_available(observed, old) => {
                replaced.push(old.clone());
                unavailable += 1;
            }
            Some((None, Some(old))) => candidates.push(old.clone()),
            Some((Some(new), None)) => unavailable += i64::from(!is_pod_available(observed, new)),
            // A pod is missing, or there are too many; `manage` corrects that first.
            _ => unavailable += 1,
        }
    }
    let more = usize::try_from(most - unavailable).unwrap_or(0);
    replaced.extend(candidates.into_iter().take(more));
    Changes { delete: replaced, ..Changes::default() }
}

/// Creates new pods beside old ones within `maxSurge`, and deletes old ones when the new ones are available.
fn rolling_update_with_surge(
    observed: &Observed<'_>,
    on: &ByNode<'_>,
    wanted: &HashSet<&str>,
    most: i64,
) -> Changes {
    let mut changes = Changes::default();
    let (mut misplaced, mut candidates) = (Vec::new(), Vec::new());
    let (mut surging, mut available) = (0, 0);
    for (node, pods) in on {
        let Some((new, old)) = new_and_old(observed, pods) else {
            surging += 1;
            continue;
        };
        available += i64::from(old.or(new).is_some_and(|pod| is_pod_available(observed, pod)));
        let should_run = wanted.contains(node);
        match (new, old) {
            (_, None) => {}
            (None, Some(old)) => match (is_pod_available(observed, old), should_run) {
                (false, false) => changes.delete.push(old.clone()),
                (false, true) => changes.create.push((*node).into()),
                (true, false) => misplaced.push(old.clone()),
                (true, true) => candidates.push((*node).to_owned()),
            },
            (Some(new), Some(_)) if !is_pod_available(observed, new) => surging += 1,
            (Some(_), Some(old)) => changes.delete.push(old.clone()),
        }
    }
    // With surge, available pods on unsuitable nodes are deleted only while enough others are available.
    let spare = usize::try_from(available - wanted.len() as i64).unwrap_or(0);
    changes.delete.extend(misplaced.into_iter().take(spare));
    let more = usize::try_from(most - surging).unwrap_or(0);
    changes.create.extend(candidates.into_iter().take(more));
    changes
}

pub fn counts(observed: &Observed<'_>) -> Counts {
    let (requirements, on) = (NodeRequirements::of(observed.set), by_node(observed));
    let mut counts = Counts::default();
    for node in observed.nodes {
        let oldest = on.get(object::name(node)).and_then(|pods| pods.iter().copied().min_by(oldest_first));
        if !requirements.fit(node).should_run {
            counts.misscheduled += i64::from(oldest.is_some());
            continue;
        }
        counts.desired += 1;
        let Some(pod) = oldest else { continue };
        counts.current += 1;
        counts.ready += i64::from(is_ready(pod));
        counts.available += i64::from(is_ready(pod) && is_pod_available(observed, pod));
        counts.updated += i64::from(is_updated(observed, pod));
    }
    counts
}

/// Returns the status with these counts, if it differs.
pub fn status(set: &Value, counts: Counts) -> Option<Value> {
    let fields = [
        (CURRENT_NUMBER_SCHEDULED, counts.current, true),
        (NUMBER_MISSCHEDULED, counts.misscheduled, true),
        (DESIRED_NUMBER_SCHEDULED, counts.desired, true),
        (NUMBER_READY, counts.ready, true),
        (OBSERVED_GENERATION, object::generation(set), false),
        (UPDATED_NUMBER_SCHEDULED, counts.updated, false),
        (NUMBER_AVAILABLE, counts.available, false),
        (NUMBER_UNAVAILABLE, counts.desired - counts.available, false),
    ];
    let old = DaemonSetView::of(set).status();
    if fields.iter().all(|(field, count, _)| old.count(field) == *count) {
        return None;
    }
    let mut status = Value::Object(old.json().as_object().cloned().unwrap_or_default());
    for (field, count, always) in fields {
        match (count == 0 && !always, status.as_object_mut()) {
            (true, Some(status)) => drop(status.remove(field)),
            _ => status[field] = count.into(),
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests;
