//! Places all replicas of an object on one cluster, or all of them on each.

use super::{SharePlan, paused};
use crate::candidates::Candidate;
use crate::filters::{Admission, Question};
use crate::fleet::ClusterEntry;
use crate::rules::ClusterFilter;

/// Chooses the present cluster, one of the namespace, one of the workspace, or the one with most room: the
/// first that has room for all replicas. If none has, as many replicas as possible go to one cluster.
pub fn single<'a>(question: Question<'a>, term: Option<&'a ClusterFilter>) -> SharePlan {
    let (demand, rules) = (question.demand, question.rules);
    let need = demand.pods();
    let present = question.present(term, need);
    if present.len() > 1 && present.iter().any(|found| found.is_frozen && found.entry.state.is_paused) {
        // Shares on a paused cluster neither leave it nor take more from others.
        return paused::follow(question);
    }
    if let Some(found) = present.iter().find(|found| found.is_frozen || found.most >= need) {
        // The room of a cluster that is not ready is not known.
        let is_unready = found.is_frozen && found.entry.state.readiness.is_not_ready();
        return if is_unready { part(question, found) } else { whole(found, demand.replicas) };
    }
    // A workload that has outgrown its cluster moves to one that takes all of it, unless more would be lost than replicas.
    let is_bound = demand.runs_once
        || demand.has_bound_claims
        || (rules.keeps_namespace_together && demand.shares_cluster_with_namespace);
    if let Some(found) = present.first().filter(|_| is_bound) {
        return part(question, found);
    }
    let mut best: Option<(i64, usize)> = None;
    for (index, entry) in preferred(question, term).chain(question.open(term)) {
        let most = question.room(entry, need);
        if most >= need {
            return SharePlan::of(vec![(index, demand.replicas)], 0);
        }
        if best.is_none_or(|(before, _)| before < most) {
            best = Some((most, index));
        }
    }
    match (present.first(), best) {
        (Some(found), _) => part(question, found),
        (None, Some((most, index))) if most > 0 && demand.may_be_partial() => {
            SharePlan::of(vec![(index, most)], need - most)
        }
        _ => SharePlan::of(Vec::new(), demand.replicas.max(1)),
    }
}

fn whole(found: &Candidate<'_>, replicas: i64) -> SharePlan {
    SharePlan::of(vec![(found.index, replicas)], 0)
}

/// Keeps the cluster, which has no room for all replicas.
fn part<'a>(question: Question<'a>, found: &Candidate<'a>) -> SharePlan {
    let demand = question.demand;
    if !demand.may_be_partial() {
        return whole(found, demand.replicas);
    }
    SharePlan::of(vec![(found.index, found.most)], demand.replicas - found.most)
}

/// Open clusters that other objects of the namespace and of the workspace are on.
fn preferred<'a>(
    question: Question<'a>,
    term: Option<&'a ClusterFilter>,
) -> impl Iterator<Item = (usize, &'a ClusterEntry)> {
    let demand = question.demand;
    let near = demand.namespace_on.iter().chain(&demand.workspace_on);
    let found = near.filter_map(move |uid| {
        let index = question.fleet.index_of(uid)?;
        Some((index, question.fleet.entry(index)?))
    });
    found.filter(move |(_, entry)| {
        demand.share(&entry.state.uid).is_none()
            && term.is_none_or(|term| term.selects(&entry.state))
            && matches!(question.admission(entry), Admission::Open)
    })
}

/// Places all replicas on each of the clusters.
pub fn duplicate<'a>(question: Question<'a>, term: Option<&'a ClusterFilter>) -> SharePlan {
    let (demand, rules) = (question.demand, question.rules);
    let need = demand.pods();
    let most_clusters = usize::try_from(rules.max_clusters.unwrap_or(i64::MAX)).unwrap_or(usize::MAX);
    let mut shares = Vec::new();
    let mut missing = 0;
    for found in question.present(term, need).iter().take(most_clusters) {
        // On a paused cluster, too, it follows the number of replicas.
        let most = match found.entry.state.is_paused {
            true => question.room(found.entry, need).max(found.current),
            false => found.most,
        };
        let replicas = if demand.may_be_partial() { most.min(demand.replicas) } else { demand.replicas };
        missing += demand.replicas - replicas;
        shares.push((found.index, replicas));
    }
    let fits = question.open(term).filter(|(_, entry)| question.room(entry, need) >= need);
    shares.extend(
        fits.take(most_clusters.saturating_sub(shares.len())).map(|(index, _)| (index, demand.replicas)),
    );
    let found = i64::try_from(shares.len()).unwrap_or(i64::MAX);
    if let Some(plan) = SharePlan::too_few(demand, rules.min_clusters, found) {
        return plan;
    }
    if shares.is_empty() {
        SharePlan::of(shares, demand.replicas.max(1))
    } else {
        SharePlan::of(shares, missing)
    }
}
