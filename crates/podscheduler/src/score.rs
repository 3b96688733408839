//! Scores of feasible nodes.

// upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
// upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
// upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go

mod affinity;
mod spreading;

use crate::filter::{Cycle, PreFilterState};
use crate::node::Node;
use crate::node_index::NodeUsage;
use crate::pod::Pod;
use crate::{node_affinity, taints};

/// Highest score of a plugin (`MaxNodeScore`).
const MAX: i64 = 100;
const TAINTS_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREADING_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// Returns the scores of the nodes in these entries.
pub fn scores(cycle: &Cycle<'_>, prefilter: &PreFilterState, slots: &[usize]) -> Vec<i64> {
    let pod = cycle.pod;
    let mut totals: Vec<i64> = Vec::with_capacity(slots.len());
    let mut intolerable_taints = Vec::with_capacity(slots.len());
    let mut preferences = Vec::new();
    for slot in slots {
        let Some((node, place)) = cycle.node_index.at(*slot) else {
            totals.push(0);
            intolerable_taints.push(0);
            continue;
        };
        totals.push(resources(pod, node, &place.usage));
        intolerable_taints.push(taints::intolerable_taints(&pod.demand.tolerations, &node.taints));
        if !pod.demand.preferred_nodes.is_empty() {
            preferences.push(node_affinity::preference(
                &pod.demand.preferred_nodes,
                &node.name,
                &node.labels,
            ));
        }
    }
    normalize(&mut intolerable_taints, true);
    add(&mut totals, &intolerable_taints, TAINTS_WEIGHT);
    normalize(&mut preferences, false);
    add(&mut totals, &preferences, NODE_AFFINITY_WEIGHT);
    add(&mut totals, &spreading::scores(cycle, &prefilter.soft, slots), SPREADING_WEIGHT);
    add(&mut totals, &affinity::scores(cycle, prefilter, slots), POD_AFFINITY_WEIGHT);
    totals
}

/// Adds weighted scores; an empty list adds nothing.
fn add(totals: &mut [i64], points: &[i64], weight: i64) {
    for (total, points) in totals.iter_mut().zip(points) {
        *total += points * weight;
    }
}

/// Scales scores to the maximum, optionally reversed (`DefaultNormalizeScore`).
fn normalize(points: &mut [i64], reverse: bool) {
    let most = points.iter().copied().max().unwrap_or_default();
    for points in points {
        let stretched = if most == 0 { 0 } else { MAX * *points / most };
        *points = if reverse { MAX - stretched } else { stretched };
    }
}

/// Scores resources: free nodes are better (`LeastAllocated`), and those that the Pod balances
/// (`BalancedAllocation`).
fn resources(pod: &Pod, node: &Node, usage: &NodeUsage) -> i64 {
    let demand = &pod.demand;
    let all = &node.allocatable;
    let least = {
        let taken = &usage.assumed;
        let parts = [
            (taken.milli_cpu + demand.assumed.milli_cpu, all.milli_cpu),
            (taken.memory + demand.assumed.memory, all.memory),
        ];
        let (mut sum, mut count) = (0, 0);
        for (taken, all) in parts.into_iter().filter(|(_, all)| *all != 0) {
            sum += if taken > all { 0 } else { share(all - taken, all) };
            count += 1;
        }
        if count == 0 { 0 } else { sum / count }
    };
    let wanted = &demand.requests;
    if wanted.milli_cpu == 0 && wanted.memory == 0 {
        return least;
    }
    let taken = &usage.requested;
    let parts =
        [(wanted.milli_cpu, taken.milli_cpu, all.milli_cpu), (wanted.memory, taken.memory, all.memory)];
    let with = balanced_allocation(parts.map(|(wanted, taken, all)| (taken + wanted, all)));
    let without = balanced_allocation(parts.map(|(_, taken, all)| (taken, all)));
    least + MAX / 2 + (MAX / 2 + with - without) / 2
}

/// Returns a percentage, without overflow for large amounts.
fn share(part: i64, all: i64) -> i64 {
    match part.checked_mul(MAX) {
        Some(product) => product / all,
        None => (i128::from(part) * i128::from(MAX) / i128::from(all)) as i64,
    }
}

/// Returns how close the used fractions of cpu and memory are to each other.
fn balanced_allocation(parts: [(i64, i64); 2]) -> i64 {
    let deviation = match parts {
        [(_, 0), _] | [_, (_, 0)] => 0.0,
        [cpu, memory] => {
            let fraction = |(taken, all): (i64, i64)| (taken as f64 / all as f64).min(1.0);
            ((fraction(cpu) - fraction(memory)) / 2.0).abs()
        }
    };
    ((1.0 - deviation) * MAX as f64) as i64
}
