//! Preemption: evicting Pods of lower priority to make room for a Pod.

// upstream: pkg/scheduler/framework/preemption/preemption.go
// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go

use std::cmp::Reverse;
use std::sync::Arc;

use crate::choose_node::Random;
use crate::filter::Cycle;
use crate::pod::Pod;
use crate::refusal::{Histogram, Refusal};

/// Minimum number and percentage of nodes for which victims are selected (`MinCandidateNodesAbsolute`,
/// `MinCandidateNodesPercentage`).
const LEAST_CANDIDATES: usize = 100;
const CANDIDATES_PERCENTAGE: usize = 10;

/// The victims of a preemption, and the nominated node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    pub node: Arc<str>,
    /// Pods to evict, the most important first.
    pub victims: Vec<Arc<Pod>>,
    /// Pods of lower priority that were nominated to the node.
    pub displaced: Vec<Arc<Pod>>,
}

/// Reason why no Pod is evicted.
#[derive(Debug)]
pub struct PreemptionFailure {
    pub message: String,
    pub clears_nomination: bool,
}

struct Candidate {
    slot: usize,
    victims: Vec<Arc<Pod>>,
    violations: usize,
}

pub fn preempt(
    cycle: &Cycle<'_>,
    refused: &[(usize, Refusal)],
    random: Random<'_>,
) -> Result<Preemption, PreemptionFailure> {
    let (node_index, pod) = (cycle.node_index, cycle.pod);
    if let Some(message) = ineligible(cycle, refused) {
        return Err(PreemptionFailure { message: message.to_owned(), clears_nomination: false });
    }
    let slots: Vec<usize> =
        refused.iter().filter(|(_, refusal)| refusal.is_resolvable()).map(|(slot, _)| *slot).collect();
    let wanted = (slots.len() * CANDIDATES_PERCENTAGE / 100).max(LEAST_CANDIDATES).min(slots.len());
    let offset = if slots.is_empty() { 0 } else { (random() % slots.len() as u64) as usize };
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut histogram = Histogram::default();
    let mut refusals = 0;
    for index in 0..slots.len() {
        match select_victims(cycle, slots[(offset + index) % slots.len()]) {
            Ok(candidate) => candidates.push(candidate),
            Err(refusal) => {
                histogram.count(&refusal);
                refusals += 1;
            }
        }
        if candidates.len() >= wanted && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    let best = candidates.into_iter().min_by_key(cost);
    let best = best.and_then(|best| Some((node_index.at(best.slot)?, best)));
    let Some(((node, place), best)) = best else {
        histogram.add("Preemption is not helpful for scheduling", node_index.len() - refusals);
        return Err(PreemptionFailure {
            message: histogram.sentence(node_index.len()),
            clears_nomination: true,
        });
    };
    let lower = |other: &&Arc<Pod>| other.demand.priority < pod.demand.priority;
    Ok(Preemption {
        node: node.name.clone(),
        victims: best.victims,
        displaced: place.nominated.iter().filter(lower).cloned().collect(),
    })
}

/// Returns why the Pod may not preempt others, if so.
fn ineligible(cycle: &Cycle<'_>, refused: &[(usize, Refusal)]) -> Option<&'static str> {
    let pod = cycle.pod;
    if pod.demand.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let slot = cycle.node_index.slot_of(pod.nominated_node.as_ref()?)?;
    let refusal = refused.iter().find(|(refused, _)| *refused == slot);
    if refusal.is_none_or(|(_, refusal)| !refusal.is_resolvable()) {
        return None;
    }
    let (_, place) = cycle.node_index.at(slot)?;
    let is_terminating = place
        .pods
        .iter()
        .any(|placed| placed.pod.is_preempted && placed.pod.demand.priority < pod.demand.priority);
    is_terminating.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Selects the fewest and least important victims on a node (`SelectVictimsOnNode`).
fn select_victims(cycle: &Cycle<'_>, slot: usize) -> Result<Candidate, Refusal> {
    let Some((node, place)) = cycle.node_index.at(slot) else { return Err(Refusal::NoVictims) };
    let (mut cycle, mut usage) = (cycle.clone(), place.usage.clone());
    let ours = cycle.pod.demand.priority;
    let lower = place.pods.iter().map(|placed| &placed.pod).filter(|pod| pod.demand.priority < ours);
    let mut pods: Vec<Arc<Pod>> = lower.cloned().collect();
    if pods.is_empty() {
        return Err(Refusal::NoVictims);
    }
    for pod in &pods {
        usage.remove(pod);
        cycle.remove_pod(pod, slot);
    }
    cycle.filter_with_nominated_pods(slot, node, &usage, &place.nominated)?;
    pods.sort_by_key(importance);
    let violated = cycle.node_index.budgets.violated(&pods);
    let mut victims = Vec::new();
    let mut violations = 0;
    // Reprieve as many Pods as possible, first those whose eviction would violate a budget.
    for violates in [true, false] {
        for (pod, _) in pods.iter().zip(&violated).filter(|(_, violated)| **violated == violates) {
            usage.add(pod);
            cycle.add_pod(pod, slot);
            if cycle.filter_with_nominated_pods(slot, node, &usage, &place.nominated).is_err() {
                usage.remove(pod);
                cycle.remove_pod(pod, slot);
                violations += usize::from(violates);
                victims.push(pod.clone());
            }
        }
    }
    victims.sort_by_key(importance);
    if victims.is_empty() { Err(Refusal::NoVictims) } else { Ok(Candidate { slot, victims, violations }) }
}

/// Sort key: the most important first, by priority, then by start time.
fn importance(pod: &Arc<Pod>) -> (Reverse<i64>, i64) {
    (Reverse(pod.demand.priority), pod.started.unwrap_or(i64::MAX))
}

/// Cost of a candidate; the cheapest one is chosen (`pickOneNodeForPreemption`).
fn cost(candidate: &Candidate) -> (usize, i64, i64, usize, Reverse<i64>) {
    let priorities = || candidate.victims.iter().map(|pod| pod.demand.priority);
    let highest = priorities().max().unwrap_or(i64::MIN);
    let most_important = candidate.victims.iter().filter(|pod| pod.demand.priority == highest);
    let earliest = most_important.map(|pod| pod.started.unwrap_or(i64::MAX)).min();
    // The offset makes every priority positive, so that the sum grows with every victim.
    let sum = priorities().map(|priority| priority + (i64::from(i32::MAX) + 1)).sum();
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest.unwrap_or(i64::MAX)))
}
