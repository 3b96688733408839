//! Scheduling cycle of one Pod: state that is computed once, and the filters that use it for every node.

// upstream: pkg/scheduler/framework/runtime/framework.go
// upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
// upstream: pkg/scheduler/framework/plugins/nodename/node_name.go
// upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go
// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go

mod affinity;
mod spreading;

use std::sync::Arc;

use crate::fleet::{Counted, Fleet, Usage};
use crate::node::Node;
use crate::pod::{Demand, Pod};
use crate::refusal::{Refusal, Shortage};
use crate::spread::Constraint;
use crate::storage::{PodClaims, Unready};
use crate::taints::{self, Taint};
pub use spreading::counts_node;

use affinity::Affinity;
use spreading::Spreading;

/// State that the filters and scores of a Pod need, computed before a node is selected.
#[derive(Debug, Default)]
pub struct Questions {
    /// Soft spread constraints: those of the Pod, or the default constraints.
    pub soft: Vec<Constraint>,
    pub near: Option<Counted>,
    pub apart: Vec<Counted>,
    pub preferred: Vec<Counted>,
}

impl Questions {
    /// Computes the state, and starts the Pod counts that it needs.
    pub fn ask(fleet: &mut Fleet, pod: &Pod) -> Self {
        let demand = &pod.demand;
        let mut questions = Questions::default();
        if demand.has_constraints {
            questions.soft = demand.constraints.iter().filter(|rule| !rule.is_hard).cloned().collect();
        } else if let Some(selector) = fleet.workloads.companions(pod) {
            questions.soft = Constraint::defaults(&selector);
        }
        for rule in questions.soft.iter().chain(demand.constraints.iter().filter(|rule| rule.is_hard)) {
            fleet.follow(&rule.topology);
            fleet.count(&spread(pod, rule));
        }
        let affinity = &demand.affinity;
        let matcher = |term: &crate::pod_affinity::Term| term.matcher.clone();
        if !affinity.near.is_empty() {
            questions.near = Some(Counted::All(affinity.near.iter().map(matcher).collect()));
        }
        questions.apart = affinity.apart.iter().map(|term| Counted::All(vec![matcher(term)])).collect();
        questions.preferred =
            affinity.preferred.iter().map(|(_, term)| Counted::All(vec![matcher(term)])).collect();
        let counted = questions.near.iter().chain(&questions.apart).chain(&questions.preferred);
        for counted in counted {
            fleet.count(counted);
        }
        let preferred = affinity.preferred.iter().map(|(_, term)| term);
        for term in affinity.near.iter().chain(&affinity.apart).chain(preferred) {
            fleet.follow(&term.topology);
        }
        fleet.follow_neighbours();
        questions
    }
}

/// Returns the Pods that a spread constraint counts.
pub fn spread(pod: &Pod, rule: &Constraint) -> Counted {
    Counted::Spread { namespace: pod.namespace().clone(), selector: rule.selector.clone() }
}

/// State of a scheduling cycle. Clones simulate added and removed Pods.
#[derive(Clone)]
pub struct Cycle<'a> {
    pub fleet: &'a Fleet,
    pub pod: &'a Pod,
    pub claims: PodClaims,
    unschedulable_tolerated: bool,
    spreading: Vec<Spreading<'a>>,
    affinity: Affinity<'a>,
}

impl<'a> Cycle<'a> {
    pub fn begin(fleet: &'a Fleet, pod: &'a Pod, questions: &Questions) -> Result<Self, Unready> {
        let claims = fleet.storage.look(pod)?;
        Ok(Cycle {
            fleet,
            pod,
            claims,
            unschedulable_tolerated: taints::tolerates(&pod.demand.tolerations, &Taint::unschedulable()),
            spreading: Spreading::all(fleet, pod),
            affinity: Affinity::of(fleet, pod, questions),
        })
    }

    /// Runs the filters for a node with this usage.
    pub fn check(&self, slot: usize, node: &Node, usage: &Usage) -> Result<(), Refusal> {
        let demand: &Demand = &self.pod.demand;
        if node.is_unschedulable && !self.unschedulable_tolerated {
            return Err(Refusal::Unschedulable);
        }
        if self.pod.node.as_ref().is_some_and(|name| *name != node.name) {
            return Err(Refusal::Name);
        }
        if !taints::may_enter(&demand.tolerations, &node.taints) {
            return Err(Refusal::Taint);
        }
        if demand.required_nodes.as_ref().is_some_and(|nodes| !nodes.matches(&node.name, &node.labels)) {
            return Err(Refusal::Affinity);
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
            let conflict = self.fleet.storage.conflict(&self.claims, node);
            if !conflict.is_none() {
                return Err(Refusal::Volumes(conflict));
            }
            if self.claims.is_elsewhere(node) {
                return Err(Refusal::VolumeZone);
            }
        }
        for rule in &self.spreading {
            rule.check(slot)?;
        }
        self.affinity.check(slot)
    }

    /// Runs the filters with and without the nominated Pods of a node, so that no Pod takes room that was
    /// made for them.
    pub fn check_with_nominated(
        &self,
        slot: usize,
        node: &Node,
        usage: &Usage,
        nominated: &[Arc<Pod>],
    ) -> Result<(), Refusal> {
        let ours = self.pod.demand.priority;
        let before = |other: &&Arc<Pod>| other.uid != self.pod.uid && other.demand.priority >= ours;
        if nominated.iter().any(|other| before(&other)) {
            let (mut cycle, mut usage) = (self.clone(), usage.clone());
            for other in nominated.iter().filter(before) {
                usage.add(other);
                cycle.pod_came(other, slot);
            }
            cycle.check(slot, node, &usage)?;
        }
        self.check(slot, node, usage)
    }

    /// Simulates that another Pod is on a node.
    pub fn pod_came(&mut self, other: &Pod, slot: usize) {
        self.change(other, slot, 1);
    }

    /// Simulates that another Pod is no longer on its node.
    pub fn pod_left(&mut self, other: &Pod, slot: usize) {
        self.change(other, slot, -1);
    }

    fn change(&mut self, other: &Pod, slot: usize, change: i64) {
        spreading::change(&mut self.spreading, self.pod, other, self.fleet, slot, change);
        self.affinity.change(self.pod, other, self.fleet, slot, change);
        self.claims.in_use += change * self.claims.shared_with(other, self.pod.namespace());
    }
}

fn shortage(demand: &Demand, node: &Node, usage: &Usage) -> Option<Shortage> {
    let (wanted, taken, all) = (&demand.requests, &usage.requested, &node.allocatable);
    let mut shortage = Shortage { pods: usage.pods + 1 > node.allowed_pods, ..Shortage::default() };
    if !wanted.is_nothing() {
        let lacks = |wanted: i64, all: i64, taken: i64| wanted > 0 && wanted > all - taken;
        shortage.cpu = lacks(wanted.milli_cpu, all.milli_cpu, taken.milli_cpu);
        shortage.memory = lacks(wanted.memory, all.memory, taken.memory);
        shortage.storage = lacks(wanted.storage, all.storage, taken.storage);
        shortage.is_hopeless = (shortage.cpu && wanted.milli_cpu > all.milli_cpu)
            || (shortage.memory && wanted.memory > all.memory)
            || (shortage.storage && wanted.storage > all.storage);
        for (name, wanted) in &wanted.scalars {
            let all = all.scalar(name);
            if *wanted != 0 && *wanted > all - taken.scalar(name) {
                shortage.scalars.push(name.clone());
                shortage.is_hopeless |= *wanted > all;
            }
        }
    }
    (!shortage.is_none()).then_some(shortage)
}
