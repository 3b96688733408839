//! Filter for hard topology spread constraints.

// upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go

use super::spread;
use crate::node::Node;
use crate::node_index::{NO_DOMAIN, NodeIndex, Topology};
use crate::pod::Pod;
use crate::refusal::Refusal;
use crate::spread::Constraint;
use crate::taints;

/// A constraint with the number of matching Pods by domain.
#[derive(Clone)]
pub struct Spreading<'a> {
    rule: &'a Constraint,
    topology: &'a Topology,
    /// `None` for domains without an eligible node.
    counts: Vec<Option<i64>>,
    /// Minimum over all domains.
    fewest: i64,
    /// 1 if the Pod matches its own constraint, else 0.
    own: i64,
}

impl<'a> Spreading<'a> {
    pub fn all(node_index: &'a NodeIndex, pod: &'a Pod) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        for rule in pod.demand.constraints.iter().filter(|rule| rule.is_hard) {
            let Some(topology) = node_index.topologies.get(&rule.topology) else { continue };
            let own = i64::from(pod.class.labels.selected_by(&rule.selector));
            rules.push(Spreading { rule, topology, counts: vec![None; topology.len()], fewest: 0, own });
        }
        if rules.is_empty() {
            return rules;
        }
        let counts: Vec<&[u32]> =
            rules.iter().map(|rule| node_index.tallies.counts(&spread(pod, rule.rule))).collect();
        for (slot, node) in node_index.all_nodes() {
            if rules.iter().any(|rule| rule.topology.domain(slot) == NO_DOMAIN) {
                continue;
            }
            for (rule, counts) in rules.iter_mut().zip(&counts) {
                if counts_node(rule.rule, pod, node) {
                    let domain = rule.topology.domain(slot) as usize;
                    let count = counts.get(slot).copied().unwrap_or_default();
                    *rule.counts[domain].get_or_insert(0) += i64::from(count);
                }
            }
        }
        for rule in &mut rules {
            rule.find_fewest();
        }
        rules
    }

    fn find_fewest(&mut self) {
        let domains = self.counts.iter().flatten().count();
        // With fewer domains than `minDomains`, the minimum is zero.
        let enough = domains >= self.rule.min_domains;
        self.fewest =
            if enough { self.counts.iter().flatten().min().copied().unwrap_or_default() } else { 0 };
    }

    pub fn filter_node(&self, slot: usize) -> Result<(), Refusal> {
        let domain = self.topology.domain(slot);
        if domain == NO_DOMAIN {
            return Err(Refusal::SpreadLabelMissing);
        }
        let count = self.counts.get(domain as usize).copied().flatten().unwrap_or_default();
        if count + self.own - self.fewest > self.rule.max_skew { Err(Refusal::Spread) } else { Ok(()) }
    }
}

/// Adds (1) or removes (-1) another Pod.
pub fn change(
    rules: &mut [Spreading<'_>],
    pod: &Pod,
    other: &Pod,
    node_index: &NodeIndex,
    slot: usize,
    change: i64,
) {
    let Some((node, _)) = node_index.at(slot) else { return };
    let is_counted = other.namespace() == pod.namespace()
        && rules.iter().all(|rule| rule.topology.domain(slot) != NO_DOMAIN);
    if !is_counted {
        return;
    }
    for rule in rules {
        if other.class.labels.selected_by(&rule.rule.selector) && counts_node(rule.rule, pod, node) {
            *rule.counts[rule.topology.domain(slot) as usize].get_or_insert(0) += change;
            rule.find_fewest();
        }
    }
}

/// Whether a constraint counts the Pods of a node, for this Pod.
pub fn counts_node(rule: &Constraint, pod: &Pod, node: &Node) -> bool {
    let demand = &pod.demand;
    let is_possible =
        || demand.required_nodes.as_ref().is_none_or(|nodes| nodes.matches(&node.name, &node.labels));
    let are_tolerated = || taints::are_tolerated(&demand.tolerations, &node.taints);
    (!rule.honors_affinity || is_possible()) && (!rule.honors_taints || are_tolerated())
}
