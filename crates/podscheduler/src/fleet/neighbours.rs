//! What the Pods on nodes want of Pods that come: whom they will not have near, whom they would like to.

use std::collections::HashMap;
use std::sync::Arc;

use super::tallies::add;
use crate::pod_affinity::{Class, Namespaces, PodAffinity, Term};

/// A Pod that must be near others likes others of the kind a little, too.
const REQUIRED_WEIGHT: i64 = 1;

/// How strongly Pods feel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feeling {
    /// Pods like that must not come near.
    Rejects,
    /// Pods like that are worth this much, which may be less than nothing.
    Likes(i64),
}

#[derive(Debug)]
struct Wish {
    term: Term,
    feeling: Feeling,
    /// How many Pods have it, by slot of their node.
    counts: Vec<u32>,
    total: u32,
}

/// All wishes of Pods on nodes.
#[derive(Debug, Default)]
pub struct Neighbours {
    wishes: Vec<Option<Wish>>,
    free: Vec<usize>,
    known: HashMap<(Term, Feeling), usize>,
    /// The wishes about Pods of a namespace.
    by_namespace: HashMap<Arc<str>, Vec<usize>>,
    /// The wishes for which the labels of namespaces decide.
    anywhere: Vec<usize>,
    /// How many wishes are about each label.
    topologies: HashMap<Arc<str>, usize>,
}

impl Neighbours {
    /// A Pod came to the node in a slot.
    pub fn add(&mut self, affinity: &PodAffinity, slot: usize) {
        for (term, feeling) in wishes(affinity) {
            let number = self.number(term, feeling);
            if let Some(wish) = &mut self.wishes[number] {
                add(&mut wish.counts, slot, 1);
                wish.total += 1;
            }
        }
    }

    /// A Pod left.
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

    /// The wishes that are about Pods of a class: what is near, what is felt, and how many feel so on each node.
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

    /// The labels that the wishes are about.
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
