//! A plan: replicas by cluster, before they become shares.

use super::{DecidedShare, PlacementDecision};
use crate::completions::divide_parallelism;
use crate::demand::{Demand, Work};
use crate::filters::{Admission, Question};
use crate::fleet::ClusterEntry;
use crate::ordinals::firsts;

/// Replicas by index of the cluster.
#[derive(Clone, Debug, Default)]
pub struct SharePlan {
    pub shares: Vec<(usize, i64)>,
    /// First ordinals of the segments, in the order of `shares`, unless they are to be computed.
    pub firsts: Option<Vec<i64>>,
    /// Parallelism by index of the cluster, unless it is to be computed.
    pub parallelism: Vec<(usize, i64)>,
    /// Whether replicas are divided, even if one cluster has all of them now.
    pub is_divided: bool,
    /// Whether the present shares are kept instead of `shares`, because no better plan is possible.
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

    /// The plan for an object that stays in the control plane.
    pub fn above(reason: String) -> SharePlan {
        SharePlan { reason: Some(reason), ..SharePlan::default() }
    }

    /// The plan if no share can be added. Shares that are not evicted stay.
    pub fn nowhere(demand: &Demand, reason: &str) -> SharePlan {
        SharePlan {
            keeps_current: true,
            unplaced: demand.replicas.max(1),
            reason: Some(reason.to_string()),
            ..SharePlan::default()
        }
    }

    /// Returns the plan if fewer clusters were found than the rules require; `None` if there are enough.
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
        let waiting: i64 = shares.iter().map(|share| waiting_pods(question, share)).sum();
        PlacementDecision {
            by,
            shares,
            unplaced: self.unplaced + waiting,
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
            // A higher parallelism must find room first, as more replicas do.
            Work::Completions { .. } | Work::Whole => {
                for ((share, _), (index, _)) in named.iter_mut().zip(shares) {
                    let entry = question.fleet.entry(*index).filter(|entry| question.is_shared(entry));
                    share.parallelism = entry.map(|entry| allowed_pods(question, entry));
                }
            }
            Work::EveryNode | Work::Copy => {}
        }
        named.into_iter().map(|(share, _)| share).collect()
    }
}

/// Pods of a Job that a shared cluster may run at once: those that it may run already, and as many more as have room.
fn allowed_pods(question: Question<'_>, entry: &ClusterEntry) -> i64 {
    let demand = question.demand;
    let need = demand.pods();
    let now = demand.share(&entry.state.uid).map(|share| demand.pods_of(share).min(need));
    match (now, question.admission(entry)) {
        (Some(now), Admission::Keeps(_)) if !demand.is_paused => now,
        (now, _) => question.room(entry, need).max(now.unwrap_or(0)),
    }
}

/// Pods of an undivided Job that have no room on the shared cluster of a share.
fn waiting_pods(question: Question<'_>, share: &DecidedShare) -> i64 {
    let demand = question.demand;
    let is_undivided =
        matches!(demand.work, Work::Completions { .. } | Work::Whole) && share.completions.is_none();
    let allowed = share.parallelism.filter(|_| is_undivided);
    allowed.map_or(0, |allowed| (demand.pods() - allowed).max(0))
}

fn order<'a>(question: Question<'a>, index: usize) -> (i64, &'a str, usize) {
    question
        .fleet
        .entry(index)
        .map_or((0, "", index), |entry| (entry.state.registered, &*entry.state.name, index))
}

/// The present shares, without those on evicted clusters.
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
