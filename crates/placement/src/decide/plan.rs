//! A plan: replicas by cluster, before they become shares.

use super::{DecidedShare, PlacementDecision};
use crate::completions::divide_parallelism;
use crate::demand::{Demand, Work};
use crate::filters::Question;
use crate::ordinals::firsts;

/// Replicas by index of the cluster.
#[derive(Clone, Debug, Default)]
pub struct SharePlan {
    pub shares: Vec<(usize, i64)>,
    /// Beginnings of segments, in the order of `shares`, if they are not to be computed.
    pub firsts: Option<Vec<i64>>,
    /// Parallelism by index of the cluster, if it is not to be computed.
    pub parallelism: Vec<(usize, i64)>,
    /// Whether replicas are divided, even if one cluster has all of them now.
    pub is_divided: bool,
    /// Whether present shares are kept instead of `shares`, because nothing better is possible.
    pub keeps_current: bool,
    pub unplaced: i64,
    /// Replicas in `shares` on clusters that they are to leave, because no other one takes them.
    pub kept: i64,
    pub reason: Option<String>,
}

impl SharePlan {
    pub fn of(shares: Vec<(usize, i64)>, unplaced: i64) -> SharePlan {
        SharePlan { shares, unplaced, ..SharePlan::default() }
    }

    /// Nothing is placed below, on purpose.
    pub fn above(reason: String) -> SharePlan {
        SharePlan { reason: Some(reason), ..SharePlan::default() }
    }

    /// No share can be added; those that need not end stay.
    pub fn nowhere(demand: &Demand, reason: &str) -> SharePlan {
        SharePlan {
            keeps_current: true,
            unplaced: demand.replicas.max(1),
            reason: Some(reason.to_string()),
            ..SharePlan::default()
        }
    }

    /// Returns the plan for fewer clusters than the rules require.
    pub fn too_few(demand: &Demand, least: Option<i64>, found: i64) -> Option<SharePlan> {
        let least = least.filter(|least| found < *least)?;
        let reason = format!("at least {least} clusters are required, and {found} can take it");
        Some(SharePlan::nowhere(demand, &reason))
    }

    /// Makes shares of the plan, in the order of registration, or of ordinals.
    pub fn decision(&self, question: Question<'_>) -> PlacementDecision {
        let by = question.rules.by.clone();
        if self.keeps_current {
            let shares = kept(question);
            let placed: i64 =
                shares.iter().map(|share| share.replicas.or(share.completions).unwrap_or(0)).sum();
            let unplaced = match (question.demand.has_replicas(), shares.is_empty()) {
                (true, false) => (question.demand.replicas - placed).max(0),
                (false, false) => 0,
                (_, true) => self.unplaced,
            };
            return PlacementDecision {
                by,
                shares,
                unplaced,
                kept: self.kept,
                reason: self.reason.clone(),
                ..PlacementDecision::default()
            };
        }
        let mut shares: Vec<(usize, i64)> = self.shares.clone();
        if self.firsts.is_none() {
            shares.sort_by(|one, other| order(question, one.0).cmp(&order(question, other.0)));
        }
        let shares = self.numbered(question, &shares);
        PlacementDecision {
            by,
            shares,
            unplaced: self.unplaced,
            kept: self.kept,
            reason: self.reason.clone(),
            ..PlacementDecision::default()
        }
    }

    fn numbered(&self, question: Question<'_>, shares: &[(usize, i64)]) -> Vec<DecidedShare> {
        let demand = question.demand;
        let named = shares.iter().filter_map(|(index, replicas)| {
            let state = &question.fleet.entry(*index)?.state;
            let share =
                DecidedShare { name: state.name.clone(), uid: state.uid.clone(), ..DecidedShare::default() };
            Some((share, *replicas))
        });
        let mut named: Vec<(DecidedShare, i64)> = named.collect();
        let is_alone = named.len() == 1 && !self.is_divided;
        match demand.work {
            Work::Replicas if is_alone && demand.is_scaled_below => {}
            Work::Replicas => named.iter_mut().for_each(|(share, replicas)| share.replicas = Some(*replicas)),
            Work::Ordinals => {
                let is_divided = self.is_divided || self.firsts.is_some();
                let firsts = self
                    .firsts
                    .clone()
                    .unwrap_or_else(|| firsts(named.iter().map(|(_, replicas)| *replicas)));
                for ((share, replicas), first) in named.iter_mut().zip(firsts) {
                    share.replicas = Some(*replicas);
                    share.first_ordinal = is_divided.then_some(first);
                }
            }
            Work::Completions { parallelism } if self.is_divided => {
                let room = |index: usize| {
                    question.fleet.entry(index).map_or(0, |entry| question.room(entry, parallelism))
                };
                let rows: Vec<(i64, i64)> =
                    shares.iter().map(|(index, completions)| (*completions, room(*index))).collect();
                let computed = divide_parallelism(parallelism, &rows);
                for (((share, completions), parallelism), (index, _)) in
                    named.iter_mut().zip(computed).zip(shares)
                {
                    let fixed = self.parallelism.iter().find(|(fixed, _)| fixed == index);
                    share.completions = Some(*completions);
                    share.parallelism = Some(fixed.map_or(parallelism, |(_, fixed)| *fixed));
                }
            }
            Work::Completions { .. } | Work::EveryNode | Work::Whole | Work::Copy => {}
        }
        named.into_iter().map(|(share, _)| share).collect()
    }
}

fn order<'a>(question: Question<'a>, index: usize) -> (i64, &'a str, usize) {
    question
        .fleet
        .entry(index)
        .map_or((0, "", index), |entry| (entry.state.registered, &*entry.state.name, index))
}

/// Present shares as they are, without those on clusters that are to be left.
fn kept(question: Question<'_>) -> Vec<DecidedShare> {
    let (fleet, demand) = (question.fleet, question.demand);
    let stays = demand.current.iter().filter(|share| demand.is_paused || !demand.is_evicted(&share.uid));
    let shares = stays.filter_map(|share| {
        let state = fleet.cluster(&share.uid)?;
        Some(DecidedShare {
            name: state.name.clone(),
            uid: state.uid.clone(),
            replicas: share.replicas,
            first_ordinal: share.first_ordinal,
            completions: share.completions,
            parallelism: share.parallelism,
        })
    });
    shares.collect()
}
