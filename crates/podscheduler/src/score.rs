//! Which of the nodes that would do is the best.

mod affinity;
mod spreading;

use crate::cycle::{Cycle, Questions};
use crate::fleet::Usage;
use crate::node::Node;
use crate::pod::Pod;
use crate::{node_affinity, taints};

/// The best that one point of view can give.
const MAX: i64 = 100;
const TAINTS_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREADING_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// The points of each of the nodes in these slots.
pub fn scores(cycle: &Cycle<'_>, questions: &Questions, slots: &[usize]) -> Vec<i64> {
    let pod = cycle.pod;
    let mut totals: Vec<i64> = Vec::with_capacity(slots.len());
    let mut reservations = Vec::with_capacity(slots.len());
    let mut preferences = Vec::new();
    for slot in slots {
        let Some((node, place)) = cycle.fleet.at(*slot) else {
            totals.push(0);
            reservations.push(0);
            continue;
        };
        totals.push(resources(pod, node, &place.usage));
        reservations.push(taints::reservations(&pod.demand.tolerations, &node.taints));
        if !pod.demand.preferred_nodes.is_empty() {
            preferences.push(node_affinity::preference(
                &pod.demand.preferred_nodes,
                &node.name,
                &node.labels,
            ));
        }
    }
    normalize(&mut reservations, true);
    add(&mut totals, &reservations, TAINTS_WEIGHT);
    normalize(&mut preferences, false);
    add(&mut totals, &preferences, NODE_AFFINITY_WEIGHT);
    add(&mut totals, &spreading::scores(cycle, &questions.soft, slots), SPREADING_WEIGHT);
    add(&mut totals, &affinity::scores(cycle, questions, slots), POD_AFFINITY_WEIGHT);
    totals
}

/// Adds weighted points; no points at all are points of nobody.
fn add(totals: &mut [i64], points: &[i64], weight: i64) {
    for (total, points) in totals.iter_mut().zip(points) {
        *total += points * weight;
    }
}

/// Stretches points so that the best has all there are, or, the other way round, the least has.
fn normalize(points: &mut [i64], reverse: bool) {
    let most = points.iter().copied().max().unwrap_or_default();
    for points in points {
        let stretched = if most == 0 { 0 } else { MAX * *points / most };
        *points = if reverse { MAX - stretched } else { stretched };
    }
}

/// Nodes with much left are better, and those on which the Pod evens out what is taken.
fn resources(pod: &Pod, node: &Node, usage: &Usage) -> i64 {
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
    let with = evenness(parts.map(|(wanted, taken, all)| (taken + wanted, all)));
    let without = evenness(parts.map(|(_, taken, all)| (taken, all)));
    least + MAX / 2 + (MAX / 2 + with - without) / 2
}

/// A hundredfold part, without overflow for the largest of disks.
fn share(part: i64, all: i64) -> i64 {
    match part.checked_mul(MAX) {
        Some(product) => product / all,
        None => (i128::from(part) * i128::from(MAX) / i128::from(all)) as i64,
    }
}

/// How close the taken parts of processors and memory are to each other.
fn evenness(parts: [(i64, i64); 2]) -> i64 {
    let deviation = match parts {
        [(_, 0), _] | [_, (_, 0)] => 0.0,
        [cpu, memory] => {
            let fraction = |(taken, all): (i64, i64)| (taken as f64 / all as f64).min(1.0);
            ((fraction(cpu) - fraction(memory)) / 2.0).abs()
        }
    };
    ((1.0 - deviation) * MAX as f64) as i64
}
