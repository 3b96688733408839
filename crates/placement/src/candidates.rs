//! The clusters to choose from, in the order in which they are chosen.

use std::cmp::Reverse;

use crate::demand::Work;
use crate::filters::policy::weight_of;
use crate::filters::{Admission, Question};
use crate::fleet::Entry;
use crate::ledger::UNLIMITED;
use crate::rules::{ClusterFilter, Division};
use crate::scores;

/// A cluster that may have a share.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub index: usize,
    pub entry: &'a Entry,
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
    /// Clusters with a share that need not give it up, those with most replicas first.
    pub fn present(self, term: Option<&ClusterFilter>, enough: i64) -> Vec<Candidate<'a>> {
        let mut found: Vec<Candidate<'a>> = Vec::new();
        for share in &self.demand.current {
            let Some(index) = self.fleet.index_of(&share.uid) else { continue };
            let Some(entry) = self.fleet.entry(index) else { continue };
            let current = self.demand.replicas_of(share);
            let is_outside = term.is_some_and(|term| !term.selects(&entry.state));
            let (most, is_frozen) = match self.admission(entry) {
                _ if self.demand.is_paused => (self.room(entry, enough), false),
                Admission::Closed(_) => continue,
                Admission::Keeps(_) if entry.state.is_paused => (current, true),
                _ if is_outside => continue,
                Admission::Keeps(_) => (self.room(entry, enough).min(current), false),
                Admission::Open => (self.room(entry, enough), false),
            };
            let weight = self.weight(entry, most);
            found.push(Candidate { index, entry, current, most, is_frozen, weight });
        }
        found.sort_by(|one, other| {
            (Reverse(one.current), one.registration()).cmp(&(Reverse(other.current), other.registration()))
        });
        found
    }

    /// Clusters without a share that are open, the best first.
    pub fn open(self, term: Option<&'a ClusterFilter>) -> impl Iterator<Item = (usize, &'a Entry)> {
        let is_open = move |(_, entry): &(usize, &'a Entry)| {
            self.demand.share(&entry.state.uid).is_none()
                && term.is_none_or(|term| term.selects(&entry.state))
                && matches!(self.admission(entry), Admission::Open)
        };
        self.ranked(term).filter_map(move |index| Some((index, self.fleet.entry(index)?))).filter(is_open)
    }

    /// Clusters that serve the workspace and may be selected, the best first.
    fn ranked(self, term: Option<&'a ClusterFilter>) -> Box<dyn Iterator<Item = usize> + 'a> {
        let path = &self.demand.workspace_path;
        let narrowed = [term, Some(&self.rules.clusters)].into_iter().flatten();
        let narrowed = narrowed.filter_map(|filter| self.fleet.narrowed(path, filter));
        let few = narrowed.min_by_key(Vec::len).filter(|found| found.len() * 2 <= self.fleet.count(path));
        let is_ranked = few.is_none();
        if is_ranked && !self.fleet.has_avoided() && !scores::has_preferences(self.rules) {
            return Box::new(self.fleet.by_room(path));
        }
        let all = few.unwrap_or_else(|| self.fleet.by_room(path).collect());
        let mut keyed: Vec<_> = all
            .into_iter()
            .filter_map(|index| {
                let entry = self.fleet.entry(index)?;
                let key = (Reverse(scores::preference(self, entry)), Reverse(entry.account.room()));
                Some((key, entry.state.registered, &entry.state.name, index))
            })
            .collect();
        keyed.sort();
        Box::new(keyed.into_iter().map(|(_, _, _, index)| index))
    }

    /// Makes a candidate of an open cluster; `None` if it has no room for as many as it must have.
    pub fn newcomer(self, index: usize, entry: &'a Entry, enough: i64) -> Option<Candidate<'a>> {
        let most = self.room(entry, enough);
        let least = self.rules.min_replicas.unwrap_or(1).max(1).min(self.demand.replicas);
        let weight = self.weight(entry, most);
        // Completions run one after another, however few pods fit at once.
        let (most, least) = match self.demand.work {
            Work::Completions { .. } => (if most > 0 { UNLIMITED } else { 0 }, 1),
            _ => (most, least),
        };
        (most >= least).then_some(Candidate { index, entry, current: 0, most, is_frozen: false, weight })
    }

    fn weight(self, entry: &Entry, most: i64) -> i64 {
        match &self.rules.division {
            Division::Weighted(weights) => weight_of(weights, &entry.state).max(1),
            Division::Capacity => most.clamp(1, UNLIMITED),
            _ => 1,
        }
    }
}
