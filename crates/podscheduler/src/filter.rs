//! Scheduling cycle of one Pod: state that is computed once, and the filters that use it for every node.

// upstream: pkg/scheduler/framework/runtime/framework.go
// upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
// upstream: pkg/scheduler/framework/plugins/nodename/node_name.go
// upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go
// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go

mod affinity;
mod spreading;

use std::sync::Arc;

use crate::node::Node;
use crate::node_index::{CountedPods, NodeIndex, NodeUsage};
use crate::pod::{Demand, Pod};
use crate::refusal::{Refusal, Shortage};
use crate::spread::Constraint;
use crate::storage::{PodClaims, PreFilterFailure};
use crate::taints::{self, Taint};
pub use spreading::counts_node;

use affinity::Affinity;
use spreading::Spreading;

/// State that the filters and scores of a Pod need, computed before a node is selected.
#[derive(Debug, Default)]
pub struct PreFilterState {
    /// Soft spread constraints: those of the Pod, or the default constraints.
    pub soft: Vec<Constraint>,
    pub required: Option<CountedPods>,
    pub required_anti: Vec<CountedPods>,
    pub preferred: Vec<CountedPods>,
}

impl PreFilterState {
    /// Computes the state, and starts the Pod counts that it needs.
    pub fn prepare(node_index: &mut NodeIndex, pod: &Pod) -> Self {
        let demand = &pod.demand;
        let mut prefilter = PreFilterState::default();
        if demand.has_constraints {
            prefilter.soft = demand.constraints.iter().filter(|rule| !rule.is_hard).cloned().collect();
        } else if let Some(selector) = node_index.workloads.default_selector(pod) {
            prefilter.soft = Constraint::defaults(&selector);
        }
        for rule in prefilter.soft.iter().chain(demand.constraints.iter().filter(|rule| rule.is_hard)) {
            node_index.track_topology(&rule.topology);
            node_index.track_count(&spread(pod, rule));
        }
        let affinity = &demand.affinity;
        let matcher = |term: &crate::pod_affinity::Term| term.matcher.clone();
        if !affinity.required.is_empty() {
            prefilter.required = Some(CountedPods::All(affinity.required.iter().map(matcher).collect()));
        }
        prefilter.required_anti =
            affinity.required_anti.iter().map(|term| CountedPods::All(vec![matcher(term)])).collect();
        prefilter.preferred =
            affinity.preferred.iter().map(|(_, term)| CountedPods::All(vec![matcher(term)])).collect();
        let counted = prefilter.required.iter().chain(&prefilter.required_anti).chain(&prefilter.preferred);
        for counted in counted {
            node_index.track_count(counted);
        }
        let preferred = affinity.preferred.iter().map(|(_, term)| term);
        for term in affinity.required.iter().chain(&affinity.required_anti).chain(preferred) {
            node_index.track_topology(&term.topology);
        }
        node_index.track_existing_affinity();
        prefilter
    }
}

/// Returns the Pods that a spread constraint counts.
pub fn spread(pod: &Pod, rule: &Constraint) -> CountedPods {
    CountedPods::Spread { namespace: pod.namespace().clone(), selector: rule.selector.clone() }
}

/// State of a scheduling cycle. Clones simulate added and removed Pods.
#[derive(Clone)]
pub struct Cycle<'a> {
    pub node_index: &'a NodeIndex,
    pub pod: &'a Pod,
    pub claims: PodClaims,
    unschedulable_tolerated: bool,
    spreading: Vec<Spreading<'a>>,
    affinity: Affinity<'a>,
}

impl<'a> Cycle<'a> {
    pub fn new(
        node_index: &'a NodeIndex,
        pod: &'a Pod,
        prefilter: &PreFilterState,
    ) -> Result<Self, PreFilterFailure> {
        let claims = node_index.storage.prefilter(pod)?;
        Ok(Cycle {
            node_index,
            pod,
            claims,
            unschedulable_tolerated: taints::tolerates(&pod.demand.tolerations, &Taint::unschedulable()),
            spreading: Spreading::all(node_index, pod),
            affinity: Affinity::of(node_index, pod, prefilter),
        })
    }

    /// Runs the filters for a node with this usage.
    pub fn filter_node(&self, slot: usize, node: &Node, usage: &NodeUsage) -> Result<(), Refusal> {
        let demand: &Demand = &self.pod.demand;
        if node.is_unschedulable && !self.unschedulable_tolerated {
            return Err(Refusal::Unschedulable);
        }
        if self.pod.node.as_ref().is_some_and(|name| *name != node.name) {
            return Err(Refusal::NodeName);
        }
        if !taints::are_tolerated(&demand.tolerations, &node.taints) {
            return Err(Refusal::Taint);
        }
        if demand.required_nodes.as_ref().is_some_and(|nodes| !nodes.matches(&node.name, &node.labels)) {
            return Err(Refusal::NodeAffinity);
        }
        if demand.ports.iter().any(|port| usage.ports.iter().any(|taken| port.conflicts_with(taken))) {
            return Err(Refusal::Ports);
        }
        if let Some(shortage) = shortage(demand, node, usage) {
            return Err(Refusal::Resources(Box::new(shortage)));
        }
        if self.claims.in_use > 0 {
            return Err(Refusal::ClaimInUse);
        }
        if !self.claims.is_empty() {
            let conflict = self.node_index.storage.conflict(&self.claims, node);
            if !conflict.is_none() {
                return Err(Refusal::Volumes(conflict));
            }
            if self.claims.is_elsewhere(node) {
                return Err(Refusal::VolumeZone);
            }
        }
        for rule in &self.spreading {
            rule.filter_node(slot)?;
        }
        self.affinity.filter_node(slot)
    }

    /// Runs the filters with and without the nominated Pods of a node, so that no Pod takes room that was
    /// made for them.
    pub fn filter_with_nominated_pods(
        &self,
        slot: usize,
        node: &Node,
        usage: &NodeUsage,
        nominated: &[Arc<Pod>],
    ) -> Result<(), Refusal> {
        let ours = self.pod.demand.priority;
        let before = |other: &&Arc<Pod>| other.uid != self.pod.uid && other.demand.priority >= ours;
        if nominated.iter().any(|other| before(&other)) {
            let (mut cycle, mut usage) = (self.clone(), usage.clone());
            for other in nominated.iter().filter(before) {
                usage.add(other);
                cycle.add_pod(other, slot);
            }
            cycle.filter_node(slot, node, &usage)?;
        }
        self.filter_node(slot, node, usage)
    }

    /// Simulates that another Pod is on a node.
    pub fn add_pod(&mut self, other: &Pod, slot: usize) {
        self.change(other, slot, 1);
    }

    /// Simulates that another Pod is no longer on its node.
    pub fn remove_pod(&mut self, other: &Pod, slot: usize) {
        self.change(other, slot, -1);
    }

    fn change(&mut self, other: &Pod, slot: usize, change: i64) {
        spreading::change(&mut self.spreading, self.pod, other, self.node_index, slot, change);
        self.affinity.change(self.pod, other, self.node_index, slot, change);
        self.claims.in_use += change * self.claims.shared_with(other, self.pod.namespace());
    }
}

fn shortage(demand: &Demand, node: &Node, usage: &NodeUsage) -> Option<Shortage> {
    let (wanted, taken, all) = (&demand.requests, &usage.requested, &node.allocatable);
    let mut shortage = Shortage { pods: usage.pods + 1 > node.allowed_pods, ..Shortage::default() };
    if !wanted.is_nothing() {
        let lacks = |wanted: i64, all: i64, taken: i64| wanted > 0 && wanted > all - taken;
        shortage.cpu = lacks(wanted.milli_cpu, all.milli_cpu, taken.milli_cpu);
        shortage.memory = lacks(wanted.memory, all.memory, taken.memory);
        shortage.storage = lacks(wanted.storage, all.storage, taken.storage);
        shortage.is_unresolvable = (shortage.cpu && wanted.milli_cpu > all.milli_cpu)
            || (shortage.memory && wanted.memory > all.memory)
            || (shortage.storage && wanted.storage > all.storage);
        for (name, wanted) in &wanted.scalars {
            let all = all.scalar(name);
            if *wanted != 0 && *wanted > all - taken.scalar(name) {
                shortage.scalars.push(name.clone());
                shortage.is_unresolvable |= *wanted > all;
            }
        }
    }
    (!shortage.is_none()).then_some(shortage)
}
