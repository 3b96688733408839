//! Score for soft topology spread constraints.

// upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go

use super::MAX;
use crate::filter::{Cycle, counts_node, spread};
use crate::node_index::{NO_DOMAIN, Topology};
use crate::spread::{Constraint, HOSTNAME};

struct Rule<'a> {
    rule: &'a Constraint,
    topology: &'a Topology,
    by_slot: &'a [u32],
    /// Counts by domain; `None` for domains without a candidate. Not used for hostnames, which are counted by
    /// node.
    by_domain: Vec<Option<i64>>,
    /// Normalizing weight, so that topologies with few domains do not dominate.
    weight: f64,
}

/// Returns the scores of the candidates; empty if there are no constraints.
pub fn scores(cycle: &Cycle<'_>, soft: &[Constraint], slots: &[usize]) -> Vec<i64> {
    let (pod, node_index) = (cycle.pod, cycle.node_index);
    let mut rules: Vec<Rule<'_>> = Vec::with_capacity(soft.len());
    for rule in soft {
        let Some(topology) = node_index.topologies.get(&rule.topology) else { continue };
        let by_slot = node_index.tallies.counts(&spread(pod, rule));
        rules.push(Rule { rule, topology, by_slot, by_domain: vec![None; topology.len()], weight: 0.0 });
    }
    if rules.is_empty() {
        return Vec::new();
    }
    // Default constraints accept nodes without the labels; a Pod's own constraints ignore them.
    let is_ignored = |rules: &[Rule<'_>], slot: usize| {
        pod.demand.has_constraints && rules.iter().any(|rule| rule.topology.domain(slot) == NO_DOMAIN)
    };
    let mut ignored = Vec::with_capacity(slots.len());
    let mut unlabelled = vec![false; rules.len()];
    for slot in slots {
        let is_ignored = is_ignored(&rules, *slot);
        ignored.push(is_ignored);
        for (rule, unlabelled) in rules.iter_mut().zip(&mut unlabelled).filter(|_| !is_ignored) {
            match rule.topology.domain(*slot) {
                NO_DOMAIN => *unlabelled = true,
                domain => drop(rule.by_domain[domain as usize].get_or_insert(0)),
            }
        }
    }
    let considered = ignored.iter().filter(|ignored| !**ignored).count();
    for (rule, unlabelled) in rules.iter_mut().zip(unlabelled) {
        let size = match &*rule.rule.topology {
            HOSTNAME => considered,
            _ => rule.by_domain.iter().flatten().count() + usize::from(unlabelled),
        };
        rule.weight = ((size + 2) as f64).ln();
    }
    for (slot, node) in node_index.all_nodes() {
        if is_ignored(&rules, slot) {
            continue;
        }
        for rule in rules.iter_mut().filter(|rule| &*rule.rule.topology != HOSTNAME) {
            let count = rule.by_slot.get(slot).copied().unwrap_or_default();
            let domain = rule.topology.domain(slot) as usize;
            if let (1.., Some(Some(sum))) = (count, rule.by_domain.get_mut(domain))
                && counts_node(rule.rule, pod, node)
            {
                *sum += i64::from(count);
            }
        }
    }
    let mut points: Vec<i64> = slots.iter().map(|slot| weighted_count(&rules, *slot)).collect();
    let known = || points.iter().zip(&ignored).filter(|(_, ignored)| !**ignored).map(|(points, _)| *points);
    let (least, most) = (known().min().unwrap_or(i64::MAX), known().max().unwrap_or_default());
    for (points, ignored) in points.iter_mut().zip(ignored) {
        *points = match (ignored, most) {
            (true, _) => 0,
            (false, 0) => MAX,
            (false, _) => MAX * (most + least - *points) / most,
        };
    }
    points
}

/// Returns the weighted number of matching Pods around a node.
fn weighted_count(rules: &[Rule<'_>], slot: usize) -> i64 {
    let mut sum = 0.0;
    for rule in rules {
        let domain = rule.topology.domain(slot);
        if domain == NO_DOMAIN {
            continue;
        }
        let count = match &*rule.rule.topology {
            HOSTNAME => i64::from(rule.by_slot.get(slot).copied().unwrap_or_default()),
            _ => rule.by_domain[domain as usize].unwrap_or_default(),
        };
        sum += count as f64 * rule.weight + (rule.rule.max_skew - 1) as f64;
    }
    sum.round() as i64
}
