//! Replicas divided between clusters.

use std::cmp::Reverse;

use super::SharePlan;
use super::pack::pack;
use super::spread::{self, Sharing};
use crate::candidates::Candidate;
use crate::demand::Work;
use crate::filters::Question;
use crate::ledger::UNLIMITED;
use crate::rules::{ClusterFilter, Division};

/// Divides replicas: chooses clusters, then apportions replicas to them, domain by domain.
pub fn divide<'a>(question: Question<'a>, term: Option<&'a ClusterFilter>) -> SharePlan {
    let plan = divide_between(question, term, false);
    if plan.unplaced == 0 || question.rules.spread.is_empty() {
        return plan;
    }
    // The clusters with most room in each domain are not always the first candidates.
    let thorough = divide_between(question, term, true);
    if thorough.unplaced < plan.unplaced { thorough } else { plan }
}

fn divide_between<'a>(
    question: Question<'a>,
    term: Option<&'a ClusterFilter>,
    is_thorough: bool,
) -> SharePlan {
    let (demand, rules) = (question.demand, question.rules);
    let total = demand.replicas;
    if let Some(found) = place_of_zero(question, term) {
        return SharePlan::of(vec![(found, 0)], 0);
    }
    let mut chosen = choose(question, term, is_thorough);
    let with_room = chosen.iter().filter(|found| found.most > 0).count();
    if let Some(plan) =
        SharePlan::too_few(demand, rules.min_clusters, i64::try_from(with_room).unwrap_or(i64::MAX))
    {
        return plan;
    }
    let mut sharing = Sharing {
        division: &rules.division,
        may_rebalance: demand.may_rebalance,
        min_replicas: rules.min_replicas,
        min_clusters: rules.min_clusters,
        max_skew: rules.max_skew,
    };
    let mut shared = spread::share_out(&sharing, &rules.spread, &chosen, total);
    let has_all = |shares: &Vec<i64>| shares.iter().sum::<i64>() == total;
    if !shared.as_ref().is_ok_and(has_all) && chosen.iter().any(is_paused) {
        // Shares on paused clusters stay as they are unless the others cannot follow the number of replicas alone.
        for found in chosen.iter_mut().filter(|found| is_paused(found)) {
            (found.is_frozen, found.most) = (false, question.room(found.entry, total).max(found.current));
        }
        sharing.may_rebalance = false;
        shared = spread::share_out(&sharing, &rules.spread, &chosen, total);
    }
    match shared {
        Ok(shares) => {
            let stays = |share: i64, found: &Candidate<'_>| {
                let is_kept = found.is_frozen || found.entry.state.is_paused;
                share > 0 || (is_kept && demand.share(&found.entry.state.uid).is_some())
            };
            let shares = chosen.iter().zip(shares).filter(|(found, share)| stays(*share, found));
            let shares: Vec<(usize, i64)> = shares.map(|(found, share)| (found.index, share)).collect();
            let placed: i64 = shares.iter().map(|(_, share)| share).sum();
            SharePlan::of(zero_replicas(shares, &chosen, total), (total - placed).max(0))
        }
        Err(reason) => SharePlan::nowhere(demand, &reason),
    }
}

/// Whether a share must stay as it is because of a pause of its cluster.
fn is_paused(found: &Candidate<'_>) -> bool {
    found.is_frozen && found.entry.state.is_paused
}

/// The cluster on which an object without replicas stays. Another one with more room is no reason to move nothing.
fn place_of_zero<'a>(question: Question<'a>, term: Option<&'a ClusterFilter>) -> Option<usize> {
    if question.demand.replicas > 0 {
        return None;
    }
    let present = question.present(term, 0);
    let is_frozen = present.iter().any(|found| found.is_frozen);
    present.first().filter(|_| !is_frozen).map(|found| found.index)
}

/// An object that is scaled to zero keeps a cluster, so that users see it there and can scale it up again.
fn zero_replicas(shares: Vec<(usize, i64)>, chosen: &[Candidate<'_>], total: i64) -> Vec<(usize, i64)> {
    match chosen.first() {
        Some(found) if shares.is_empty() && total == 0 => vec![(found.index, 0)],
        _ => shares,
    }
}

/// Most clusters that may have a share.
fn most_clusters(question: Question<'_>) -> usize {
    let (demand, rules) = (question.demand, question.rules);
    let by_replicas = match (rules.min_replicas, &rules.division) {
        (Some(least), _) => demand.replicas / least.max(1),
        // Clusters of weight 0 get no replicas.
        (None, Division::Weighted(_)) => i64::MAX,
        (None, _) => demand.replicas,
    };
    let by_work = match demand.work {
        // Each cluster runs at least one pod at a time.
        Work::Completions { parallelism } if parallelism > 0 => parallelism,
        _ => i64::MAX,
    };
    let most = by_replicas.max(1).min(rules.max_clusters.unwrap_or(i64::MAX)).min(by_work).max(1);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Chooses clusters, in the order of registration.
fn choose<'a>(
    question: Question<'a>,
    term: Option<&'a ClusterFilter>,
    is_thorough: bool,
) -> Vec<Candidate<'a>> {
    let (demand, rules) = (question.demand, question.rules);
    let total = demand.replicas;
    let enough = if rules.division == Division::Capacity { UNLIMITED } else { demand.pods() };
    let mut found = question.present(term, enough);
    let most = most_clusters(question);
    let least = usize::try_from(rules.min_clusters.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
    let growth = total - found.iter().map(|one| one.current).sum::<i64>();
    let needs_more = demand.may_rebalance
        || rules.max_skew.is_some()
        || room(&found, total) < total
        || found.len() < least
        || !rules.spread.is_empty()
        || (growth > 0 && rules.division != Division::Pack);
    if needs_more {
        // Without balancing, new clusters get only additional replicas.
        let most_new = match rules.min_replicas {
            Some(replicas) if !demand.may_rebalance && found.len() >= least => {
                usize::try_from(growth / replicas.max(1)).unwrap_or(0)
            }
            _ => usize::MAX,
        };
        // A present cluster whose replicas were all scaled away must have room for the minimum, like a new one.
        let least = rules.min_replicas.unwrap_or(1).max(1).min(total);
        // Keep only clusters that can have replicas, so that the others do not count towards the maximum.
        found.retain(|one| one.is_frozen || (one.current > 0 && one.most > 0) || one.most >= least);
        let most_new = most_new.min(most.saturating_sub(found.len()));
        // With a maximum skew, the smallest cluster limits the others, so the sum of the room says little.
        let missing = if rules.max_skew.is_some() { total } else { total - room(&found, total) };
        found.extend(newcomers(question, term, (enough, missing), (most, most_new), is_thorough));
    }
    if rules.division == Division::Pack && rules.spread.is_empty() && rules.max_skew.is_none() {
        let most = rules.max_clusters.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
        return in_order(pack(found, total, most.min(most_clusters(question)), demand.may_rebalance));
    }
    if matches!(rules.division, Division::Weighted(_)) && demand.may_rebalance {
        found.sort_by_key(|one| (!one.is_frozen, Reverse(one.weight), Reverse(one.current)));
    }
    if !rules.spread.is_empty() {
        found = match is_thorough {
            true => spread::roomiest(&rules.spread, found, total, most),
            false => spread::diversify(&rules.spread, found),
        };
    }
    if found.len() > most && !have_room(&found[..most], total, rules.max_skew) {
        // The first candidates have too little room together.
        by_room(&mut found, total, most);
        if !rules.spread.is_empty() {
            found = spread::diversify(&rules.spread, found);
        }
    }
    found.truncate(most);
    in_order(found)
}

/// The number of replicas, up to a total, that clusters have room for.
fn room(found: &[Candidate<'_>], total: i64) -> i64 {
    found.iter().map(|one| one.most.min(total)).sum()
}

/// Reorders clusters such that the first `most` have room for all replicas together, if any do: those with room for an
/// even part come first, and of these the ones with a share.
fn by_room(found: &mut [Candidate<'_>], total: i64, most: usize) {
    let clusters = i64::try_from(most).unwrap_or(i64::MAX).max(1);
    let part = total / clusters + i64::from(total % clusters > 0);
    found.sort_by_key(|one| {
        (!one.is_frozen, Reverse(one.most.min(part)), Reverse(one.current), Reverse(one.most))
    });
}

/// Whether clusters have room for a total within the maximum skew.
fn have_room(found: &[Candidate<'_>], total: i64, max_skew: Option<i64>) -> bool {
    let least = found.iter().map(|one| one.most).min().unwrap_or(0);
    let most = max_skew.map_or(total, |skew| least.saturating_add(skew.max(1)).min(total));
    room(found, most) >= total
}

/// Returns open clusters: the best `most_new`, and more if these have too little room for what is `missing`.
fn newcomers<'a>(
    question: Question<'a>,
    term: Option<&'a ClusterFilter>,
    (enough, missing): (i64, i64),
    (most, most_new): (usize, usize),
    is_thorough: bool,
) -> Vec<Candidate<'a>> {
    let rules = question.rules;
    // Weights and packing do not prefer the clusters with most room.
    let takes_all = matches!(rules.division, Division::Weighted(_) | Division::Pack);
    if !rules.spread.is_empty() {
        let of_each = if takes_all { usize::MAX } else { most };
        return spread::open(question, term, enough, of_each, is_thorough);
    }
    let mut open = question.open(term).filter_map(|(index, entry)| question.newcomer(index, entry, enough));
    let mut more: Vec<Candidate<'a>> = match takes_all {
        true => open.by_ref().collect(),
        false => open.by_ref().take(most_new).collect(),
    };
    if room(&more, question.demand.replicas) < missing {
        more.extend(open);
    }
    if matches!(rules.division, Division::Weighted(_)) {
        more.sort_by_key(|one| Reverse(one.weight));
    }
    more
}

fn in_order(mut found: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    found.sort_by(|one, other| one.registration().cmp(&other.registration()));
    found
}
