//! Replicas shared out over domains, then over the clusters of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::pack::fill;
use crate::apportion::{Part, apportion, level};
use crate::candidates::Candidate;
use crate::filters::Question;
use crate::fleet::ClusterEntry;
use crate::rules::{ClusterFilter, Division, Spread};
use crate::scores;

/// How replicas are shared out.
pub struct Sharing<'a> {
    pub division: &'a Division,
    pub may_rebalance: bool,
    pub min_replicas: Option<i64>,
    pub min_clusters: Option<i64>,
    /// Largest difference between two clusters.
    pub max_skew: Option<i64>,
}

/// The clusters of one domain, by position.
struct Domain {
    members: Vec<usize>,
    part: Part,
}

/// Divides replicas between clusters, which are in the order of registration. An error is the reason why that
/// is not possible.
pub fn share_out(
    sharing: &Sharing<'_>,
    spread: &[Spread],
    found: &[Candidate<'_>],
    total: i64,
) -> Result<Vec<i64>, String> {
    let Some((first, narrower)) = spread.split_first() else { return Ok(leaf(sharing, found, total)) };
    let mut domains = domains(first, found);
    let most = usize::try_from(first.max_domains.unwrap_or(i64::MAX)).unwrap_or(0);
    domains.sort_by_key(|domain| (-domain.part.current, -domain.part.max.min(total)));
    domains.truncate(most.max(1));
    let least = first.min_domains.unwrap_or(0);
    let usable = domains.iter().filter(|domain| domain.part.max > 0).count();
    if i64::try_from(usable).unwrap_or(i64::MAX) < least {
        let label = first.by.label();
        return Err(format!(
            "at least {least} domains by {label} are required, and {usable} can take replicas"
        ));
    }
    domains.sort_by_key(|domain| domain.members.first().copied());
    let mut parts: Vec<Part> = domains.iter().map(|domain| domain.part).collect();
    if least <= total {
        let needed = usize::try_from(least).unwrap_or(0);
        parts.iter_mut().filter(|part| part.max > 0).take(needed).for_each(|part| part.min = part.min.max(1));
    }
    let shares = match first.max_skew {
        Some(skew) => level(total, &parts, skew.max(1)),
        None => apportion(total, &parts, sharing.may_rebalance),
    };
    let mut all = vec![0; found.len()];
    for (domain, share) in domains.iter().zip(shares) {
        let members: Vec<Candidate<'_>> = domain.members.iter().map(|at| found[*at].clone()).collect();
        for (at, share) in domain.members.iter().zip(share_out(sharing, narrower, &members, share)?) {
            all[*at] = share;
        }
    }
    Ok(all)
}

/// Groups clusters by domain, each as one part of the division between domains.
fn domains(spread: &Spread, found: &[Candidate<'_>]) -> Vec<Domain> {
    let mut by_name: BTreeMap<&str, Domain> = BTreeMap::new();
    for (at, one) in found.iter().enumerate() {
        let Some(name) = spread.by.domain(&one.entry.state) else { continue };
        let empty = Part { weight: 0, min: 0, max: 0, current: 0 };
        let domain = by_name.entry(name).or_insert(Domain { members: Vec::new(), part: empty });
        domain.members.push(at);
        domain.part.weight = domain.part.weight.saturating_add(one.weight);
        domain.part.max = domain.part.max.saturating_add(one.most);
        domain.part.current += one.current;
        domain.part.min += if one.is_frozen { one.current } else { 0 };
    }
    by_name.into_values().collect()
}

/// Divides replicas between clusters without regard to domains.
fn leaf(sharing: &Sharing<'_>, found: &[Candidate<'_>], total: i64) -> Vec<i64> {
    if *sharing.division == Division::Pack && sharing.max_skew.is_none() {
        return fill(found, total, sharing.min_replicas.unwrap_or(0));
    }
    let least = sharing.min_replicas.unwrap_or(0);
    let mut parts: Vec<Part> = found
        .iter()
        .map(|one| match one.is_frozen {
            true => Part { weight: one.weight, min: one.current, max: one.current, current: one.current },
            false => {
                Part { weight: one.weight, min: least.min(one.most), max: one.most, current: one.current }
            }
        })
        .collect();
    if let Some(clusters) = sharing.min_clusters.filter(|clusters| *clusters <= total) {
        let needed = usize::try_from(clusters).unwrap_or(0);
        parts.iter_mut().filter(|part| part.max > 0).take(needed).for_each(|part| part.min = part.min.max(1));
    }
    // There are fewer replicas than clusters: new clusters, and then the last ones, get none.
    while parts.iter().map(|part| part.min).sum::<i64>() > total {
        let is_free = |at: &usize| parts[*at].min > 0 && !found[*at].is_frozen;
        let dropped = (0..parts.len()).rev().filter(is_free).min_by_key(|at| parts[*at].current);
        let Some(at) = dropped else { break };
        let rest: i64 =
            parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part.min).sum();
        parts[at].min = if rest == 0 { total } else { 0 };
        parts[at].max = parts[at].min;
    }
    let shares = apportion(total, &parts, sharing.may_rebalance);
    match sharing.max_skew {
        Some(skew) => levelled(shares, &parts, total, skew.max(1)),
        None => shares,
    }
}

/// Shares that differ by no more than the skew. Clusters that cannot take any replicas, or whose share is
/// frozen, do not count.
fn levelled(mut shares: Vec<i64>, parts: &[Part], total: i64, skew: i64) -> Vec<i64> {
    let free: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].min < parts[*at].max).collect();
    let most = free.iter().map(|at| shares[*at]).max().unwrap_or(0);
    let least = free.iter().map(|at| shares[*at]).min().unwrap_or(0);
    if most - least <= skew {
        return shares;
    }
    let fixed: i64 = (0..parts.len()).filter(|at| !free.contains(at)).map(|at| shares[at]).sum();
    let of_free: Vec<Part> = free.iter().map(|at| parts[*at]).collect();
    for (at, share) in free.iter().zip(level((total - fixed).max(0), &of_free, skew)) {
        shares[*at] = share;
    }
    shares
}

/// Reorders clusters such that as many domains as possible come first, one cluster of each. Domains keep the
/// order of their first clusters.
pub fn diversify<'a>(spread: &[Spread], found: Vec<Candidate<'a>>) -> Vec<Candidate<'a>> {
    let mut seen: BTreeMap<Vec<&'a str>, usize> = BTreeMap::new();
    let mut keyed: Vec<(usize, usize, Candidate<'a>)> = Vec::with_capacity(found.len());
    for (at, one) in found.into_iter().enumerate() {
        let round = seen.entry(domain_of(spread, one.entry)).or_default();
        keyed.push((*round, at, one));
        *round += 1;
    }
    keyed.sort_by_key(|(round, at, _)| (*round, *at));
    keyed.into_iter().map(|(_, _, one)| one).collect()
}

/// Chooses clusters such that the domains have as much room as possible: the one with least room gets another cluster
/// first. Of the clusters of a domain, one with a share comes first if it has room for an even part of all replicas.
pub fn roomiest<'a>(
    spread: &[Spread],
    found: Vec<Candidate<'a>>,
    total: i64,
    most: usize,
) -> Vec<Candidate<'a>> {
    let (mut chosen, found): (Vec<Candidate<'a>>, Vec<Candidate<'a>>) =
        found.into_iter().partition(|one| one.is_frozen);
    let mut domains: BTreeMap<Vec<&'a str>, (i64, Vec<Candidate<'a>>)> = BTreeMap::new();
    for one in &chosen {
        domains.entry(domain_of(spread, one.entry)).or_default().0 += one.most;
    }
    for one in found {
        domains.entry(domain_of(spread, one.entry)).or_default().1.push(one);
    }
    let used = i64::try_from(domains.len().min(most)).unwrap_or(i64::MAX).max(1);
    let part = total / used + i64::from(total % used > 0);
    // The best cluster of each domain comes last.
    let worth = |one: &Candidate<'a>| (one.most.min(part), one.current, one.most);
    for (_, members) in domains.values_mut() {
        members.sort_by(|one, other| {
            worth(one).cmp(&worth(other)).then_with(|| other.registration().cmp(&one.registration()))
        });
    }
    while chosen.len() < most {
        let open = domains.values_mut().filter(|(_, members)| !members.is_empty());
        let least = open.min_by_key(|(room, members)| (*room, Reverse(members.last().map(worth))));
        let Some((room, members)) = least else { break };
        let Some(one) = members.pop() else { break };
        *room = room.saturating_add(one.most);
        chosen.push(one);
    }
    chosen
}

/// The domain of a cluster by all constraints together.
fn domain_of<'a>(spread: &[Spread], entry: &'a ClusterEntry) -> Vec<&'a str> {
    spread.iter().map(|spread| spread.by.domain(&entry.state).unwrap_or_default()).collect()
}

/// Most clusters that a domain needs, if each domain and each cluster has enough room.
fn level_share(replicas: i64, domains: usize, skew: i64) -> usize {
    let share = usize::try_from(replicas).unwrap_or(usize::MAX) / domains.max(1);
    share.saturating_add(usize::try_from(skew).unwrap_or(0)).saturating_add(1)
}

/// Returns open clusters: all of them if `is_thorough`, otherwise as many of each domain as the domain needs if
/// all clusters have enough room.
pub fn open<'a>(
    question: Question<'a>,
    term: Option<&'a ClusterFilter>,
    enough: i64,
    of_each: usize,
    is_thorough: bool,
) -> Vec<Candidate<'a>> {
    let newcomer = |(index, entry): (usize, &'a ClusterEntry)| question.newcomer(index, entry, enough);
    let [spread] = question.rules.spread.as_slice() else {
        return question.open(term).filter_map(newcomer).collect();
    };
    let (path, label) = (&question.demand.workspace_path, spread.by.label());
    let mut found: Vec<Candidate<'a>> = Vec::new();
    let domains = question.fleet.domains(path, label);
    let of_each = match spread.max_skew {
        _ if is_thorough => usize::MAX,
        Some(skew) => of_each.min(level_share(question.demand.replicas, domains.len(), skew)),
        None => of_each,
    };
    for domain in domains {
        let members = Box::new(question.fleet.labelled(path, label, domain));
        found.extend(question.open_of(term, members).filter_map(newcomer).take(of_each));
    }
    found.sort_by_cached_key(|one| {
        let rank = (Reverse(scores::preference(question, one.entry)), Reverse(one.entry.account.room()));
        (rank, one.entry.state.registered, one.entry.state.name.clone(), one.index)
    });
    found
}
