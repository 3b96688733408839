//! Divisions that are fixed: pins of a user, segments of ordinals, completions of a Job.

use super::{SharePlan, terms};
use crate::demand::{CurrentShare, Work};
use crate::filters::{Admission, Question};
use crate::ordinals::{Segment, resize};
use crate::rules::{ClusterFilter, Division};

/// Exact counts by name.
pub fn pinned<'a>(question: Question<'a>, pins: &'a [(String, i64)]) -> SharePlan {
    let (fleet, demand) = (question.fleet, question.demand);
    let (mut shares, mut unplaced) = (Vec::new(), 0);
    for (name, count) in pins {
        let found = fleet.index_named(&demand.workspace_path, name);
        let Some((index, entry)) = found.and_then(|index| Some((index, fleet.entry(index)?))) else {
            unplaced += count;
            continue;
        };
        let current = demand.share(&entry.state.uid).map(|share| demand.replicas_of(share));
        let most = match (question.admission(entry), current) {
            (Admission::Open, None) if demand.is_paused => 0,
            (Admission::Open, _) => question.room(entry, *count),
            (Admission::Keeps(_), Some(current)) => question.room(entry, *count).min(current),
            _ => 0,
        };
        let share = most.min(*count);
        unplaced += count - share;
        if share > 0 || (*count == 0 && current.is_some()) {
            shares.push((index, share));
        }
    }
    SharePlan { is_divided: true, ..SharePlan::of(shares, unplaced) }
}

/// Returns the plan for an object whose division is fixed: a divided StatefulSet resizes its last segment, and
/// a Job stays as it was divided. `None` for all others.
pub fn continued(question: Question<'_>) -> Option<SharePlan> {
    let demand = question.demand;
    match demand.work {
        Work::Ordinals if is_in_segments(question) => Some(segments(question)),
        Work::Completions { .. } if demand.current.iter().any(|share| share.completions.is_some()) => {
            Some(completions(question))
        }
        _ => None,
    }
}

/// Whether a StatefulSet keeps its division: it is divided already, or its volumes forbid another division.
fn is_in_segments(question: Question<'_>) -> bool {
    let (demand, rules) = (question.demand, question.rules);
    let has_segments = demand.current.iter().any(|share| share.first_ordinal.is_some());
    let is_whole = matches!(rules.division, Division::Single | Division::Duplicate);
    has_segments || (demand.has_bound_claims && !is_whole && !demand.current.is_empty())
}

/// Why a divided StatefulSet is not put together on one cluster.
const STAYS_DIVIDED: &str = "a divided StatefulSet stays divided, because its ordinals and volumes stay with their segments; to have it \
                             on one cluster, delete it and create it again";

/// Where a present share goes.
#[derive(Clone, Copy)]
struct Destination {
    index: usize,
    /// Most replicas that it may have there.
    most: i64,
    /// Whether it is to leave its cluster, and stays there because no other one takes it.
    is_stuck: bool,
}

/// Where each present share goes: its own cluster, another one without a share, or its own again if there is no other.
/// `None` if its own does not exist any more, and no other takes it.
fn destinations<'a>(question: Question<'a>, shares: &[&CurrentShare]) -> Vec<Option<Destination>> {
    let (fleet, demand) = (question.fleet, question.demand);
    let mut taken: Vec<usize> = shares.iter().filter_map(|share| fleet.index_of(&share.uid)).collect();
    let mut found = Vec::new();
    let destination = |index, most| Destination { index, most, is_stuck: false };
    for share in shares {
        let own = fleet.index_of(&share.uid).and_then(|index| Some((index, fleet.entry(index)?)));
        let need = demand.pods_of(share);
        let kept = own.and_then(|(index, entry)| match question.admission(entry) {
            _ if demand.is_paused => {
                Some(destination(index, question.room(entry, demand.replicas).max(need)))
            }
            Admission::Open => Some(destination(index, question.room(entry, demand.replicas))),
            Admission::Keeps(_) => Some(destination(index, need)),
            Admission::Closed(_) => None,
        });
        let moved = || {
            let mut open = question.open(None).filter(|(index, _)| !taken.contains(index));
            open.find_map(|(index, entry)| {
                let room = question.room(entry, demand.replicas);
                (room >= need).then(|| destination(index, room))
            })
        };
        let stuck = || own.map(|(index, _)| Destination { is_stuck: true, ..destination(index, need) });
        let destination = kept.or_else(moved).or_else(stuck);
        taken.extend(destination.map(|destination| destination.index));
        found.push(destination);
    }
    found
}

fn segments(question: Question<'_>) -> SharePlan {
    let demand = question.demand;
    let total = demand.replicas;
    let mut shares: Vec<&CurrentShare> = demand.current.iter().collect();
    shares.sort_by_key(|share| (share.first_ordinal, share.replicas));
    let destinations = destinations(question, &shares);
    let segments: Vec<Segment> = shares
        .iter()
        .zip(&destinations)
        .map(|(share, destination)| Segment {
            first: share.first_ordinal.unwrap_or(0),
            replicas: demand.replicas_of(share),
            most: destination.map_or(0, |destination| destination.most),
        })
        .collect();
    let sizes = resize(&segments, total);
    let (mut plan, mut firsts) = (SharePlan { is_divided: true, ..SharePlan::default() }, Vec::new());
    for ((segment, size), destination) in segments.iter().zip(sizes).zip(&destinations) {
        match destination {
            Some(destination) => {
                plan.shares.push((destination.index, size));
                firsts.push(segment.first);
                plan.kept += if destination.is_stuck { size } else { 0 };
            }
            None if size > 0 => return nowhere(total),
            None => {}
        }
    }
    let placed: i64 = plan.shares.iter().map(|(_, size)| size).sum();
    plan.unplaced = (total - placed).max(0);
    if plan.unplaced > 0 && may_open(question, &segments, &plan.shares) {
        let taken: Vec<usize> = destinations.iter().flatten().map(|destination| destination.index).collect();
        for (index, size) in opened(question, plan.unplaced, &taken) {
            firsts.push(total - plan.unplaced);
            plan.shares.push((index, size));
            plan.unplaced -= size;
        }
    }
    let segments = plan.shares.iter().filter(|(_, size)| *size > 0).count();
    let is_to_be_whole = question.rules.division == Division::Single && segments > 1;
    if is_to_be_whole || plan.kept > 0 {
        plan.reason = Some(STAYS_DIVIDED.to_string());
    }
    plan.firsts = Some(firsts);
    plan
}

/// Whether another segment may follow the last one: all segments have a destination, there is no gap before any
/// of them, and the ordinals that the last one does not run yet have no volumes in its cluster.
fn may_open(question: Question<'_>, segments: &[Segment], shares: &[(usize, i64)]) -> bool {
    let demand = question.demand;
    let (Some(last), Some((_, size))) = (segments.last(), shares.last()) else { return false };
    let before: i64 = shares[..shares.len() - 1].iter().map(|(_, size)| size).sum();
    !demand.is_paused
        && shares.len() == segments.len()
        && before == last.first
        && (*size > 0 || !demand.has_bound_claims)
}

/// Clusters for further segments, with the replicas of each: one that takes all that are missing, or several.
fn opened(question: Question<'_>, missing: i64, taken: &[usize]) -> Vec<(usize, i64)> {
    let rules = question.rules;
    let terms = terms(question);
    let groups: Vec<Option<&ClusterFilter>> = match terms.is_empty() {
        true => vec![None],
        false => terms.into_iter().map(Some).collect(),
    };
    let most = rules.max_clusters.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
    let most = most.saturating_sub(taken.len());
    let mut rooms: Vec<(usize, i64)> = Vec::new();
    for (index, entry) in groups.into_iter().flat_map(|term| question.open(term)) {
        let room = question.room(entry, missing);
        let is_new = !taken.contains(&index) && !rooms.iter().any(|(other, _)| *other == index);
        if is_new && room >= rules.min_replicas.unwrap_or(1).max(1).min(missing) {
            rooms.push((index, room));
        }
    }
    if let Some(whole) = rooms.iter().find(|(_, room)| *room >= missing) {
        rooms = vec![*whole];
    }
    let mut left = missing;
    let least = rules.min_replicas.unwrap_or(1).max(1);
    let mut found = Vec::new();
    for (index, room) in rooms.into_iter().take(most) {
        let size = room.min(left);
        if size < least {
            break;
        }
        left -= size;
        found.push((index, size));
    }
    found
}

/// A part without a cluster waits for one. Without it, the other parts would count as the whole.
fn nowhere(total: i64) -> SharePlan {
    let reason = "the cluster of a part of it does not exist any more, and no other one takes that part";
    SharePlan { reason: Some(reason.to_string()), ..SharePlan::of(Vec::new(), total.max(1)) }
}

fn completions(question: Question<'_>) -> SharePlan {
    let demand = question.demand;
    let shares: Vec<&CurrentShare> = demand.current.iter().collect();
    let destinations = destinations(question, &shares);
    let mut plan = SharePlan { is_divided: true, ..SharePlan::default() };
    for (share, destination) in shares.iter().zip(destinations) {
        let completions = share.completions.unwrap_or(0);
        match destination {
            Some(destination) => {
                plan.shares.push((destination.index, completions));
                plan.parallelism.push((destination.index, share.parallelism.unwrap_or(1)));
                plan.kept += if destination.is_stuck { completions } else { 0 };
            }
            None => return nowhere(demand.replicas),
        }
    }
    plan
}
