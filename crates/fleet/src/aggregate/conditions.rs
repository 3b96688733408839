//! Aggregation of conditions of several clusters.

use serde_json::{Map, Value, json};

use super::{ClusterStatus, Extreme, OBSERVED_GENERATION};

/// Maximum number of conditions of each cluster. Controllers have a handful, and comparing thousands of them would take
/// seconds.
const MAX_CONDITIONS: usize = 100;
/// Maximum number of clusters in a message.
const NAMED: usize = 5;

/// Types that are true as soon as they are true on one cluster: they report a failure or a possibility.
const ANYWHERE: &[&str] = &[
    "Degraded",
    "DisruptionAllowed",
    "Error",
    "Failed",
    "FailureTarget",
    "ReplicaFailure",
    "Reconciling",
    "Stalled",
    "Suspended",
];

/// A condition on one cluster; `None` if it is absent there.
type ClusterCondition<'a> = (&'a ClusterStatus<'a>, Option<&'a Value>);

/// Aggregates the conditions of all clusters into the status.
pub(super) fn merge(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>], resource: (&str, &str)) {
    let mut types: Vec<&str> = Vec::new();
    for kind in parts.iter().flat_map(conditions).filter_map(|condition| condition["type"].as_str()) {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    if types.is_empty() {
        return;
    }
    let merged = types.iter().filter_map(|kind| one(kind, parts, resource));
    let mut merged: Vec<Value> = merged.collect();
    if resource == ("batch", "jobs") {
        finish(&mut merged, status);
    }
    status.insert("conditions".to_owned(), merged.into());
}

/// Sets the observed generation above in the conditions of a single cluster.
pub(super) fn stamp(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
    let Some(part) = parts.first() else { return };
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    conditions.truncate(MAX_CONDITIONS);
    for condition in conditions {
        if let Some(observed) = observed(part, condition) {
            condition[OBSERVED_GENERATION] = observed.into();
        }
    }
}

fn conditions<'a>(part: &ClusterStatus<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    part.field("conditions").and_then(Value::as_array).into_iter().flatten().take(MAX_CONDITIONS)
}

/// Returns the generation above that a condition is about, if it has one.
fn observed(part: &ClusterStatus<'_>, condition: &Value) -> Option<i64> {
    let told = condition.get(OBSERVED_GENERATION)?.as_i64()?;
    // It may be older than the rest of the status.
    let is_behind = part.field(OBSERVED_GENERATION).and_then(Value::as_i64).is_some_and(|whole| told < whole);
    Some(if is_behind { (part.observed - 1).max(0) } else { part.observed })
}

/// Aggregates the conditions of a type.
fn one(kind: &str, parts: &[ClusterStatus<'_>], resource: (&str, &str)) -> Option<Value> {
    let told: Vec<ClusterCondition<'_>> =
        parts.iter().map(|part| (part, conditions(part).find(|one| one["type"] == kind))).collect();
    // Conditions of claims report operations in progress; without one there is no condition.
    let is_anywhere = ANYWHERE.contains(&kind) || resource == ("", "persistentvolumeclaims");
    if is_anywhere {
        let deciding = ["True", "Unknown", "False"].iter().find_map(|wanted| having(&told, wanted))?;
        return Some(written(&deciding, &told, Extreme::Earliest));
    }
    if let Some(deciding) = having(&told, "False").or_else(|| having(&told, "Unknown")) {
        return Some(written(&deciding, &told, Extreme::Earliest));
    }
    let missing: Vec<&ClusterStatus<'_>> =
        told.iter().filter(|(_, condition)| condition.is_none()).map(|(part, _)| *part).collect();
    let everywhere = having(&told, "True")?;
    match (resource, kind) {
        // A cluster without the condition has not started; the others are more informative.
        (("apps", "deployments"), "Progressing") => {
            let is_under_way = |(_, one): &ClusterCondition<'_>| {
                one.is_some_and(|one| one["reason"] != "NewReplicaSetAvailable")
            };
            let under_way: Vec<ClusterCondition<'_>> =
                everywhere.iter().copied().filter(is_under_way).collect();
            let deciding = if under_way.is_empty() { everywhere } else { under_way };
            Some(written(&deciding, &told, Extreme::Latest))
        }
        _ if missing.is_empty() => Some(written(&everywhere, &told, Extreme::Latest)),
        // Jobs have such a condition only when it is true.
        (("batch", "jobs"), _) => None,
        (("apps", "deployments"), _) => {
            Some(unreported(&everywhere, &missing, "False", "MinimumReplicasUnavailable"))
        }
        _ => Some(unreported(&everywhere, &missing, "Unknown", "NotReported")),
    }
}

fn having<'a>(told: &[ClusterCondition<'a>], wanted: &str) -> Option<Vec<ClusterCondition<'a>>> {
    let found: Vec<ClusterCondition<'a>> =
        told.iter().copied().filter(|(_, one)| one.is_some_and(|one| one["status"] == wanted)).collect();
    (!found.is_empty()).then_some(found)
}

/// Returns the condition of the deciding clusters with the reason of the first one; the message names the
/// clusters unless all have the same message.
fn written(deciding: &[ClusterCondition<'_>], told: &[ClusterCondition<'_>], extreme: Extreme) -> Value {
    let first = deciding.iter().find_map(|(_, one)| *one).cloned();
    let mut condition = first.unwrap_or_default();
    let message = |one: &ClusterCondition<'_>| {
        one.1.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
    };
    let messages: Vec<String> = deciding.iter().map(message).collect();
    let is_unanimous = deciding.len() == told.len() && messages.iter().all(|other| *other == messages[0]);
    if !is_unanimous {
        let lines = deciding.iter().zip(&messages).map(|((part, _), text)| (part.cluster, text.as_str()));
        condition["message"] = attributed(lines).into();
    }
    let times = |name: &'static str| {
        deciding.iter().filter_map(move |(_, one)| one.and_then(|one| one.get(name)?.as_str()))
    };
    if let Some(time) = extreme.of(times("lastTransitionTime")) {
        condition["lastTransitionTime"] = time.into();
    }
    for name in ["lastUpdateTime", "lastProbeTime"] {
        if let Some(time) = times(name).max() {
            condition[name] = time.into();
        }
    }
    let seen = told.iter().filter_map(|(part, one)| one.and_then(|one| observed(part, one))).min();
    if let Some(seen) = seen {
        condition[OBSERVED_GENERATION] = seen.into();
    }
    condition
}

/// Returns the condition if some clusters have not reported it.
fn unreported(
    told: &[ClusterCondition<'_>],
    missing: &[&ClusterStatus<'_>],
    status: &str,
    reason: &str,
) -> Value {
    let mut condition = written(told, told, Extreme::Latest);
    let lines = missing.iter().map(|part| {
        let message = part.refusal.map_or("", |(_, message)| message);
        (part.cluster, if message.is_empty() { "nothing reported yet" } else { message })
    });
    condition["message"] = attributed(lines).into();
    condition["status"] = status.into();
    condition["reason"] = reason.into();
    if condition.get(OBSERVED_GENERATION).is_some() {
        let seen = missing.iter().map(|part| part.observed).min().unwrap_or(0);
        condition[OBSERVED_GENERATION] =
            seen.min(condition[OBSERVED_GENERATION].as_i64().unwrap_or(0)).into();
    }
    condition
}

/// Returns the messages of the first few clusters.
pub(crate) fn attributed<'a>(lines: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> String {
    let rest = lines.len().saturating_sub(NAMED);
    let named = lines.take(NAMED).map(|(cluster, text)| {
        if text.is_empty() { cluster.to_owned() } else { format!("{cluster}: {text}") }
    });
    let mut message = named.collect::<Vec<_>>().join("; ");
    if rest > 0 {
        message.push_str(&format!("; and {rest} more"));
    }
    message
}

/// A Job that has failed on one cluster has failed. While Pods are still active on other clusters, it has
/// only a failure target, like a Job whose last Pods have not finished. A failed Job is never complete.
fn finish(conditions: &mut Vec<Value>, status: &Map<String, Value>) {
    let Some(failed) = conditions.iter().position(|one| one["type"] == "Failed" && one["status"] == "True")
    else {
        return;
    };
    let at_work =
        ["active", "terminating"].iter().any(|name| status.get(*name).is_some_and(|count| *count != 0));
    let mut failed = conditions.remove(failed);
    conditions.retain(|one| one["type"] != "Complete" && one["type"] != "SuccessCriteriaMet");
    if !at_work {
        conditions.push(failed);
    } else if !conditions.iter().any(|one| one["type"] == "FailureTarget") {
        failed["type"] = "FailureTarget".into();
        conditions.push(failed);
    }
}

/// Sets the Progressing condition of a Deployment that a cluster refuses to False; older replicas there may
/// continue to run.
pub(super) fn refuse(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
    let refusals: Vec<(&str, &str, &str)> = parts
        .iter()
        .filter_map(|part| part.refusal.map(|(reason, message)| (part.cluster, reason, message)))
        .collect();
    let Some((_, reason, _)) = refusals.first() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let found = conditions.iter().position(|one| one["type"] == "Progressing");
    let index = found.unwrap_or_else(|| {
        conditions.push(json!({ "type": "Progressing" }));
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    condition["status"] = "False".into();
    condition["reason"] = (*reason).into();
    condition["message"] =
        attributed(refusals.iter().map(|(cluster, _, message)| (*cluster, *message))).into();
}
