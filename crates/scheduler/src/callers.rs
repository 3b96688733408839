//! Warns when the Pods of a Service leave a cluster where other namespaces of the workspace have workloads:
//! these no longer reach it by its DNS name there. The callers of a Service are not known, so the event names
//! the namespaces that could call it.

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_fleet::selecting::{selector, selects};
use atoll_informer::{Key, resources};
use atoll_meta::object;
use serde_json::Value;

use crate::Scheduler;
use crate::ledger::Ledger;
use crate::serving::first_by_name;
use crate::writer::{PlacementTarget, Wanted};

/// The reason of the events.
const SERVICE_LEFT: &str = "ServiceLeft";
/// Most Services of a workload, clusters that it leaves, and namespaces in a message.
const MAX_SERVICES: usize = 8;
const MAX_CLUSTERS: usize = 8;
const MAX_NAMESPACES: usize = 8;
/// Most Services, and most other workloads, of the namespace that are examined.
const MAX_LOOKED_AT: usize = 4096;

impl Scheduler {
    /// Warns about the Services that leave clusters with the Pods of a workload.
    pub fn warn_callers(&self, key: &Key, target: &PlacementTarget, wanted: &Wanted) {
        let before = Placement::of(&target.object);
        let left = left(&before.clusters, wanted);
        if left.is_empty() {
            return;
        }
        let services = self.services_of(target);
        for share in left.into_iter().take(MAX_CLUSTERS) {
            let callers = self.ledger().other_namespaces_on(&key.workspace, &target.at.namespace, &share.uid);
            if callers.is_empty() {
                continue;
            }
            let there = self.others_on(key, target, &share.uid);
            for (service, selector) in &services {
                if there.iter().any(|workload| selects(selector, workload)) {
                    continue;
                }
                let message = message(object::name(service), &share.name, &callers, wanted);
                let recorder = &self.writer.recorder;
                recorder.warning(&target.resource, &target.object, SERVICE_LEFT, message.clone());
                recorder.warning(&resources::SERVICES, service, SERVICE_LEFT, message);
            }
        }
    }

    /// Services that select the Pods of a workload.
    fn services_of(&self, target: &PlacementTarget) -> Vec<(Arc<Value>, atoll_meta::LabelSelector)> {
        let services = self.services.list(&target.at.workspace, &target.at.namespace);
        let selecting = first_by_name(services, MAX_LOOKED_AT).into_iter().filter_map(|service| {
            let selector = selector("Service", &service)?;
            selects(&selector, &target.object).then_some((service, selector))
        });
        selecting.take(MAX_SERVICES).collect()
    }

    /// Other workloads of the namespace that are on a cluster.
    fn others_on(&self, key: &Key, target: &PlacementTarget, cluster: &str) -> Vec<Arc<Value>> {
        let is_on = |ledger: &Ledger, other: &Key| {
            other != key && ledger.clusters_of(other).iter().any(|uid| **uid == *cluster)
        };
        let keys: Vec<Key> = {
            let ledger = self.ledger();
            let placed = ledger.placed_in(&target.at.workspace, &target.at.namespace).into_iter().flatten();
            placed.filter(|other| is_on(&ledger, other)).take(MAX_LOOKED_AT).cloned().collect()
        };
        keys.iter()
            .filter_map(|other| {
                let (cache, at) = self.kinds.target(other)?;
                cache.get(&at)
            })
            .collect()
    }
}

fn has_pods(share: &Share) -> bool {
    share.replicas != Some(0)
}

/// Shares that lose their Pods, if the workload runs elsewhere or is on its way.
fn left<'a>(before: &'a [Share], wanted: &Wanted) -> Vec<&'a Share> {
    let runs = !wanted.phase.is_empty() || wanted.shares.iter().any(has_pods);
    let stays = |share: &Share| wanted.shares.iter().any(|next| next.uid == share.uid && has_pods(next));
    before.iter().filter(|share| runs && has_pods(share) && !stays(share)).collect()
}

fn message(service: &str, cluster: &str, callers: &[Arc<str>], wanted: &Wanted) -> String {
    let mut names = callers.iter().take(MAX_NAMESPACES).map(|name| &**name).collect::<Vec<_>>().join(", ");
    if let Some(more) = callers.len().checked_sub(MAX_NAMESPACES).filter(|more| *more > 0) {
        names.push_str(&format!(" and {more} more"));
    }
    let noun = if callers.len() == 1 { "namespace" } else { "namespaces" };
    let shares = if wanted.target.is_empty() { &wanted.shares } else { &wanted.target };
    let on: Vec<&str> =
        shares.iter().filter(|share| has_pods(share)).map(|share| share.name.as_str()).collect();
    let on = on.join(", ");
    format!(
        "Service {service} leaves cluster {cluster} with its Pods: workloads of the {noun} {names} on {cluster} no longer \
         reach it by its DNS name; if they call it, place them on {on} too"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(words: &str) -> Vec<Share> {
        let share = |word: &str| {
            let (name, replicas) = word.split_once('=').expect("a share is a name and a number");
            Share { replicas: replicas.parse().ok(), ..Share::on(name, name) }
        };
        words.split_whitespace().map(share).collect()
    }

    #[test]
    fn clusters_that_lose_their_pods_are_left() {
        for (before, after, phase, expected) in [
            ("a=2", "b=2", "", "a"),
            ("a=2 b=2", "a=2", "removing", "b"),
            ("a=2", "a=1 b=1", "", ""),
            ("a=2 b=2", "a=4 b=0", "", "b"),
            ("a=2 b=0", "a=2", "", ""),
            // It starts on another cluster when it has stopped.
            ("a=2", "", "stopping", "a"),
            // It was stopped or scaled to zero, and runs on no cluster.
            ("a=2", "", "", ""),
            ("a=2", "a=0", "", ""),
        ] {
            let wanted = Wanted { shares: shares(after), phase: phase.into(), ..Wanted::default() };
            let before_shares = shares(before);
            let names: Vec<&str> =
                left(&before_shares, &wanted).iter().map(|share| share.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{before} to {after}");
        }
    }

    #[test]
    fn few_namespaces_are_named() {
        let names: Vec<Arc<str>> = (0..10).map(|number| Arc::from(format!("n{number}"))).collect();
        let wanted = Wanted { shares: shares("west=2"), ..Wanted::default() };
        let message = message("api", "east", &names, &wanted);
        assert!(message.contains("n7 and 2 more on east no longer reach it"), "{message}");
        assert!(message.ends_with("place them on west too"), "{message}");
    }
}
