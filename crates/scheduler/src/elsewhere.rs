//! The remedy for a workload that was placed by default and has outgrown its cluster: it stays beside the other
//! workloads of its namespace, which it may need, although other clusters have room.

use atoll_fleet::placed_by;
use atoll_placement::decide::decide;
use atoll_placement::demand::Demand;
use atoll_placement::fleet::Fleet;
use atoll_placement::intent::ANNOTATION;
use atoll_placement::rules::{Division, Rules};

use crate::writer::PlacementTarget;

/// Returns the annotation to set, as a sentence with a command; `None` if the workload does not stay for the sake of its
/// namespace, or if the other clusters have no room for it either.
pub fn remedy(fleet: &Fleet, demand: &Demand, rules: &Rules, target: &PlacementTarget) -> Option<String> {
    let is_bound = demand.runs_once || demand.has_bound_claims || !demand.shares_cluster_with_namespace;
    if is_bound || &*rules.by != placed_by::DEFAULT {
        return None;
    }
    let alone = Rules { keeps_namespace_together: false, ..rules.clone() };
    let whole = decide(fleet, demand, &alone);
    let (what, intent) = if let ([share], 0) = (&whole.shares[..], whole.unplaced) {
        (format!("{} has room for all of it", share.name), share.name.to_string())
    } else {
        let divided = decide(fleet, demand, &Rules { division: Division::Capacity, ..alone });
        if divided.unplaced > 0 {
            return None;
        }
        let part = |name: &str, replicas: Option<i64>| format!("{name}={}", replicas.unwrap_or(1));
        let parts = divided.shares.iter().map(|share| part(&share.name, share.replicas));
        ("several clusters together have room for it".to_string(), parts.collect::<Vec<_>>().join(","))
    };
    let (kind, name) = (target.resource.kind.to_lowercase(), &target.at.name);
    let flag = match &*target.at.namespace {
        "" | "default" => String::new(),
        namespace => format!(" --namespace {namespace}"),
    };
    Some(format!(
        "it stays beside the other workloads of its namespace, but {what}: kubectl annotate {kind} {name}{flag} \
         {ANNOTATION}={intent}"
    ))
}
