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
pub enum Feeling {
    /// Required anti-affinity: they must not be in the same domain.
    Rejects,
    /// Adds this weight, which may be negative, to their score.
    Likes(i64),
}

#[derive(Debug)]
struct Wish {
    term: Term,
    feeling: Feeling,
    /// Number of Pods with the term, by node.
    counts: Vec<u32>,
    total: u32,
}

/// The affinity terms of all assigned Pods.
#[derive(Debug, Default)]
pub struct Neighbours {
    wishes: Vec<Option<Wish>>,
    free: Vec<usize>,
    known: HashMap<(Term, Feeling), usize>,
    /// Terms that select Pods of a namespace by name.
    by_namespace: HashMap<Arc<str>, Vec<usize>>,
    /// Terms with a namespace selector.
    anywhere: Vec<usize>,
    /// Number of terms by topology key.
    topologies: HashMap<Arc<str>, usize>,
}

impl Neighbours {
    /// Adds the terms of a Pod on a node.
    pub fn add(&mut self, affinity: &PodAffinity, slot: usize) {
        for (term, feeling) in wishes(affinity) {
            let number = self.number(term, feeling);
            if let Some(wish) = &mut self.wishes[number] {
                add(&mut wish.counts, slot, 1);
                wish.total += 1;
            }
        }
    }

    /// Removes the terms of a Pod.
    pub fn remove(&mut self, affinity: &PodAffinity, slot: usize) {
        for (term, feeling) in wishes(affinity) {
            let Some(number) = self.known.get(&(term.clone(), feeling)).copied() else { continue };
            let Some(wish) = &mut self.wishes[number] else { continue };
            wish.counts[slot] -= 1;
            wish.total -= 1;
            if wish.total == 0 {
                self.forget(number);
            }
        }
    }

    fn number(&mut self, term: &Term, feeling: Feeling) -> usize {
        let key = (term.clone(), feeling);
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let wish = Wish { term: term.clone(), feeling, counts: Vec::new(), total: 0 };
        let number = self.free.pop().unwrap_or_else(|| {
            self.wishes.push(None);
            self.wishes.len() - 1
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
        self.wishes[number] = Some(wish);
        self.known.insert(key, number);
        number
    }

    fn forget(&mut self, number: usize) {
        let Some(wish) = self.wishes[number].take() else { return };
        match wish.term.matcher.named_namespaces() {
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
        if let Some(count) = self.topologies.get_mut(&wish.term.topology) {
            *count -= 1;
            if *count == 0 {
                self.topologies.remove(&wish.term.topology);
            }
        }
        self.known.remove(&(wish.term, wish.feeling));
        self.free.push(number);
    }

    /// Returns the terms that match Pods of a class: topology key, effect, and number of Pods by node.
    pub fn about<'a>(
        &'a self,
        class: &'a Class,
        namespaces: &'a Namespaces,
    ) -> impl Iterator<Item = (&'a Arc<str>, Feeling, &'a [u32])> {
        let named = self.by_namespace.get(&class.namespace).into_iter().flatten();
        named
            .chain(&self.anywhere)
            .filter_map(|number| self.wishes[*number].as_ref())
            .filter(|wish| wish.term.matcher.matches(class, namespaces))
            .map(|wish| (&wish.term.topology, wish.feeling, &*wish.counts))
    }

    /// Returns the topology keys of all terms.
    pub fn topologies(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topologies.keys()
    }
}

fn wishes(affinity: &PodAffinity) -> impl Iterator<Item = (&Term, Feeling)> {
    let rejected = affinity.apart.iter().map(|term| (term, Feeling::Rejects));
    let near = affinity.near.iter().map(|term| (term, Feeling::Likes(REQUIRED_WEIGHT)));
    rejected
        .chain(near)
        .chain(affinity.preferred.iter().map(|(weight, term)| (term, Feeling::Likes(*weight))))
}
