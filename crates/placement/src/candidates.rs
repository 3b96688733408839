//! The clusters to choose from, in the order in which they are chosen.

use std::cmp::Reverse;

use crate::demand::Work;
use crate::filters::policy::weight_of;
use crate::filters::{Admission, Question};
use crate::fleet::ClusterEntry;
use crate::ledger::UNLIMITED;
use crate::rules::{ClusterFilter, Division};
use crate::scores;

/// A cluster that may have a share.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub index: usize,
    pub entry: &'a ClusterEntry,
    /// Replicas of its present share.
    pub current: i64,
    /// Most replicas that it may have.
    pub most: i64,
    /// Whether its share must stay as it is.
    pub is_frozen: bool,
    pub weight: i64,
}

impl Candidate<'_> {
    /// The order in which ties are decided.
    pub fn registration(&self) -> (i64, &str, usize) {
        (self.entry.state.registered, &self.entry.state.name, self.index)
    }
}

impl<'a> Question<'a> {
    /// Clusters with a share that need not give it up: those that must keep it, then those with most replicas.
    pub fn present(self, term: Option<&ClusterFilter>, enough: i64) -> Vec<Candidate<'a>> {
        let mut found: Vec<Candidate<'a>> = Vec::new();
        let all: i64 = self.demand.current.iter().map(|share| self.demand.replicas_of(share)).sum();
        let shrinks = self.demand.replicas < all;
        for share in &self.demand.current {
            let Some(index) = self.fleet.index_of(&share.uid) else { continue };
            let Some(entry) = self.fleet.entry(index) else { continue };
            let current = self.demand.replicas_of(share);
            let is_outside = term.is_some_and(|term| !term.selects(&entry.state));
            let (most, is_frozen) = match self.admission(entry) {
                // Nothing moves, not even what cannot be scheduled.
                _ if self.demand.is_paused => (self.room(entry, enough).max(current), false),
                Admission::Closed(_) => continue,
                Admission::Keeps(_) if entry.state.is_paused => (current, true),
                _ if is_outside => continue,
                // Pods of a cluster that is not Ready may still run: its share is replaced when the cluster
                // counts as lost, and not for balance.
                Admission::Keeps(_) if entry.state.readiness.is_not_ready() && !shrinks => (current, true),
                Admission::Keeps(_) => (self.room(entry, enough).min(current), false),
                Admission::Open => (self.room(entry, enough), false),
            };
            let weight = self.weight(entry, most);
            found.push(Candidate { index, entry, current, most, is_frozen, weight });
        }
        found.sort_by(|one, other| {
            let key = |one: &Candidate<'a>| (!one.is_frozen, Reverse(one.current));
            key(one).cmp(&key(other)).then_with(|| one.registration().cmp(&other.registration()))
        });
        found
    }

    /// Clusters without a share that are open, the best first.
    pub fn open(self, term: Option<&'a ClusterFilter>) -> impl Iterator<Item = (usize, &'a ClusterEntry)> {
        let path = &self.demand.workspace_path;
        let narrowed = [term, Some(&self.rules.clusters)].into_iter().flatten();
        let found = narrowed.filter_map(|filter| self.fleet.narrowed(path, filter)).next();
        self.open_of(term, found.unwrap_or_else(|| Box::new(self.fleet.by_room(path))))
    }

    /// The open clusters without a share among `by_room`, which is in the order of room; the best come first.
    pub fn open_of(
        self,
        term: Option<&'a ClusterFilter>,
        by_room: Box<dyn Iterator<Item = usize> + 'a>,
    ) -> impl Iterator<Item = (usize, &'a ClusterEntry)> {
        let is_open = move |(_, entry): &(usize, &'a ClusterEntry)| {
            self.demand.share(&entry.state.uid).is_none()
                && term.is_none_or(|term| term.selects(&entry.state))
                && matches!(self.admission(entry), Admission::Open)
        };
        let found = self.preferred_first(by_room);
        found.filter_map(move |index| Some((index, self.fleet.entry(index)?))).filter(is_open)
    }

    /// Reorders clusters by preference, if the rules or taints prefer some for more than their room.
    fn preferred_first(
        self,
        by_room: Box<dyn Iterator<Item = usize> + 'a>,
    ) -> Box<dyn Iterator<Item = usize> + 'a> {
        if !self.fleet.has_avoided() && !scores::has_preferences(self.rules) {
            return by_room;
        }
        let preference = |index: usize| self.fleet.entry(index).map(|entry| scores::preference(self, entry));
        let mut found: Vec<(Reverse<Option<i64>>, usize)> =
            by_room.map(|index| (Reverse(preference(index)), index)).collect();
        found.sort_by_key(|(preference, _)| *preference);
        Box::new(found.into_iter().map(|(_, index)| index))
    }

    /// Makes a candidate of an open cluster; `None` if it has no room for the minimum of replicas.
    pub fn newcomer(self, index: usize, entry: &'a ClusterEntry, enough: i64) -> Option<Candidate<'a>> {
        let most = self.room(entry, enough);
        let least = self.rules.min_replicas.unwrap_or(1).max(1).min(self.demand.replicas);
        let weight = self.weight(entry, most);
        // Completions run one after another, so that room for one pod is enough.
        let (most, least) = match self.demand.work {
            Work::Completions { .. } => (if most > 0 { UNLIMITED } else { 0 }, 1),
            _ => (most, least),
        };
        (most >= least).then_some(Candidate { index, entry, current: 0, most, is_frozen: false, weight })
    }

    fn weight(self, entry: &ClusterEntry, most: i64) -> i64 {
        match &self.rules.division {
            Division::Weighted(weights) => weight_of(weights, &entry.state).max(1),
            Division::Capacity => most.clamp(1, UNLIMITED),
            _ => 1,
        }
    }
}
