//! Affinity terms of existing Pods, which apply to incoming Pods.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go

use std::collections::HashMap;
use std::sync::Arc;

use super::tallies::add;
use crate::pod_affinity::{Class, Namespaces, PodAffinity, Term};

/// Weight of required affinity terms of existing Pods in scores (`hardPodAffinityWeight`).
const REQUIRED_WEIGHT: i64 = 1;

/// Effect of a term on matching incoming Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TermEffect {
    /// Required anti-affinity: they must not be in the same domain.
    RequiredAntiAffinity,
    /// Adds this weight, which may be negative, to their score.
    Weight(i64),
}

#[derive(Debug)]
struct ExistingTerm {
    term: Term,
    effect: TermEffect,
    /// Number of Pods with the term, by node.
    counts: Vec<u32>,
    total: u32,
}

/// The affinity terms of all assigned Pods.
#[derive(Debug, Default)]
pub struct ExistingAffinity {
    terms: Vec<Option<ExistingTerm>>,
    free: Vec<usize>,
    known: HashMap<(Term, TermEffect), usize>,
    /// Terms that select Pods of a namespace by name.
    by_namespace: HashMap<Arc<str>, Vec<usize>>,
    /// Terms with a namespace selector.
    anywhere: Vec<usize>,
    /// Number of terms by topology key.
    topologies: HashMap<Arc<str>, usize>,
}

impl ExistingAffinity {
    /// Adds the terms of a Pod on a node.
    pub fn add(&mut self, affinity: &PodAffinity, slot: usize) {
        for (term, effect) in terms(affinity) {
            let number = self.number(term, effect);
            if let Some(term_entry) = &mut self.terms[number] {
                add(&mut term_entry.counts, slot, 1);
                term_entry.total += 1;
            }
        }
    }

    /// Removes the terms of a Pod.
    pub fn remove(&mut self, affinity: &PodAffinity, slot: usize) {
        for (term, effect) in terms(affinity) {
            let Some(number) = self.known.get(&(term.clone(), effect)).copied() else { continue };
            let Some(term_entry) = &mut self.terms[number] else { continue };
            term_entry.counts[slot] -= 1;
            term_entry.total -= 1;
            if term_entry.total == 0 {
                self.forget(number);
            }
        }
    }

    fn number(&mut self, term: &Term, effect: TermEffect) -> usize {
        let key = (term.clone(), effect);
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let term_entry = ExistingTerm { term: term.clone(), effect, counts: Vec::new(), total: 0 };
        let number = self.free.pop().unwrap_or_else(|| {
            self.terms.push(None);
            self.terms.len() - 1
        });
        match term.matcher.named_namespaces() {
            None => self.anywhere.push(number),
            Some(namespaces) => {
                for namespace in namespaces {
                    self.by_namespace.entry(namespace.clone()).or_default().push(number);
                }
            }
        }
        *self.topologies.entry(term.topology.clone()).or_default() += 1;
        self.terms[number] = Some(term_entry);
        self.known.insert(key, number);
        number
    }

    fn forget(&mut self, number: usize) {
        let Some(term_entry) = self.terms[number].take() else { return };
        match term_entry.term.matcher.named_namespaces() {
            None => self.anywhere.retain(|other| *other != number),
            Some(namespaces) => {
                for namespace in namespaces {
                    if let Some(list) = self.by_namespace.get_mut(namespace) {
                        list.retain(|other| *other != number);
                        if list.is_empty() {
                            self.by_namespace.remove(namespace);
                        }
                    }
                }
            }
        }
        if let Some(count) = self.topologies.get_mut(&term_entry.term.topology) {
            *count -= 1;
            if *count == 0 {
                self.topologies.remove(&term_entry.term.topology);
            }
        }
        self.known.remove(&(term_entry.term, term_entry.effect));
        self.free.push(number);
    }

    /// Returns the terms that match Pods of a class: topology key, effect, and number of Pods by node.
    pub fn about<'a>(
        &'a self,
        class: &'a Class,
        namespaces: &'a Namespaces,
    ) -> impl Iterator<Item = (&'a Arc<str>, TermEffect, &'a [u32])> {
        let named = self.by_namespace.get(&class.namespace).into_iter().flatten();
        named
            .chain(&self.anywhere)
            .filter_map(|number| self.terms[*number].as_ref())
            .filter(|term_entry| term_entry.term.matcher.matches(class, namespaces))
            .map(|term_entry| (&term_entry.term.topology, term_entry.effect, &*term_entry.counts))
    }

    /// Returns the topology keys of all terms.
    pub fn topologies(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topologies.keys()
    }
}

fn terms(affinity: &PodAffinity) -> impl Iterator<Item = (&Term, TermEffect)> {
    let rejected = affinity.required_anti.iter().map(|term| (term, TermEffect::RequiredAntiAffinity));
    let near = affinity.required.iter().map(|term| (term, TermEffect::Weight(REQUIRED_WEIGHT)));
    rejected
        .chain(near)
        .chain(affinity.preferred.iter().map(|(weight, term)| (term, TermEffect::Weight(*weight))))
}
