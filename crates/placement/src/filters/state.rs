//! Filters by the state of the cluster.

use super::{Cause, Question};
use crate::cluster::Readiness;
use crate::fleet::ClusterEntry;
use crate::node::{Effect, Taint};

/// Refuses clusters that are being removed, only observed, fenced, paused or cordoned.
pub fn lifecycle<'a>(_: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let state = &entry.state;
    let causes = [
        (state.is_being_removed, Cause::BeingRemoved),
        (state.is_observed, Cause::Observed),
        (state.is_fenced, Cause::Fenced),
        (state.is_paused, Cause::Paused),
        (state.is_cordoned, Cause::Cordoned),
    ];
    causes.into_iter().find(|(applies, _)| *applies).map(|(_, cause)| cause)
}

/// Refuses clusters that are not Ready. If a user named the cluster, an unknown state is accepted, except that a cluster
/// that is shared with other workspaces must have reported its room.
pub fn readiness<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let has_report = entry.account.report().is_some();
    let is_shared = question.is_shared(entry);
    match &entry.state.readiness {
        Readiness::NotReady { reason, .. } => Some(Cause::NotReady { reason }),
        _ if is_shared && !has_report => Some(Cause::RoomNotReported),
        Readiness::Ready { .. } if !has_report && !question.rules.names_clusters => Some(Cause::NotReported),
        Readiness::Ready { .. } => None,
        Readiness::Unknown if question.rules.names_clusters => None,
        Readiness::Unknown => Some(Cause::NotReported),
    }
}

/// Refuses clusters with taints that neither the pods nor the policy tolerate.
pub fn taints<'a>(question: Question<'a>, entry: &'a ClusterEntry) -> Option<Cause<'a>> {
    let is_tolerated = |taint: &Taint| {
        taint.is_tolerated(&question.rules.tolerations)
            || taint.is_tolerated(&question.demand.needs.node.tolerations)
    };
    let keeps_away = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule && !is_tolerated(taint);
    let mut taints: Vec<&Taint> = entry.state.taints.iter().filter(keeps_away).collect();
    // A taint that also ends shares is named before others.
    taints.sort_by_key(|taint| taint.effect != Effect::NoExecute);
    taints.first().map(|taint| Cause::Taint(taint))
}
