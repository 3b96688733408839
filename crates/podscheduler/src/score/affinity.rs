//! Score for preferred affinity and anti-affinity between Pods.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go

use super::MAX;
use crate::filter::{Cycle, PreFilterState};
use crate::node_index::{NO_DOMAIN, NodeIndex, TermEffect, Topology};

/// Scores by domain of one topology.
struct Points<'a> {
    key: &'a str,
    topology: &'a Topology,
    by_domain: Vec<i64>,
}

/// Returns the scores of the candidates; empty if no term applies.
pub fn scores(cycle: &Cycle<'_>, prefilter: &PreFilterState, slots: &[usize]) -> Vec<i64> {
    let (pod, node_index) = (cycle.pod, cycle.node_index);
    let mut all: Vec<Points<'_>> = Vec::new();
    for ((weight, term), counted) in pod.demand.affinity.preferred.iter().zip(&prefilter.preferred) {
        give(&mut all, node_index, &term.topology, node_index.tallies.counts(counted), *weight);
    }
    for (topology, effect, counts) in node_index.existing_affinity.about(&pod.class, &node_index.namespaces) {
        if let TermEffect::Weight(weight) = effect {
            give(&mut all, node_index, topology, counts, weight);
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let sum = |slot: &usize| -> i64 {
        let near =
            all.iter().filter_map(|points| points.by_domain.get(points.topology.domain(*slot) as usize));
        near.sum()
    };
    let mut points: Vec<i64> = slots.iter().map(sum).collect();
    let least = points.iter().copied().min().unwrap_or_default();
    let difference = points.iter().copied().max().unwrap_or_default() - least;
    for points in &mut points {
        *points = match difference {
            0 => 0,
            _ => (MAX as f64 * ((*points - least) as f64 / difference as f64)) as i64,
        };
    }
    points
}

fn give<'a>(all: &mut Vec<Points<'a>>, node_index: &'a NodeIndex, key: &'a str, counts: &[u32], weight: i64) {
    let index = match all.iter().position(|points| points.key == key) {
        Some(index) => index,
        None => {
            let Some(topology) = node_index.topologies.get(key) else { return };
            all.push(Points { key, topology, by_domain: vec![0; topology.len()] });
            all.len() - 1
        }
    };
    let points = &mut all[index];
    for (count, domain) in counts.iter().zip(points.topology.domains()) {
        if *count > 0 && *domain != NO_DOMAIN {
            points.by_domain[*domain as usize] += weight * i64::from(*count);
        }
    }
}
