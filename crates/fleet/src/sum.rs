//! One status of an object out of those that it has in several clusters.
//!
//! ```text
//!   records ─ by name of cluster ─ parts ─┬─ numbers added, times compared, lists joined, as the kind has it
//!                                         ├─ conditions ─ by type
//!                                         └─ observedGeneration: what all of them have seen
//!             the status that was ─────────── following ─► the status that is written
//! ```

mod conditions;
mod following;

use atoll_meta::json;
use atoll_meta::quantity::Quantity;
use serde_json::{Map, Value};

use crate::view::{Record, State};

pub(crate) use conditions::attributed;
pub use following::following;

const OBSERVED_GENERATION: &str = "observedGeneration";

/// What one cluster says.
struct Part<'a> {
    cluster: &'a str,
    /// `None` if it has not said anything yet.
    status: Option<&'a Map<String, Value>>,
    /// The generation above that its status is about.
    observed: i64,
    /// What it has against what it was given last.
    refusal: Option<(&'static str, &'a str)>,
}

impl<'a> Part<'a> {
    fn new(cluster: &'a str, record: &'a Record, generation: i64) -> Self {
        let refusal = match record.state {
            State::Conflict => Some(("Conflict", record.message.as_str())),
            State::Refused => Some(("Refused", record.message.as_str())),
            State::Applied | State::Gone => None,
        };
        // What was not applied, or not looked at yet, leaves the status one behind at least.
        let limit = if refusal.is_some() { generation.saturating_sub(1) } else { generation };
        let applied = record.generation.min(limit);
        let seen = if record.observed { applied } else { applied.min(record.generation.saturating_sub(1)) };
        Part { cluster, status: record.status.as_object(), observed: seen.max(0), refusal }
    }

    fn field(&self, name: &str) -> Option<&'a Value> {
        self.status?.get(name)
    }
}

/// How the status of a kind is made of several.
enum Way {
    /// All numbers added.
    Workload,
    Job,
    /// Addresses of all.
    LoadBalancer,
    Claim,
    /// The first one's.
    First,
}

fn way(resource: (&str, &str)) -> Way {
    match resource {
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets")
        | ("", "replicationcontrollers")
        | ("policy", "poddisruptionbudgets")
        | ("autoscaling", "horizontalpodautoscalers") => Way::Workload,
        ("batch", "jobs") => Way::Job,
        ("", "services") | ("networking.k8s.io" | "extensions", "ingresses") => Way::LoadBalancer,
        ("", "persistentvolumeclaims") => Way::Claim,
        _ => Way::First,
    }
}

/// The status above of an object of a resource (group and name) of this generation, from the records of all clusters
/// that have it. `None` if none of them has a status.
pub fn sum(resource: (&str, &str), generation: i64, records: &[(String, Record)]) -> Option<Value> {
    let mut parts: Vec<Part<'_>> = records
        .iter()
        .filter(|(_, record)| record.state != State::Gone)
        .map(|(cluster, record)| Part::new(cluster, record, generation))
        .collect();
    parts.sort_by(|left, right| left.cluster.cmp(right.cluster));
    let mut status = parts.iter().find_map(|part| part.status)?.clone();
    if parts.len() > 1 {
        match way(resource) {
            Way::Workload => {
                numbers(&mut status, &parts);
                revisions(&mut status, &parts);
                joined_map(&mut status, &parts, "disruptedPods");
                extreme_time(&mut status, &parts, "lastScaleTime", Extreme::Latest);
            }
            Way::Job => job(&mut status, &parts),
            Way::LoadBalancer => addresses(&mut status, &parts),
            Way::Claim => claim(&mut status, &parts),
            Way::First => {}
        }
        conditions::merge(&mut status, &parts, resource);
    } else {
        conditions::stamp(&mut status, &parts);
    }
    if resource == ("apps", "deployments") {
        conditions::refuse(&mut status, &parts);
    }
    let observed = parts.iter().map(|part| part.observed).min().unwrap_or(0);
    stamp(&mut status, &parts, observed);
    Some(Value::Object(status))
}

/// Says which generation above was seen, where generations are told at all.
fn stamp(status: &mut Map<String, Value>, parts: &[Part<'_>], observed: i64) {
    let Some(told) = parts.iter().find_map(|part| part.field(OBSERVED_GENERATION)) else { return };
    if observed == 0 {
        status.remove(OBSERVED_GENERATION);
        return;
    }
    // Some kinds write it as a text.
    let value = if told.is_string() { Value::from(observed.to_string()) } else { observed.into() };
    status.insert(OBSERVED_GENERATION.to_owned(), value);
}

/// Adds whatever is a number, but for those that are none of objects.
fn numbers(status: &mut Map<String, Value>, parts: &[Part<'_>]) {
    const GREATEST: &[&str] = &["collisionCount", "currentCPUUtilizationPercentage"];
    let fields = parts.iter().filter_map(|part| part.status).flatten();
    let mut sums: Map<String, Value> = Map::new();
    // A cluster may report anything, and what is not a count must not keep the counts of others from being shown.
    let count = |value: &Value| value.as_i64().map(|number| number.clamp(0, i64::from(i32::MAX)));
    for (name, number) in fields.filter_map(|(name, value)| Some((name, count(value)?))) {
        let before = sums.get(name).and_then(Value::as_i64).unwrap_or(0);
        let sum = if GREATEST.contains(&name.as_str()) {
            before.max(number)
        } else {
            (before + number).min(i64::from(i32::MAX))
        };
        sums.insert(name.clone(), sum.into());
    }
    status.extend(sums);
}

/// Those of the first cluster in which a rollout is under way, so that they are equal only when none is.
fn revisions(status: &mut Map<String, Value>, parts: &[Part<'_>]) {
    const FIELDS: [&str; 2] = ["currentRevision", "updateRevision"];
    let is_moving = |part: &&Part<'_>| part.field(FIELDS[0]) != part.field(FIELDS[1]);
    if let Some(moving) = parts.iter().find(is_moving) {
        for name in FIELDS {
            match moving.field(name) {
                Some(revision) => status.insert(name.to_owned(), revision.clone()),
                None => status.remove(name),
            };
        }
    }
}

fn job(status: &mut Map<String, Value>, parts: &[Part<'_>]) {
    numbers(status, parts);
    // These name pods and indexes of one cluster.
    for name in ["uncountedTerminatedPods", "completedIndexes", "failedIndexes"] {
        status.remove(name);
    }
    extreme_time(status, parts, "startTime", Extreme::Earliest);
    extreme_time(status, parts, "completionTime", Extreme::Latest);
    // It is complete when all are.
    if !parts.iter().all(|part| part.field("completionTime").is_some()) {
        status.remove("completionTime");
    }
}

/// Which of several times counts. Times are written so that their texts sort as they do.
#[derive(Clone, Copy)]
enum Extreme {
    Earliest,
    Latest,
}

impl Extreme {
    fn of<'a>(self, times: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        match self {
            Extreme::Earliest => times.min(),
            Extreme::Latest => times.max(),
        }
    }
}

fn extreme_time(status: &mut Map<String, Value>, parts: &[Part<'_>], name: &str, extreme: Extreme) {
    let times = parts.iter().filter_map(|part| part.field(name).and_then(Value::as_str));
    if let Some(time) = extreme.of(times) {
        status.insert(name.to_owned(), time.into());
    }
}

/// The entries of all in one map; of those with the same key the first one's.
fn joined_map(status: &mut Map<String, Value>, parts: &[Part<'_>], name: &str) {
    let entries = parts.iter().rev().filter_map(|part| part.field(name)?.as_object()).flatten();
    let joined: Map<String, Value> = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !joined.is_empty() {
        status.insert(name.to_owned(), joined.into());
    }
}

fn addresses(status: &mut Map<String, Value>, parts: &[Part<'_>]) {
    let mut all: Vec<Value> = Vec::new();
    let lists = parts.iter().filter_map(|part| part.field("loadBalancer")?.get("ingress")?.as_array());
    for address in lists.flatten() {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    let balancer = status.entry("loadBalancer").or_insert_with(|| Map::new().into());
    if let (Some(balancer), false) = (balancer.as_object_mut(), all.is_empty()) {
        balancer.insert("ingress".to_owned(), all.into());
    }
}

/// Bound if it is everywhere; as large as it is everywhere.
fn claim(status: &mut Map<String, Value>, parts: &[Part<'_>]) {
    let phases = || parts.iter().map(|part| part.field("phase").and_then(Value::as_str).unwrap_or("Pending"));
    let phase = ["Lost", "Pending"].into_iter().find(|phase| phases().any(|one| one == *phase));
    status.insert("phase".to_owned(), phase.unwrap_or("Bound").into());
    let mut least: Map<String, Value> = Map::new();
    for (name, amount) in parts.iter().filter_map(|part| part.field("capacity")?.as_object()).flatten() {
        let is_less = least.get(name).is_none_or(|before| quantity(amount) < quantity(before));
        if is_less {
            least.insert(name.clone(), amount.clone());
        }
    }
    if !least.is_empty() {
        status.insert("capacity".to_owned(), least.into());
    }
    if let Some(modes) = parts.iter().find_map(|part| part.field("accessModes")) {
        status.insert("accessModes".to_owned(), modes.clone());
    }
}

fn quantity(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text).ok(),
        other => Quantity::parse(&json::to_string(other)).ok(),
    }
}

#[cfg(test)]
mod tests;
