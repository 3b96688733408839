//! Filters by the rules.

use super::{Cause, Question};
use crate::fleet::ClusterEntry;
use crate::rules::Division;

/// Refuses clusters that the rules do not select by name and label, and clusters without a domain if the rules
/// spread over domains.
pub fn clusters<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let (rules, state) = (question.rules, &entry.state);
    if !rules.clusters.selects(state) {
        return Some(Cause::Excluded { by: &rules.by });
    }
    if !rules.terms.is_empty() && !rules.terms.iter().any(|term| term.selects(state)) {
        return Some(Cause::Excluded { by: &rules.by });
    }
    if let Division::Weighted(weights) = &rules.division
        && weight_of(weights, state) == 0
    {
        return Some(Cause::NoWeight { by: &rules.by });
    }
    let spread = rules.spread.iter().find(|spread| spread.by.domain(state).is_none())?;
    Some(Cause::NoDomain { label: spread.by.label() })
}

/// Returns the weight of the first entry that selects a cluster.
pub fn weight_of(
    weights: &[(crate::rules::ClusterFilter, i64)],
    state: &crate::cluster::ClusterState,
) -> i64 {
    weights.iter().find(|(filter, _)| filter.selects(state)).map_or(0, |(_, weight)| (*weight).max(0))
}

/// Refuses clusters without the workloads that the rules require, and clusters with those that they exclude.
pub fn other_workloads<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let (rules, uid) = (question.rules, &entry.state.uid);
    let missing = rules.with.iter().find(|with| with.is_required && !with.clusters.contains(uid));
    if let Some(with) = missing {
        return Some(Cause::WorkloadMissing { text: &with.text });
    }
    let met = rules.without.iter().find(|without| without.is_required && without.clusters.contains(uid))?;
    Some(Cause::WorkloadPresent { text: &met.text })
}
