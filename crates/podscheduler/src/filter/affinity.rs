//! Filter for required affinity and anti-affinity between Pods.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go

use super::PreFilterState;
use crate::node_index::{NO_DOMAIN, NodeIndex, TermEffect, Topology};
use crate::pod::Pod;
use crate::pod_affinity::Term;
use crate::refusal::Refusal;

/// Number of Pods in each domain of a topology.
#[derive(Clone)]
struct Counts<'a> {
    key: &'a str,
    topology: &'a Topology,
    domains: Vec<i64>,
}

impl<'a> Counts<'a> {
    fn of(node_index: &'a NodeIndex, key: &'a str) -> Option<Self> {
        let topology = node_index.topologies.get(key)?;
        Some(Counts { key, topology, domains: vec![0; topology.len()] })
    }

    /// Adds counts by node.
    fn add(&mut self, counts: &[u32]) {
        for (count, domain) in counts.iter().zip(self.topology.domains()) {
            if *count > 0 && *domain != NO_DOMAIN {
                self.domains[*domain as usize] += i64::from(*count);
            }
        }
    }

    fn change(&mut self, slot: usize, change: i64) {
        if let Some(count) = self.domains.get_mut(self.topology.domain(slot) as usize) {
            *count += change;
        }
    }

    /// Returns the count in the domain of a node; `None` without the label.
    fn count_at(&self, slot: usize) -> Option<i64> {
        self.domains.get(self.topology.domain(slot) as usize).copied()
    }
}

/// State of the filter for a Pod.
#[derive(Clone)]
pub struct Affinity<'a> {
    /// Pods that match all affinity terms, by topology of each term.
    required: Vec<Counts<'a>>,
    /// Whether the Pod matches its own affinity terms.
    matches_itself: bool,
    required_anti: Vec<(&'a Term, Counts<'a>)>,
    existing: Vec<Counts<'a>>,
}

impl<'a> Affinity<'a> {
    pub fn of(node_index: &'a NodeIndex, pod: &'a Pod, prefilter: &PreFilterState) -> Self {
        let terms = &pod.demand.affinity;
        let mut required: Vec<Counts<'a>> =
            terms.required.iter().filter_map(|term| Counts::of(node_index, &term.topology)).collect();
        if let Some(counted) = &prefilter.required {
            required.iter_mut().for_each(|counts| counts.add(node_index.tallies.counts(counted)));
        }
        let mut required_anti = Vec::with_capacity(terms.required_anti.len());
        for (term, counted) in terms.required_anti.iter().zip(&prefilter.required_anti) {
            if let Some(mut counts) = Counts::of(node_index, &term.topology) {
                counts.add(node_index.tallies.counts(counted));
                required_anti.push((term, counts));
            }
        }
        let mut existing: Vec<Counts<'a>> = Vec::new();
        for (topology, effect, counts) in
            node_index.existing_affinity.about(&pod.class, &node_index.namespaces)
        {
            if effect == TermEffect::RequiredAntiAffinity
                && let Some(own) = of_topology(&mut existing, node_index, topology)
            {
                own.add(counts);
            }
        }
        let matches_itself = matches_all(&terms.required, pod, node_index);
        Affinity { required, matches_itself, required_anti, existing }
    }

    pub fn filter_node(&self, slot: usize) -> Result<(), Refusal> {
        let mut all_matched = true;
        for counts in &self.required {
            match counts.count_at(slot) {
                None => return Err(Refusal::PodAffinity),
                Some(count) => all_matched &= count > 0,
            }
        }
        // The first Pod of a group that has affinity to itself has no Pod to match.
        let is_first = || self.matches_itself && self.is_unmatched();
        if !all_matched && !is_first() {
            return Err(Refusal::PodAffinity);
        }
        if self.required_anti.iter().any(|(_, counts)| counts.count_at(slot).is_some_and(|count| count > 0)) {
            return Err(Refusal::PodAntiAffinity);
        }
        if self.existing.iter().any(|counts| counts.count_at(slot).is_some_and(|count| count > 0)) {
            return Err(Refusal::ExistingPodsAntiAffinity);
        }
        Ok(())
    }

    /// Whether no Pod matches the affinity terms.
    fn is_unmatched(&self) -> bool {
        self.required.iter().all(|counts| counts.domains.iter().all(|count| *count == 0))
    }

    /// Adds (1) or removes (-1) another Pod.
    pub fn change(&mut self, pod: &'a Pod, other: &Pod, node_index: &'a NodeIndex, slot: usize, change: i64) {
        for term in &other.demand.affinity.required_anti {
            if term.matcher.matches(&pod.class, &node_index.namespaces) {
                // Only topologies that are tracked can be violated.
                let Some((key, _)) = node_index.topologies.entry(&term.topology) else { continue };
                if let Some(counts) = of_topology(&mut self.existing, node_index, key) {
                    counts.change(slot, change);
                }
            }
        }
        if matches_all(&pod.demand.affinity.required, other, node_index) {
            self.required.iter_mut().for_each(|counts| counts.change(slot, change));
        }
        for (term, counts) in &mut self.required_anti {
            if term.matcher.matches(&other.class, &node_index.namespaces) {
                counts.change(slot, change);
            }
        }
    }
}

fn of_topology<'a, 'b>(
    list: &'b mut Vec<Counts<'a>>,
    node_index: &'a NodeIndex,
    key: &'a str,
) -> Option<&'b mut Counts<'a>> {
    let index = match list.iter().position(|counts| counts.key == key) {
        Some(index) => index,
        None => {
            list.push(Counts::of(node_index, key)?);
            list.len() - 1
        }
    };
    list.get_mut(index)
}

fn matches_all(terms: &[Term], pod: &Pod, node_index: &NodeIndex) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matcher.matches(&pod.class, &node_index.namespaces))
}
