//! The clusters of one registering workspace by room, by name and by label.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use atoll_meta::LabelSelector;
use atoll_meta::selector::LabelOperator;

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
    /// By key and value.
    by_label: HashMap<String, HashMap<String, BTreeSet<usize>>>,
}

impl Ranking {
    pub fn insert(&mut self, state: &ClusterState, rank: Rank) {
        self.by_name.insert(state.name.clone(), rank.index);
        for (key, value) in &state.labels {
            let values = self.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().insert(rank.index);
        }
        self.by_room.insert(rank);
    }

    pub fn remove(&mut self, state: &ClusterState, rank: &Rank) {
        self.by_room.remove(rank);
        if self.by_name.get(&state.name) == Some(&rank.index) {
            self.by_name.remove(&state.name);
        }
        for (key, value) in &state.labels {
            if let Some(found) = self.by_label.get_mut(key).and_then(|values| values.get_mut(value)) {
                found.remove(&rank.index);
            }
        }
    }

    pub fn move_to(&mut self, before: &Rank, after: Rank) {
        self.by_room.remove(before);
        self.by_room.insert(after);
    }

    pub fn is_empty(&self) -> bool {
        self.by_room.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_room.len()
    }

    pub fn by_room(&self) -> std::collections::btree_set::Iter<'_, Rank> {
        self.by_room.iter()
    }

    pub fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Clusters with the labels that one requirement of a selector names; `None` if no requirement names any.
    pub fn selected(&self, selector: &LabelSelector) -> Option<Vec<usize>> {
        let names_values = |operator| {
            matches!(operator, LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals)
        };
        let with = |key: &str, value: &String| self.by_label.get(key).and_then(|values| values.get(value));
        let sets =
            selector.requirements().iter().filter(|one| names_values(one.operator())).map(|one| {
                one.values().iter().filter_map(|value| with(one.key(), value)).collect::<Vec<_>>()
            });
        let smallest = sets.min_by_key(|sets| sets.iter().map(|set| set.len()).sum::<usize>())?;
        Some(smallest.into_iter().flatten().copied().collect())
    }
}

/// Merges rankings into one order.
pub fn merge<'a>(
    rankings: Vec<std::collections::btree_set::Iter<'a, Rank>>,
) -> impl Iterator<Item = usize> + use<'a> {
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
