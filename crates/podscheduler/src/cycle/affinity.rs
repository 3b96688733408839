//! Filter for required affinity and anti-affinity between Pods.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go

use super::Questions;
use crate::fleet::{Feeling, Fleet, NO_DOMAIN, Topology};
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
    fn of(fleet: &'a Fleet, key: &'a str) -> Option<Self> {
        let topology = fleet.topologies.get(key)?;
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
    fn near(&self, slot: usize) -> Option<i64> {
        self.domains.get(self.topology.domain(slot) as usize).copied()
    }
}

/// State of the filter for a Pod.
#[derive(Clone)]
pub struct Affinity<'a> {
    /// Pods that match all affinity terms, by topology of each term.
    near: Vec<Counts<'a>>,
    /// Whether the Pod matches its own affinity terms.
    likes_itself: bool,
    apart: Vec<(&'a Term, Counts<'a>)>,
    rejecting: Vec<Counts<'a>>,
}

impl<'a> Affinity<'a> {
    pub fn of(fleet: &'a Fleet, pod: &'a Pod, questions: &Questions) -> Self {
        let terms = &pod.demand.affinity;
        let mut near: Vec<Counts<'a>> =
            terms.near.iter().filter_map(|term| Counts::of(fleet, &term.topology)).collect();
        if let Some(counted) = &questions.near {
            near.iter_mut().for_each(|counts| counts.add(fleet.tallies.counts(counted)));
        }
        let mut apart = Vec::with_capacity(terms.apart.len());
        for (term, counted) in terms.apart.iter().zip(&questions.apart) {
            if let Some(mut counts) = Counts::of(fleet, &term.topology) {
                counts.add(fleet.tallies.counts(counted));
                apart.push((term, counts));
            }
        }
        let mut rejecting: Vec<Counts<'a>> = Vec::new();
        for (topology, feeling, counts) in fleet.neighbours.about(&pod.class, &fleet.namespaces) {
            if feeling == Feeling::Rejects
                && let Some(own) = of_topology(&mut rejecting, fleet, topology)
            {
                own.add(counts);
            }
        }
        let likes_itself = matches_all(&terms.near, pod, fleet);
        Affinity { near, likes_itself, apart, rejecting }
    }

    pub fn check(&self, slot: usize) -> Result<(), Refusal> {
        let mut all_near = true;
        for counts in &self.near {
            match counts.near(slot) {
                None => return Err(Refusal::NotNear),
                Some(count) => all_near &= count > 0,
            }
        }
        // The first Pod of a group that has affinity to itself has no Pod to match.
        let is_first = || self.likes_itself && self.is_alone();
        if !all_near && !is_first() {
            return Err(Refusal::NotNear);
        }
        if self.apart.iter().any(|(_, counts)| counts.near(slot).is_some_and(|count| count > 0)) {
            return Err(Refusal::NotApart);
        }
        if self.rejecting.iter().any(|counts| counts.near(slot).is_some_and(|count| count > 0)) {
            return Err(Refusal::Rejected);
        }
        Ok(())
    }

    /// Whether no Pod matches the affinity terms.
    fn is_alone(&self) -> bool {
        self.near.iter().all(|counts| counts.domains.iter().all(|count| *count == 0))
    }

    /// Adds (1) or removes (-1) another Pod.
    pub fn change(&mut self, pod: &'a Pod, other: &Pod, fleet: &'a Fleet, slot: usize, change: i64) {
        for term in &other.demand.affinity.apart {
            if term.matcher.matches(&pod.class, &fleet.namespaces) {
                // Only topologies that are tracked can be violated.
                let Some((key, _)) = fleet.topologies.entry(&term.topology) else { continue };
                if let Some(counts) = of_topology(&mut self.rejecting, fleet, key) {
                    counts.change(slot, change);
                }
            }
        }
        if matches_all(&pod.demand.affinity.near, other, fleet) {
            self.near.iter_mut().for_each(|counts| counts.change(slot, change));
        }
        for (term, counts) in &mut self.apart {
            if term.matcher.matches(&other.class, &fleet.namespaces) {
                counts.change(slot, change);
            }
        }
    }
}

fn of_topology<'a, 'b>(
    list: &'b mut Vec<Counts<'a>>,
    fleet: &'a Fleet,
    key: &'a str,
) -> Option<&'b mut Counts<'a>> {
    let index = match list.iter().position(|counts| counts.key == key) {
        Some(index) => index,
        None => {
            list.push(Counts::of(fleet, key)?);
            list.len() - 1
        }
    };
    list.get_mut(index)
}

fn matches_all(terms: &[Term], pod: &Pod, fleet: &Fleet) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matcher.matches(&pod.class, &fleet.namespaces))
}
