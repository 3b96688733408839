//! Replicas that clients in the control plane can reach: ready Pods whose endpoints are known above.
//!
//! A move takes old replicas away when new ones are available. Clients above reach Pods through the
//! EndpointSlices of the Services that select them, so a new replica counts only when it is in a slice above.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::scheduled::stays_above;
use atoll_fleet::selecting::{selector, selects};
use atoll_informer::{Cache, Change, Key};
use atoll_meta::object;
use atoll_placement::demand::{CurrentShare, Demand, Work};
use serde_json::Value;

use crate::reports::Reports;
use crate::selected;

/// Delay of a decision because of a Service. Many of them may change at the same time.
pub const WAKE_DELAY: Duration = Duration::from_millis(50);
/// Most Services of a workload that a move waits for, and most that are examined, in the order of their names.
const MAX_SERVICES: usize = 64;
const MAX_LOOKED_AT: usize = 4096;

/// The Services of all namespaces.
pub struct Serving {
    pub services: Arc<Cache>,
    index: usize,
}

impl Serving {
    pub fn new(services: Arc<Cache>) -> Serving {
        let index = services.index(selected::SERVICE_INDEX);
        Serving { services, index }
    }

    /// Lowers the ready replicas of each share that a move leads to, to the endpoints that a Service has there. Shares
    /// that the move takes away are not changed: replicas that are not ready would be taken away first.
    pub fn limit_ready(
        &self,
        at: &Key,
        workload: &Value,
        reports: &Reports,
        target: &[CurrentShare],
        demand: &mut Demand,
    ) {
        // Pods in the network of their node may share an address.
        let is_in_host_network = workload["spec"]["template"]["spec"]["hostNetwork"] == true;
        if demand.work != Work::Replicas || is_in_host_network {
            return;
        }
        let stays = |share: &&CurrentShare| {
            let after = target.iter().find(|after| after.uid == share.uid);
            after.is_some_and(|after| demand.replicas_of(after) >= demand.replicas_of(share))
        };
        let stays: Vec<Arc<str>> =
            demand.current.iter().filter(stays).map(|share| share.uid.clone()).collect();
        for service in self.selecting(at, workload) {
            let placement = Placement::of(&service);
            let is_on = |uid: &str| placement.clusters.iter().any(|of| of.uid == uid);
            let is_dependent = !stays_above(&service) && demand.current.iter().any(|share| is_on(&share.uid));
            let endpoints = reports.endpoints(&at.workspace, object::uid(&service));
            for share in demand.current.iter_mut().filter(|share| stays.contains(&share.uid)) {
                let most = most_ready(&endpoints, (is_on(&share.uid), is_dependent), &share.uid);
                share.ready = share.ready.min(most);
            }
        }
    }

    /// The Services that select the Pods of a workload.
    fn selecting(&self, at: &Key, workload: &Value) -> Vec<Arc<Value>> {
        let keys = selected::index_keys(at, workload);
        let found = keys.iter().flat_map(|key| self.services.by_index(self.index, key)).collect();
        let is_selecting = |service: &Arc<Value>| {
            let selector = selector("Service", service);
            !object::is_being_deleted(service) && selector.is_some_and(|of| selects(&of, workload))
        };
        first_by_name(found, MAX_LOOKED_AT).into_iter().filter(is_selecting).take(MAX_SERVICES).collect()
    }
}

/// The first objects in the order of their names.
pub fn first_by_name(mut objects: Vec<Arc<Value>>, most: usize) -> Vec<Arc<Value>> {
    if objects.len() > most {
        objects.select_nth_unstable_by(most, |one, other| object::name(one).cmp(object::name(other)));
        objects.truncate(most);
    }
    objects.sort_unstable_by(|one, other| object::name(one).cmp(object::name(other)));
    objects
}

/// The number of replicas that can be reached in a cluster: none before a Service that selects them is
/// there, any number if its endpoints are not known or it is not placed there.
fn most_ready(
    endpoints: &HashMap<String, Option<i64>>,
    (is_there, is_dependent): (bool, bool),
    cluster: &str,
) -> i64 {
    match (is_there, is_dependent) {
        (true, _) => endpoints.get(cluster).copied().unwrap_or(Some(0)).unwrap_or(i64::MAX),
        (false, true) => 0,
        (false, false) => i64::MAX,
    }
}

/// Whether a change of a Service may let moves of the workloads in its namespace go on.
pub fn matters(change: &Change) -> bool {
    let relevant = |service: &Option<Arc<Value>>| {
        let service = service.as_deref()?;
        let clusters: Vec<String> =
            Placement::of(service).clusters.into_iter().map(|share| share.uid).collect();
        Some((clusters, service["spec"]["selector"].clone(), object::is_being_deleted(service)))
    };
    relevant(&change.old) != relevant(&change.new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_objects_are_looked_at_always_the_same() {
        let named = |name: &str| Arc::new(serde_json::json!({ "metadata": { "name": name } }));
        let names =
            |found: &[Arc<Value>]| found.iter().map(|one| object::name(one).to_string()).collect::<String>();
        let objects: Vec<Arc<Value>> = ["d", "b", "e", "a", "c"].map(named).into();
        for (most, expected) in [(0, ""), (2, "ab"), (4, "abcd"), (5, "abcde"), (9, "abcde")] {
            assert_eq!(names(&first_by_name(objects.clone(), most)), expected, "{most}");
        }
    }

    #[test]
    fn replicas_count_when_their_endpoints_are_known() {
        let endpoints = HashMap::from([("a".to_string(), Some(2)), ("b".to_string(), None)]);
        for (cluster, service, expected) in [
            ("a", (true, true), 2),
            ("b", (true, true), i64::MAX),
            ("c", (true, true), 0),
            // The Service is placed a moment after the workload.
            ("a", (false, true), 0),
            ("a", (false, false), i64::MAX),
        ] {
            assert_eq!(most_ready(&endpoints, service, cluster), expected, "{cluster} {service:?}");
        }
    }
}
