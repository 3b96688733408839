//! The clusters of one registering workspace by room, by name and by label.

use std::cmp::Reverse;
use std::collections::btree_set::Iter;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use atoll_meta::LabelSelector;
use atoll_meta::selector::{LabelOperator, Requirement};

use crate::cluster::ClusterState;

/// The position of a cluster: most room first, then the one registered first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    pub room: Reverse<i64>,
    pub registered: i64,
    pub name: Arc<str>,
    pub index: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Ranking {
    by_room: BTreeSet<Rank>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Those with each label, by key and value.
    by_label: HashMap<String, BTreeMap<String, BTreeSet<Rank>>>,
}

impl Ranking {
    pub fn insert(&mut self, state: &ClusterState, rank: Rank) {
        self.by_name.insert(state.name.clone(), rank.index);
        for (key, value) in &state.labels {
            let values = self.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().insert(rank.clone());
        }
        self.by_room.insert(rank);
    }

    pub fn remove(&mut self, state: &ClusterState, rank: &Rank) {
        self.by_room.remove(rank);
        if self.by_name.get(&state.name) == Some(&rank.index) {
            self.by_name.remove(&state.name);
        }
        for (key, value) in &state.labels {
            let Some(values) = self.by_label.get_mut(key) else { continue };
            if let Some(found) = values.get_mut(value) {
                found.remove(rank);
                if found.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    pub fn move_to(&mut self, state: &ClusterState, before: &Rank, after: Rank) {
        self.by_room.remove(before);
        for (key, value) in &state.labels {
            if let Some(found) = self.by_label.get_mut(key).and_then(|values| values.get_mut(value)) {
                found.remove(before);
                found.insert(after.clone());
            }
        }
        self.by_room.insert(after);
    }

    pub fn is_empty(&self) -> bool {
        self.by_room.is_empty()
    }

    pub fn by_room(&self) -> Iter<'_, Rank> {
        self.by_room.iter()
    }

    pub fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Values of a label.
    pub fn values(&self, label: &str) -> impl Iterator<Item = &str> {
        self.by_label.get(label).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// Clusters with one of these values of a label, in the order of their room for each value.
    pub fn labelled<'a, 'b>(
        &'a self,
        label: &'b str,
        values: &'b [String],
    ) -> impl Iterator<Item = &'a BTreeSet<Rank>> + use<'a, 'b> {
        let by_value = self.by_label.get(label);
        values.iter().filter_map(move |value| by_value?.get(value))
    }
}

/// The requirement of a selector that names values of a label, and the fewest clusters of these rankings.
pub fn narrowest<'a>(selector: &'a LabelSelector, rankings: &[&Ranking]) -> Option<&'a Requirement> {
    let names_values = |one: &&Requirement| {
        matches!(one.operator(), LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals)
    };
    let count = |one: &&Requirement| -> usize {
        let sets = rankings.iter().flat_map(|ranking| ranking.labelled(one.key(), one.values()));
        sets.map(BTreeSet::len).sum()
    };
    selector.requirements().iter().filter(names_values).min_by_key(count)
}

/// Merges rankings into one order.
pub fn merge<'a>(rankings: Vec<Iter<'a, Rank>>) -> impl Iterator<Item = usize> + use<'a> {
    let mut rankings: Vec<_> = rankings.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        if let [only] = rankings.as_mut_slice() {
            return only.next().map(|rank| rank.index);
        }
        let heads = rankings.iter_mut().enumerate();
        let (_, at) = heads.filter_map(|(at, ranks)| Some((*ranks.peek()?, at))).min()?;
        rankings[at].next().map(|rank| rank.index)
    })
}
