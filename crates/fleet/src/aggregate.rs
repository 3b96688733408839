//! Aggregates the status of an object on several clusters into one status.
//!
//! ```text
//!   records ─ by name of cluster ─ parts ─┬─ numbers added, times compared, lists joined, depending on the kind
//!                                         ├─ conditions ─ by type
//!                                         └─ observedGeneration: the minimum of all clusters
//!             the previous status ─────────── next_status ─► the status that is written
//! ```

mod conditions;
mod next_status;

use atoll_meta::json;
use atoll_meta::quantity::Quantity;
use serde_json::{Map, Value};

use crate::view::{Record, State};

pub(crate) use conditions::attributed;
pub use next_status::next_status;

const OBSERVED_GENERATION: &str = "observedGeneration";

/// The status reported by one cluster.
struct ClusterStatus<'a> {
    cluster: &'a str,
    /// `None` if nothing was reported yet.
    status: Option<&'a Map<String, Value>>,
    /// Generation above that the status is about.
    observed: i64,
    /// Reason and message if the cluster refused the last shape.
    refusal: Option<(&'static str, &'a str)>,
}

impl<'a> ClusterStatus<'a> {
    fn new(cluster: &'a str, record: &'a Record, generation: i64) -> Self {
        let refusal = match record.state {
            State::Conflict => Some(("Conflict", record.message.as_str())),
            State::Refused => Some(("Refused", record.message.as_str())),
            State::Applied | State::Gone => None,
        };
        // A shape that was refused or not observed yet leaves the status at least one generation behind.
        let limit = if refusal.is_some() { generation.saturating_sub(1) } else { generation };
        let applied = record.generation.min(limit);
        let seen = if record.observed { applied } else { applied.min(record.generation.saturating_sub(1)) };
        ClusterStatus { cluster, status: record.status.as_object(), observed: seen.max(0), refusal }
    }

    fn field(&self, name: &str) -> Option<&'a Value> {
        self.status?.get(name)
    }
}

/// How the statuses of a kind are aggregated.
enum AggregationRule {
    /// Adds all numbers.
    Workload,
    Job,
    /// Collects the addresses of all clusters.
    LoadBalancer,
    Claim,
    /// Takes the status of the first cluster.
    First,
}

fn rule_of(resource: (&str, &str)) -> AggregationRule {
    match resource {
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets")
        | ("", "replicationcontrollers")
        | ("policy", "poddisruptionbudgets")
        | ("autoscaling", "horizontalpodautoscalers") => AggregationRule::Workload,
        ("batch", "jobs") => AggregationRule::Job,
        ("", "services") | ("networking.k8s.io" | "extensions", "ingresses") => AggregationRule::LoadBalancer,
        ("", "persistentvolumeclaims") => AggregationRule::Claim,
        _ => AggregationRule::First,
    }
}

/// Returns the status above of an object of a resource (group and name) with this generation, from the
/// records of its clusters. `None` if no record has a status.
pub fn aggregate(resource: (&str, &str), generation: i64, records: &[(String, Record)]) -> Option<Value> {
    let mut parts: Vec<ClusterStatus<'_>> = records
        .iter()
        .filter(|(_, record)| record.state != State::Gone)
        .map(|(cluster, record)| ClusterStatus::new(cluster, record, generation))
        .collect();
    parts.sort_by(|left, right| left.cluster.cmp(right.cluster));
    let mut status = parts.iter().find_map(|part| part.status)?.clone();
    if parts.len() > 1 {
        match rule_of(resource) {
            AggregationRule::Workload => {
                numbers(&mut status, &parts);
                revisions(&mut status, &parts);
                joined_map(&mut status, &parts, "disruptedPods");
                extreme_time(&mut status, &parts, "lastScaleTime", Extreme::Latest);
            }
            AggregationRule::Job => job(&mut status, &parts),
            AggregationRule::LoadBalancer => addresses(&mut status, &parts),
            AggregationRule::Claim => claim(&mut status, &parts),
            AggregationRule::First => {}
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

/// Sets the observed generation above, for kinds that have one.
fn stamp(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>], observed: i64) {
    let Some(told) = parts.iter().find_map(|part| part.field(OBSERVED_GENERATION)) else { return };
    if observed == 0 {
        status.remove(OBSERVED_GENERATION);
        return;
    }
    // Some kinds write it as a string.
    let value = if told.is_string() { Value::from(observed.to_string()) } else { observed.into() };
    status.insert(OBSERVED_GENERATION.to_owned(), value);
}

/// Adds all numbers, except those that are not counts of objects.
fn numbers(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
    const GREATEST: &[&str] = &["collisionCount", "currentCPUUtilizationPercentage"];
    let fields = parts.iter().filter_map(|part| part.status).flatten();
    let mut sums: Map<String, Value> = Map::new();
    // A cluster may report anything; an invalid count must not hide the counts of other clusters.
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

/// Takes the revisions of the first cluster with a rollout in progress, so that they are equal only if there
/// is none. A cluster whose share is held has no update revision; that of another cluster is to come.
fn revisions(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
    const FIELDS: [&str; 2] = ["currentRevision", "updateRevision"];
    const CURRENT_REPLICAS: &str = "currentReplicas";
    let is_moving = |part: &&ClusterStatus<'_>| part.field(FIELDS[0]) != part.field(FIELDS[1]);
    if let Some(moving) = parts.iter().find(is_moving) {
        for name in FIELDS {
            let other = || parts.iter().find_map(|part| part.field(name));
            match moving.field(name).or_else(other) {
                Some(revision) => status.insert(name.to_owned(), revision.clone()),
                None => status.remove(name),
            };
        }
        // Clusters that have finished count their Pods as current; they are updated.
        let current = |part: &ClusterStatus<'_>| {
            let is_current = part.field(FIELDS[0]) == moving.field(FIELDS[0]);
            part.field(CURRENT_REPLICAS).and_then(Value::as_i64).filter(|_| is_current).unwrap_or(0)
        };
        if status.contains_key(CURRENT_REPLICAS) {
            let sum = parts.iter().map(|part| current(part).clamp(0, i64::from(i32::MAX))).sum::<i64>();
            status.insert(CURRENT_REPLICAS.to_owned(), sum.min(i64::from(i32::MAX)).into());
        }
    }
}

fn job(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
    numbers(status, parts);
    // These refer to Pods and indexes of one cluster.
    for name in ["uncountedTerminatedPods", "completedIndexes", "failedIndexes"] {
        status.remove(name);
    }
    extreme_time(status, parts, "startTime", Extreme::Earliest);
    extreme_time(status, parts, "completionTime", Extreme::Latest);
    // The Job is complete when it is complete on all clusters.
    if !parts.iter().all(|part| part.field("completionTime").is_some()) {
        status.remove("completionTime");
    }
}

/// Selects one of several times. RFC 3339 times sort like their texts.
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

fn extreme_time(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>], name: &str, extreme: Extreme) {
    let times = parts.iter().filter_map(|part| part.field(name).and_then(Value::as_str));
    if let Some(time) = extreme.of(times) {
        status.insert(name.to_owned(), time.into());
    }
}

/// Joins the maps of all clusters; the first cluster wins for equal keys.
fn joined_map(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>], name: &str) {
    let entries = parts.iter().rev().filter_map(|part| part.field(name)?.as_object()).flatten();
    let joined: Map<String, Value> = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !joined.is_empty() {
        status.insert(name.to_owned(), joined.into());
    }
}

fn addresses(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
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

/// The phase is Bound if all claims are bound; the capacity is the smallest one.
fn claim(status: &mut Map<String, Value>, parts: &[ClusterStatus<'_>]) {
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
