//! The condition `Placed`, and the status of objects that run nowhere or on clusters that cannot be reached.
//!
//! ```text
//!   records ─ of clusters that are not ready: nothing available ─► aggregate ─► next_status ─► conditions ─► status above
//!                                     no record at all: zero ─────────────────┘
//! ```

mod deadline;
mod earlier_releases;
mod missing_replicas;
mod whole_job;

use std::collections::HashMap;

use atoll_meta::object;
use atoll_meta::views::condition;
use serde_json::{Map, Value, json};

use crate::aggregate::{aggregate, attributed, next_status};
use crate::placement::{Placement, left_out_text};
use crate::view::{Record, State};

pub use crate::workloads::is_workload;
pub use deadline::deadline;
pub use earlier_releases::was_released;

/// Type of the condition.
pub const CONDITION: &str = "Placed";
/// Reason of the condition of an object without a cluster.
pub const NOT_PLACED: &str = "NotPlaced";
/// Reason of the condition of an object that no cluster takes.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of the condition of an object whose intent goes beyond a policy.
pub const BEYOND_POLICY: &str = "BeyondPolicy";
/// Reason of the condition of an object that is to leave a cluster, and that no other cluster takes.
pub const MOVE_BLOCKED: &str = "MoveBlocked";
/// Reason of the condition of a divided StatefulSet that is to be on one cluster.
pub const STAYS_DIVIDED: &str = "StaysDivided";
/// Reasons of the condition of an object that is to leave a cluster and cannot, each with the cause.
const BLOCKED: [(&str, &str); 4] = [
    (MOVE_BLOCKED, "no other cluster takes all of its replicas"),
    ("VolumesStay", "its volumes would stay behind"),
    (STAYS_DIVIDED, "a divided StatefulSet cannot be put together again"),
    ("NotFenced", "it must not run twice, and may still run on a cluster that cannot be reached"),
];
/// Reason that tells `kubectl rollout status` to stop waiting.
pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// Reason and message of the condition Available of a Deployment with too few replicas, as in Kubernetes.
const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
const NO_MINIMUM: &str = "Deployment does not have minimum availability.";
/// Reasons of the condition of an object without a placement.
const UNPLACED: [&str; 3] = [NOT_PLACED, UNSCHEDULABLE, BEYOND_POLICY];
/// Message of the condition of an object that is on no cluster. Without a scheduler, advice follows.
const NOWHERE: &str = "the object is placed on no cluster, so nothing runs";
/// Longest message, in bytes.
const LONGEST: usize = 1024;

/// Kinds that have the condition; others have Events only.
const WITH_CONDITION: [(&str, &str); 6] = [
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
];

/// Whether objects of a resource (group and name) have the condition `Placed`.
pub fn has_condition(resource: (&str, &str)) -> bool {
    WITH_CONDITION.contains(&resource)
}

/// Whether the reason of a condition says that an object is to leave a cluster and cannot.
pub fn is_blocked(reason: &str) -> bool {
    BLOCKED.iter().any(|(blocked, _)| *blocked == reason)
}

/// Health of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// Not ready; the last reports may be outdated.
    NotReady(String),
    Missing,
}

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionValue {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// Returns the command that places an object of a kind.
pub fn command(kind: &str, namespace: &str, name: &str, cluster: &str) -> String {
    let kind = kind.to_lowercase();
    match namespace {
        "" => format!("atoll place {kind}/{name} --on {cluster}"),
        namespace => format!("atoll place {kind}/{name} --namespace {namespace} --on {cluster}"),
    }
}

/// An object and the reports about it.
pub struct PlacedObject<'a> {
    /// Group and name of the resource.
    pub resource: (&'a str, &'a str),
    pub object: &'a Value,
    /// Last records by cluster name.
    pub records: &'a [(String, Record)],
    pub health: &'a dyn Fn(&str) -> Health,
    /// Advice for an object without a placement. `None` if the scheduler writes its condition, which is then kept.
    pub advice: Option<&'a str>,
}

impl PlacedObject<'_> {
    /// Returns the condition: whether every cluster of the placement has the object.
    pub fn condition(&self) -> ConditionValue {
        let placement = Placement::of(self.object);
        let verdict =
            |status, reason, message: String| ConditionValue { status, reason, message: short(message) };
        let names: Vec<&str> = placement.clusters.iter().map(|share| share.name.as_str()).collect();
        if names.is_empty() {
            if let Some(explained) = self.explained() {
                return explained;
            }
            let what = match placement.leaving.as_slice() {
                [] => NOWHERE.to_string(),
                leaving => {
                    let names: Vec<&str> = leaving.iter().map(|one| one.name.as_str()).collect();
                    format!("the object is being removed from {}", enumerated(&names))
                }
            };
            return verdict("False", NOT_PLACED, with_advice(what, self.advice));
        }
        let health: Vec<(&str, Health)> = names.iter().map(|name| (*name, (self.health)(name))).collect();
        let missing: Vec<&str> =
            health.iter().filter(|(_, health)| *health == Health::Missing).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            let what = format!("there is no cluster {}", missing.join(", "));
            return verdict("False", "ClusterNotFound", with_advice(what, self.advice));
        }
        let records = self.records_by_name();
        let refusals: Vec<(&str, &str, &str)> = names
            .iter()
            .filter_map(|name| {
                let record = records.get(name)?;
                Some((*name, refusal_reason(record)?, record.message.as_str()))
            })
            .collect();
        if let Some((_, reason, _)) = refusals.first() {
            let lines: Vec<(&str, &str)> =
                refusals.iter().map(|(name, _, message)| (*name, *message)).collect();
            return verdict("False", reason, attributed(lines.into_iter()));
        }
        let unready: Vec<(&str, &str)> = health
            .iter()
            .filter_map(|(name, health)| match health {
                Health::NotReady(message) => Some((*name, message.as_str())),
                _ => None,
            })
            .collect();
        if !unready.is_empty() {
            return verdict("Unknown", "ClusterNotReady", attributed(unready.into_iter()));
        }
        let silent: Vec<&str> = names.iter().copied().filter(|name| !records.contains_key(name)).collect();
        if !silent.is_empty() {
            return verdict(
                "Unknown",
                "NotReported",
                format!("nothing reported yet by {}", enumerated(&silent)),
            );
        }
        if let Some(missing) = self.missing(&placement) {
            return verdict("False", UNSCHEDULABLE, missing);
        }
        if !placement.blocked.is_empty() {
            let known = BLOCKED.into_iter().find(|(reason, _)| placement.blocked == *reason);
            let (reason, cause) = known.unwrap_or(BLOCKED[0]);
            let (on, explain) = (enumerated(&names), self.explain_command());
            let message =
                format!("the object is to leave a cluster and stays on {on}: {cause}; see: {explain}");
            return verdict("False", reason, message);
        }
        let mut message = format!("the object is on {}", enumerated(&names));
        if !placement.left_out.is_empty() {
            let left_out = left_out_text(&placement.left_out);
            message.push_str(&format!("; left out: {left_out}; see: {}", self.explain_command()));
        }
        verdict("True", "Applied", message)
    }

    /// Returns the condition in which the scheduler has explained why the object is not placed, if it has.
    fn explained(&self) -> Option<ConditionValue> {
        let known = condition(self.object, CONDITION).filter(|_| self.advice.is_none())?;
        let reason = UNPLACED.into_iter().find(|reason| known.reason() == *reason)?;
        Some(ConditionValue { status: "False", reason, message: known.message().to_string() })
    }

    /// Returns the status to write at the time `now`; `None` if nothing is known.
    pub fn status(&self, now: &str) -> Option<Value> {
        let before = &self.object["status"];
        let generation = object::generation(self.object);
        let records: Vec<(String, Record)> = self.records.iter().map(|record| self.seen(record)).collect();
        let mut summed = aggregate(self.resource, generation, &records);
        if self.resource == ("batch", "jobs")
            && let Some(summed) = &mut summed
            && !whole_job::is_whole(self.object, &self.records_by_name())
        {
            whole_job::reopen(summed);
        }
        if let Some(summed) = &mut summed {
            keep_observed(before, summed, generation);
        }
        if !has_condition(self.resource) {
            return Some(next_status(self.resource, before, summed?));
        }
        let verdict = self.condition();
        let is_waiting = self.is_waiting(&verdict, now);
        let has_failed = !is_waiting
            && (UNPLACED.contains(&verdict.reason) || (summed.is_none() && verdict.status == "False"));
        let is_known = summed.is_some();
        let mut status = summed.unwrap_or_else(|| self.nothing(has_failed));
        if self.resource == ("apps", "deployments") {
            let is_partial = !Placement::of(self.object).clusters.is_empty();
            if !is_known {
                set(&mut status, "Available", "False", MINIMUM_UNAVAILABLE, &verdict.message);
            } else if verdict.reason == UNSCHEDULABLE && is_partial && !self.has_minimum(&status) {
                // Each cluster has the minimum of its own share.
                set(&mut status, "Available", "False", MINIMUM_UNAVAILABLE, NO_MINIMUM);
            }
            if has_failed {
                set(&mut status, "Progressing", "False", DEADLINE_EXCEEDED, &verdict.message);
            } else if is_waiting {
                set(&mut status, "Progressing", "True", verdict.reason, &verdict.message);
            }
            if (has_failed || is_waiting) && !(is_known && is_partial) {
                status["observedGeneration"] = generation.into();
            }
        }
        let mut next = next_status(self.resource, before, status);
        // A finished Job is not changed any more.
        if is_ended(self.resource, before) {
            return Some(next);
        }
        set(&mut next, CONDITION, verdict.status, verdict.reason, &verdict.message);
        keep_times(before, &mut next, now, self.resource == ("apps", "deployments"));
        Some(next)
    }

    /// Returns a record as it counts: the last record of an unreachable cluster tells what may run there, not
    /// what is available.
    fn seen(&self, (cluster, record): &(String, Record)) -> (String, Record) {
        let mut record = record.clone();
        if record.held {
            not_updated(&mut record.status);
        }
        let why = match (self.health)(cluster) {
            Health::Ready => return (cluster.clone(), record),
            Health::NotReady(message) => message,
            Health::Missing => format!("there is no cluster {cluster}"),
        };
        unavailable(self.resource, &mut record.status, &short(why));
        (cluster.clone(), record)
    }

    fn records_by_name(&self) -> HashMap<&str, &Record> {
        self.records.iter().map(|(cluster, record)| (cluster.as_str(), record)).collect()
    }

    /// Returns the status of an object without any record.
    fn nothing(&self, is_settled: bool) -> Value {
        let before = &self.object["status"];
        let mut status = match self.resource {
            ("apps", "daemonsets") => json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            }),
            ("apps", "replicasets" | "statefulsets") | ("", "replicationcontrollers") => {
                json!({ "replicas": 0 })
            }
            _ => json!({}),
        };
        if self.resource.0 != "batch" {
            let observed = match is_settled {
                true => Some(object::generation(self.object)),
                false => before["observedGeneration"].as_i64(),
            };
            if let Some(observed) = observed {
                status["observedGeneration"] = observed.into();
            }
        }
        status
    }
}

/// Sets the observed generation of a status that is older than all generations: clients take a status without one for
/// current.
fn keep_observed(before: &Value, status: &mut Value, generation: i64) {
    let known = before["observedGeneration"].as_i64().map(|known| known.min(generation - 1));
    if let Some(known) = known.filter(|known| *known > 0 && status["observedGeneration"].is_null()) {
        status["observedGeneration"] = known.into();
    }
}

/// Removes the conditions of an unplaced object from a status, so that a rollout can be awaited again.
pub fn clear_unplaced(status: &mut Value) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let is_unplaced =
        |one: &Value| one["type"] == CONDITION && UNPLACED.iter().any(|reason| one["reason"] == *reason);
    if !conditions.iter().any(is_unplaced) {
        return;
    }
    let is_of_unplaced = |one: &Value| {
        let reason = &one["reason"];
        match one["type"].as_str() {
            Some("Progressing") => {
                *reason == DEADLINE_EXCEEDED || UNPLACED.iter().any(|unplaced| reason == unplaced)
            }
            // Its message explains why the object is not placed.
            Some("Available") => *reason == MINIMUM_UNAVAILABLE && one["message"] != NO_MINIMUM,
            _ => false,
        }
    };
    conditions.retain(|one| !is_unplaced(one) && !is_of_unplaced(one));
    // The store does not distinguish empty from absent.
    if conditions.is_empty() {
        status.as_object_mut().map(|status| status.remove("conditions"));
    }
}

/// Returns the status of an object that no cluster has any more, for kinds without the condition; `None` if
/// it stays as it is.
pub fn status_without_clusters(resource: (&str, &str), before: &Value) -> Option<Value> {
    let status = match resource {
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({ "loadBalancer": {} }),
        ("", "persistentvolumeclaims") => json!({ "phase": "Pending" }),
        ("batch", "cronjobs") => {
            let mut status = before.as_object().cloned().unwrap_or_default();
            status.remove("active");
            status.into()
        }
        ("policy", "poddisruptionbudgets") => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        _ => return None,
    };
    (status != *before).then_some(status)
}

fn with_advice(what: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{what}; {advice}"),
        None => what,
    }
}

fn refusal_reason(record: &Record) -> Option<&'static str> {
    match record.state {
        State::Conflict => Some("Conflict"),
        State::Refused => Some("Refused"),
        State::Applied | State::Gone => None,
    }
}

/// Removes updated Pods from the status of a cluster that has an earlier Pod template.
fn not_updated(status: &mut Value) {
    let Some(fields) = status.as_object_mut() else { return };
    for name in ["updatedReplicas", "updatedNumberScheduled", "updateRevision"] {
        fields.remove(name);
    }
}

/// Removes ready and available Pods from a status.
fn unavailable(resource: (&str, &str), status: &mut Value, why: &str) {
    let Some(fields) = status.as_object_mut() else { return };
    let number =
        |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or(0);
    for name in ["readyReplicas", "availableReplicas", "numberAvailable", "ready"] {
        fields.remove(name);
    }
    let zeros: &[&str] = match resource {
        ("apps", "daemonsets") => &["numberReady"],
        ("policy", "poddisruptionbudgets") => &["currentHealthy", "disruptionsAllowed"],
        _ => &[],
    };
    for name in zeros {
        fields.insert((*name).to_owned(), 0.into());
    }
    let (all, lacking) = match resource {
        ("apps", "daemonsets") => ("desiredNumberScheduled", "numberUnavailable"),
        ("apps", "deployments") => ("replicas", "unavailableReplicas"),
        _ => return,
    };
    match number(fields, all) {
        0 => drop(fields.remove(lacking)),
        count => drop(fields.insert(lacking.to_owned(), count.into())),
    }
    if resource == ("apps", "deployments") {
        set(status, "Available", "False", "MinimumReplicasUnavailable", why);
    }
}

/// Whether a Job has finished.
fn is_ended(resource: (&str, &str), status: &Value) -> bool {
    let ends =
        |one: &Value| one["status"] == "True" && (one["type"] == "Complete" || one["type"] == "Failed");
    resource == ("batch", "jobs") && status["conditions"].as_array().into_iter().flatten().any(ends)
}

/// Sets a condition, without its times.
fn set(status: &mut Value, kind: &str, holds: &str, reason: &str, message: &str) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let condition = json!({ "type": kind, "status": holds, "reason": reason, "message": message });
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter().position(|one| one["type"] == kind) {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// Sets missing times of conditions: the previous ones if the condition is unchanged, else now.
fn keep_times(before: &Value, status: &mut Value, now: &str, has_update_time: bool) {
    let known = |kind: &Value| {
        before["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == *kind).cloned()
    };
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if condition["lastTransitionTime"].is_string() {
            continue;
        }
        let old = known(&condition["type"]).unwrap_or_default();
        let same = |fields: &[&str]| fields.iter().all(|field| old[*field] == condition[*field]);
        let time = |field: &str, is_same: bool| match old[field].as_str().filter(|_| is_same) {
            Some(time) => time.to_owned(),
            None => now.to_owned(),
        };
        let since = time("lastTransitionTime", same(&["status"]));
        let updated = time("lastUpdateTime", same(&["status", "reason", "message"]));
        condition["lastTransitionTime"] = since.into();
        if has_update_time {
            condition["lastUpdateTime"] = updated.into();
        }
    }
}

fn enumerated(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

fn short(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = (0..=LONGEST - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests;
