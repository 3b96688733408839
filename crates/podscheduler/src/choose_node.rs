//! Schedules a Pod: selects a node, or explains why there is none.

// upstream: pkg/scheduler/schedule_one.go

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::filter::{Cycle, PreFilterState};
use crate::node_index::NodeIndex;
use crate::pod::Pod;
use crate::preemption::{self, Preemption};
use crate::refusal::{Histogram, Plugin, Refusal};
use crate::score;
use crate::storage::{Bindings, PreFilterFailure};

/// With fewer nodes than this, all are filtered (`minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES: usize = 100;
const LEAST_PERCENTAGE: usize = 5;
/// Message of upstream's DynamicResources plugin about Pods without resource claims.
const NO_DEVICES: &str = "no new claims to deallocate";

/// Source of random numbers.
pub type Random<'a> = &'a mut dyn FnMut() -> u64;

/// The selected node of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub node: Arc<str>,
    /// Volume bindings that must be made before the Pod is bound.
    pub bindings: Bindings,
}

/// Reason why no node is feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    /// Upstream's message.
    pub message: String,
    /// The plugins that rejected the Pod: only events that concern them can help.
    pub plugins: BTreeSet<Plugin>,
    /// Preemption that would make room.
    pub preemption: Option<Preemption>,
    /// Whether the nominated node of the Pod must be cleared.
    pub clears_nomination: bool,
}

impl NodeIndex {
    /// Selects a node for a Pod.
    ///
    /// # Errors
    ///
    /// No node is feasible; contains the message and a possible preemption.
    pub fn choose(&mut self, pod: &Pod, random: Random<'_>) -> Result<Choice, Unschedulable> {
        if self.is_empty() {
            return Err(Unschedulable {
                message: "no nodes available to schedule pods".to_owned(),
                plugins: BTreeSet::new(),
                preemption: None,
                clears_nomination: true,
            });
        }
        self.sort_by_zone();
        let prefilter = PreFilterState::prepare(self, pod);
        if pod.demand.named_nodes.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(self.rejected(Plugin::NodeAffinity, "pod affinity terms conflict"));
        }
        let (choice, visited) = {
            let cycle = match Cycle::new(self, pod, &prefilter) {
                Ok(cycle) => cycle,
                Err(PreFilterFailure { plugin, message }) => return Err(self.rejected(plugin, &message)),
            };
            let search = find_feasible_nodes(&cycle, &prefilter, random);
            (search.result, search.visited)
        };
        self.next = (self.next + visited) % self.len();
        choice
    }

    /// Assumes the volume bindings of a choice, so that no other Pod uses the volumes.
    pub fn assume_bindings(&mut self, pod: &Pod, choice: &Choice) {
        self.storage.assume(pod, &choice.node, &choice.bindings);
    }

    /// Returns the volume bindings of a Pod on a node.
    pub fn bindings_at(&self, pod: &Pod, node: &str) -> Bindings {
        let claims = self.storage.prefilter(pod).unwrap_or_default();
        let bindings = self.node(node).and_then(|node| self.storage.bindings(&claims, node));
        bindings.unwrap_or_default()
    }

    /// Returns all feasible nodes with their scores, as [`NodeIndex::choose`] compares them in small
    /// clusters.
    pub fn rank(&mut self, pod: &Pod) -> Vec<(Arc<str>, i64)> {
        self.sort_by_zone();
        let prefilter = PreFilterState::prepare(self, pod);
        let Ok(cycle) = Cycle::new(self, pod, &prefilter) else { return Vec::new() };
        let slots = self.order().iter().copied().filter(|slot| filter_node(&cycle, *slot).is_ok());
        let slots: Vec<usize> = slots.collect();
        let points = score::scores(&cycle, &prefilter, &slots);
        let nodes = slots.iter().filter_map(|slot| self.at(*slot)).map(|(node, _)| node.name.clone());
        nodes.zip(points).collect()
    }

    /// Returns the failure of a Pod that PreFilter rejects for all nodes.
    fn rejected(&self, plugin: Plugin, message: &str) -> Unschedulable {
        let nodes = self.len();
        // Upstream's DynamicResources plugin has not run PreFilter, and its PostFilter finds no state.
        Unschedulable {
            message: format!("0/{nodes} nodes are available: {message}. not found"),
            plugins: BTreeSet::from([plugin]),
            preemption: None,
            clears_nomination: false,
        }
    }
}

struct Search {
    result: Result<Choice, Unschedulable>,
    visited: usize,
}

fn find_feasible_nodes(cycle: &Cycle<'_>, prefilter: &PreFilterState, random: Random<'_>) -> Search {
    let (node_index, pod) = (cycle.node_index, cycle.pod);
    let chosen = |slot: usize, visited: usize| {
        let result = match node_index.at(slot) {
            Some((node, _)) => {
                let bindings = node_index.storage.bindings(&cycle.claims, node).unwrap_or_default();
                Ok(Choice { node: node.name.clone(), bindings })
            }
            None => Err(Unschedulable {
                message: String::new(),
                plugins: BTreeSet::new(),
                preemption: None,
                clears_nomination: false,
            }),
        };
        Search { result, visited }
    };
    // The nominated node is most likely the only feasible one.
    let nominated = pod.nominated_node.as_ref().and_then(|name| node_index.slot_of(name));
    if let Some(slot) = nominated.filter(|slot| filter_node(cycle, *slot).is_ok()) {
        return chosen(slot, 0);
    }
    let named: Vec<usize>;
    let (slots, start) = match &pod.demand.named_nodes {
        None => (node_index.order(), node_index.next),
        Some(names) => {
            named = names.iter().filter_map(|name| node_index.slot_of(name)).collect();
            (&*named, 0)
        }
    };
    let enough = num_feasible_nodes(slots.len());
    let mut feasible = Vec::with_capacity(enough);
    let mut refused = Vec::new();
    for index in 0..slots.len() {
        let slot = slots[(start + index) % slots.len()];
        match filter_node(cycle, slot) {
            Ok(()) => feasible.push(slot),
            Err(refusal) => refused.push((slot, refusal)),
        }
        if feasible.len() == enough {
            break;
        }
    }
    let visited = feasible.len() + refused.len();
    match *feasible {
        [] => Search { result: Err(refusal(cycle, refused, random)), visited },
        [slot] => chosen(slot, visited),
        _ => chosen(select_host(&feasible, &score::scores(cycle, prefilter, &feasible), random), visited),
    }
}

fn filter_node(cycle: &Cycle<'_>, slot: usize) -> Result<(), Refusal> {
    let Some((node, place)) = cycle.node_index.at(slot) else { return Err(Refusal::NodeName) };
    match &*place.nominated {
        [] => cycle.filter_node(slot, node, &place.usage),
        nominated => cycle.filter_with_nominated_pods(slot, node, &place.usage, nominated),
    }
}

/// Returns how many feasible nodes are scored: in large clusters not all, to save time
/// (`numFeasibleNodesToFind`).
fn num_feasible_nodes(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let percentage = 50_usize.saturating_sub(nodes / 125).max(LEAST_PERCENTAGE);
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES)
}

/// Returns one of the nodes with the highest score at random (`selectHost`).
fn select_host(slots: &[usize], points: &[i64], random: Random<'_>) -> usize {
    let most = points.iter().copied().max().unwrap_or_default();
    let ties = points.iter().filter(|points| **points == most).count().max(1);
    let pick = if ties == 1 { 0 } else { (random() % ties as u64) as usize };
    let mut tied = slots.iter().zip(points).filter(|(_, points)| **points == most).map(|(slot, _)| *slot);
    tied.nth(pick).unwrap_or_default()
}

fn refusal(cycle: &Cycle<'_>, refused: Vec<(usize, Refusal)>, random: Random<'_>) -> Unschedulable {
    let nodes = cycle.node_index.len();
    let mut histogram = Histogram::default();
    let mut plugins = BTreeSet::new();
    for (_, refusal) in &refused {
        histogram.count(refusal);
        plugins.extend(refusal.plugin());
    }
    if cycle.pod.demand.named_nodes.is_some() {
        plugins.insert(Plugin::NodeAffinity);
        if refused.len() < nodes {
            histogram.add("node(s) didn't satisfy plugin(s) [NodeAffinity]", nodes - refused.len());
        }
    }
    let mut message = histogram.sentence(nodes);
    let mut clears_nomination = false;
    let preemption = match preemption::preempt(cycle, &refused, random) {
        Ok(preemption) => Some(preemption),
        Err(refusal) => {
            message.push_str(&format!(" {NO_DEVICES}, preemption: {}", refusal.message));
            clears_nomination = refusal.clears_nomination;
            None
        }
    };
    Unschedulable { message, plugins, preemption, clears_nomination }
}
