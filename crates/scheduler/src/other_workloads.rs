//! The clusters of other workloads that a policy requires or prefers an object to share, or to avoid.

use std::collections::BTreeSet;
use std::sync::Arc;

use atoll_informer::Key;
use atoll_meta::object;
use atoll_placement::cluster::ClusterState;
use atoll_placement::policy::{Domain, WorkloadRule};
use atoll_placement::rules::OtherWorkloads;

use crate::Scheduler;
use crate::ledger::Ledger;
use crate::rules::topology;

/// Most placed workloads of a namespace with rules about other workloads. Every decision examines all of them.
const MAX_WORKLOADS: usize = 10_000;

/// Resolves rules about other workloads of the namespace of an object (by its queue key, workspace and
/// namespace) to clusters. A rule about workloads without a placement has no effect. Fails if there are too
/// many workloads.
pub fn resolve(
    scheduler: &Scheduler,
    ledger: &Ledger,
    (key, at): (&Key, &Key),
    path: &str,
    rules: &[WorkloadRule],
) -> Result<Vec<OtherWorkloads>, String> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let resolved = rules.iter().zip(clusters(scheduler, ledger, (key, at), rules)?).map(|(rule, on)| {
        let clusters = ledger.fleet.serving(path).filter(|cluster| is_among(ledger, &rule.by, cluster, &on));
        OtherWorkloads {
            text: format!("workloads with {} in the same {}", rule.selector, rule.by.name()),
            clusters: clusters.map(|cluster| cluster.uid.clone()).collect(),
            is_required: true,
        }
    });
    Ok(resolved.filter(|rule| !rule.clusters.is_empty()).collect())
}

/// Uids of the clusters that the matching workloads are on, for each rule.
fn clusters(
    scheduler: &Scheduler,
    ledger: &Ledger,
    (key, at): (&Key, &Key),
    rules: &[WorkloadRule],
) -> Result<Vec<BTreeSet<Arc<str>>>, String> {
    let mut found = vec![BTreeSet::new(); rules.len()];
    let Some(placed) = ledger.placed_in(&at.workspace, &at.namespace) else { return Ok(found) };
    if placed.len() > MAX_WORKLOADS {
        return Err(format!(
            "its policy has rules about other workloads, and its namespace has {} placed workloads, of at most \
             {MAX_WORKLOADS} for such rules; use several namespaces, or remove affinity and antiAffinity from the policy",
            placed.len()
        ));
    }
    for other in placed.iter().filter(|other| *other != key) {
        let target = scheduler.kinds.target(other);
        let Some((cache, object)) = target
            .and_then(|(cache, at)| Some((cache.get(&at)?, cache)))
            .map(|(object, cache)| (cache, object))
        else {
            continue;
        };
        let labels = object::label_map(&object);
        for (rule, found) in rules.iter().zip(&mut found) {
            let is_kind = rule.kind.as_deref().is_none_or(|wanted| wanted == &*cache.resource.kind);
            if is_kind && rule.selector.matches_labels(&labels) {
                found.extend(ledger.clusters_of(other).iter().cloned());
            }
        }
    }
    Ok(found)
}

/// Whether a cluster is in the same domain as one of the others.
fn is_among(ledger: &Ledger, by: &Domain, cluster: &ClusterState, others: &BTreeSet<Arc<str>>) -> bool {
    let Some(topology) = topology(by) else { return others.contains(&cluster.uid) };
    let Some(domain) = topology.domain(cluster) else { return others.contains(&cluster.uid) };
    let mut others = others.iter().filter_map(|uid| ledger.fleet.cluster(uid));
    others.any(|other| topology.domain(other) == Some(domain))
}
