//! The clusters of other workloads that a policy wants an object beside, or away from.

use std::collections::BTreeSet;
use std::sync::Arc;

use atoll_informer::Key;
use atoll_meta::object;
use atoll_placement::cluster::ClusterState;
use atoll_placement::policy::{Domain, WorkloadRule};
use atoll_placement::rules::Neighbours;

use crate::ledger::Ledger;
use crate::rules::topology;
use crate::{Scheduler, workloads};

/// Resolves rules about other workloads of the namespace of an object (`key` in the queue, and where it is) to
/// clusters. A rule about workloads that are placed nowhere yet has no effect.
pub fn resolve(
    scheduler: &Scheduler,
    ledger: &Ledger,
    (key, at): (&Key, &Key),
    path: &str,
    rules: &[WorkloadRule],
) -> Vec<Neighbours> {
    let resolved = rules.iter().map(|rule| {
        let on = clusters(scheduler, ledger, (key, at), rule);
        let clusters = ledger.fleet.serving(path).filter(|cluster| is_among(ledger, &rule.by, cluster, &on));
        Neighbours {
            text: format!("workloads with {} in the same {}", rule.selector, rule.by.name()),
            clusters: clusters.map(|cluster| cluster.uid.clone()).collect(),
            is_required: true,
        }
    });
    resolved.filter(|neighbours| !neighbours.clusters.is_empty()).collect()
}

/// Uids of the clusters that the matching workloads are on.
fn clusters(
    scheduler: &Scheduler,
    ledger: &Ledger,
    (key, at): (&Key, &Key),
    rule: &WorkloadRule,
) -> BTreeSet<Arc<str>> {
    let mut found = BTreeSet::new();
    for (kind, cache) in scheduler.kinds.workloads.iter().enumerate() {
        if rule.kind.as_deref().is_some_and(|wanted| wanted != cache.resource.kind) {
            continue;
        }
        for other in cache.list(&at.workspace, &at.namespace) {
            let of_other = workloads::queue_key(kind, &Key::of(&other));
            let on = ledger.clusters_of(&of_other);
            if !on.is_empty() && of_other != *key && rule.selector.matches_labels(&object::label_map(&other))
            {
                found.extend(on.iter().cloned());
            }
        }
    }
    found
}

/// Whether a cluster is in the same domain as one of the others.
fn is_among(ledger: &Ledger, by: &Domain, cluster: &ClusterState, others: &BTreeSet<Arc<str>>) -> bool {
    let Some(topology) = topology(by) else { return others.contains(&cluster.uid) };
    let Some(domain) = topology.domain(cluster) else { return others.contains(&cluster.uid) };
    let mut others = others.iter().filter_map(|uid| ledger.fleet.cluster(uid));
    others.any(|other| topology.domain(other) == Some(domain))
}
