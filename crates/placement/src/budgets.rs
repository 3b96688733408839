//! Budgets that hold for a whole workload, however many clusters it is divided between.

use std::sync::Arc;

pub use atoll_fleet::int_or_percent::resolve;

use crate::apportion::{Part, apportion};

/// A share during a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutShare {
    /// Uid of the cluster.
    pub uid: Arc<str>,
    pub replicas: i64,
    /// Replicas with the new template.
    pub updated: i64,
    /// Available replicas with either template.
    pub available: i64,
    /// Whether the cluster already has the new template.
    pub has_started: bool,
    /// Whether the cluster is not Ready: it has no turn, and its replicas count as unavailable.
    pub is_lost: bool,
}

/// The numbers of replicas of the whole workload that may be missing and extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutBudget {
    pub max_unavailable: i64,
    pub max_surge: i64,
}

/// The turn of a share in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The rollout of the share has finished.
    Finished,
    /// The share rolls out now, within these budgets.
    Now(RolloutBudget),
    /// The share keeps its template. If that is the new one already, its rollout makes no progress.
    Held,
}

/// Returns the turn of each share, such that all budgets together stay within the budget of the whole workload.
/// Shares whose rollout has started come first, so that it ends; then shares in their order.
pub fn stage(shares: &[RolloutShare], budget: RolloutBudget) -> Vec<Turn> {
    let mut turns: Vec<Turn> = shares.iter().map(|_| Turn::Held).collect();
    let is_finished = |share: &RolloutShare| share.has_started && share.updated >= share.replicas;
    // Replicas that are unavailable for any reason use up the budget.
    let missing = |share: &RolloutShare| (share.replicas - share.available).max(0);
    let mut unavailable = budget.max_unavailable.max(0);
    let mut extra = (unavailable - shares.iter().map(missing).sum::<i64>()).max(0);
    let mut surge = budget.max_surge.max(0);
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| !shares[*at].has_started);
    for at in order {
        let share = &shares[at];
        if is_finished(share) {
            turns[at] = Turn::Finished;
            continue;
        }
        if share.is_lost {
            continue;
        }
        if share.replicas == 0 {
            turns[at] = Turn::Now(RolloutBudget::default());
            continue;
        }
        let own = missing(share).min(unavailable);
        let more = extra.min(share.replicas - own);
        let of_share = RolloutBudget { max_unavailable: own + more, max_surge: surge.min(share.replicas) };
        if of_share == RolloutBudget::default() {
            continue;
        }
        unavailable -= own + more;
        extra -= more;
        surge -= of_share.max_surge;
        turns[at] = Turn::Now(of_share);
    }
    turns
}

/// Returns the `partition` of each segment of a divided StatefulSet, for that of the whole. Segments are
/// first ordinals and replicas.
pub fn divide_partition(segments: &[(i64, i64)], partition: i64) -> Vec<i64> {
    segments.iter().map(|(first, replicas)| (partition - first).clamp(0, *replicas)).collect()
}

/// The number of a PodDisruptionBudget, resolved for the whole workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    MinAvailable(i64),
    MaxUnavailable(i64),
}

/// Returns the number of each share's PodDisruptionBudget, in the same field. All together allow no more
/// disruptions than the whole.
pub fn divide_disruption(budget: Disruption, replicas: &[i64]) -> Vec<i64> {
    let total: i64 = replicas.iter().sum();
    let disruptions = match budget {
        Disruption::MinAvailable(least) => (total - least).max(0),
        Disruption::MaxUnavailable(most) => most,
    };
    let parts: Vec<Part> = replicas
        .iter()
        .map(|replicas| Part { weight: (*replicas).max(1), min: 0, max: *replicas, current: 0 })
        .collect();
    let shares = apportion(disruptions, &parts, true);
    match budget {
        Disruption::MaxUnavailable(_) => shares,
        Disruption::MinAvailable(_) => {
            shares.iter().zip(replicas).map(|(share, replicas)| replicas - share).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_percentages_are_resolved() {
        for (value, total, up, expected) in [
            (json!(3), 10, false, Some(3)),
            (json!("25%"), 10, false, Some(2)),
            (json!("25%"), 10, true, Some(3)),
            (json!("100%"), 7, false, Some(7)),
            (json!(-1), 10, false, Some(0)),
            (json!("x"), 10, false, None),
            (json!(null), 10, false, None),
        ] {
            assert_eq!(resolve(&value, total, up), expected, "{value} {total}");
        }
    }

    fn share(replicas: i64, updated: i64, available: i64, has_started: bool) -> RolloutShare {
        RolloutShare { replicas, updated, available, has_started, ..RolloutShare::default() }
    }

    #[test]
    fn one_cluster_after_another_has_its_turn() {
        let now = |max_unavailable, max_surge| Turn::Now(RolloutBudget { max_unavailable, max_surge });
        let whole = |max_unavailable, max_surge| RolloutBudget { max_unavailable, max_surge };
        for (shares, budget, expected) in [
            (vec![share(2, 0, 2, false), share(2, 0, 2, false)], whole(1, 0), vec![now(1, 0), Turn::Held]),
            (vec![share(2, 2, 2, true), share(2, 0, 2, false)], whole(1, 0), vec![Turn::Finished, now(1, 0)]),
            (vec![share(2, 0, 2, false), share(2, 1, 1, true)], whole(1, 0), vec![Turn::Held, now(1, 0)]),
            // A replica that is missing on another cluster uses up the budget.
            (
                vec![share(2, 2, 1, true), share(2, 0, 2, false)],
                whole(1, 0),
                vec![Turn::Finished, Turn::Held],
            ),
            (vec![share(2, 0, 1, false), share(2, 0, 2, false)], whole(1, 0), vec![now(1, 0), Turn::Held]),
            (vec![share(5, 0, 5, false), share(5, 0, 5, false)], whole(2, 3), vec![now(2, 3), Turn::Held]),
            (vec![share(1, 0, 1, false), share(5, 0, 5, false)], whole(2, 3), vec![now(1, 1), now(1, 2)]),
            (vec![share(0, 0, 0, false)], whole(1, 0), vec![now(0, 0)]),
        ] {
            assert_eq!(stage(&shares, budget), expected, "{shares:?} {budget:?}");
        }
    }

    #[test]
    fn disruptions_and_partitions_are_divided() {
        assert_eq!(divide_disruption(Disruption::MaxUnavailable(1), &[4, 3, 3]), [1, 0, 0]);
        assert_eq!(divide_disruption(Disruption::MaxUnavailable(5), &[4, 3, 3]), [2, 2, 1]);
        assert_eq!(divide_disruption(Disruption::MinAvailable(9), &[4, 3, 3]), [3, 3, 3]);
        assert_eq!(divide_disruption(Disruption::MinAvailable(99), &[4, 3]), [4, 3]);
        assert_eq!(divide_partition(&[(0, 2), (2, 3)], 3), [2, 1]);
        assert_eq!(divide_partition(&[(0, 2), (2, 3)], 0), [0, 0]);
        assert_eq!(divide_partition(&[(0, 2), (2, 3)], 9), [2, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_budgets_together_stay_within_the_whole(
            rows in proptest::collection::vec((0..6i64, 0..6i64, 0..6i64, any::<bool>()), 1..6),
            max_unavailable in 0..5i64,
            max_surge in 0..5i64,
        ) {
            let shares: Vec<RolloutShare> = rows
                .iter()
                .map(|(replicas, updated, available, started)| share(*replicas, (*updated).min(*replicas), (*available).min(*replicas), *started))
                .collect();
            let turns = stage(&shares, RolloutBudget { max_unavailable, max_surge });
            let (mut unavailable, mut surge) = (0, 0);
            for (share, turn) in shares.iter().zip(&turns) {
                // A cluster disrupts up to its budget, and unavailable replicas stay unavailable.
                let missing = share.replicas - share.available;
                match turn {
                    Turn::Now(budget) => {
                        unavailable += budget.max_unavailable.max(missing);
                        surge += budget.max_surge;
                        prop_assert!(budget.max_unavailable <= share.replicas);
                    }
                    Turn::Finished | Turn::Held => unavailable += missing,
                }
            }
            prop_assert!(surge <= max_surge);
            let granted = |turn: &Turn| if let Turn::Now(budget) = turn { budget.max_unavailable } else { 0 };
            prop_assert!(turns.iter().map(granted).sum::<i64>() <= max_unavailable);
            let before: i64 = shares.iter().map(|share| share.replicas - share.available).sum();
            prop_assert!(unavailable <= max_unavailable.max(before), "{:?}", turns);
        }
    }
}
