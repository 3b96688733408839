//! Replicas packed into few clusters.

use std::cmp::Reverse;

use crate::candidates::Candidate;

/// Chooses as few clusters as possible that take all replicas, of those with a share as many as possible.
/// Without `balance`, clusters with a share stay chosen.
pub fn pack<'a>(mut found: Vec<Candidate<'a>>, total: i64, most: usize, balance: bool) -> Vec<Candidate<'a>> {
    found.sort_by(|one, other| {
        (Reverse(one.most), Reverse(one.current), one.registration()).cmp(&(
            Reverse(other.most),
            Reverse(other.current),
            other.registration(),
        ))
    });
    let fewest = fewest(&found, total).min(most).max(1);
    let mut chosen: Vec<Candidate<'a>> = Vec::new();
    let mut present: Vec<usize> =
        (0..found.len()).filter(|at| found[*at].is_frozen || found[*at].current > 0).collect();
    present.sort_by_key(|at| (!found[*at].is_frozen, Reverse(found[*at].current)));
    let mut taken = vec![false; found.len()];
    for at in present {
        let left = fewest.saturating_sub(chosen.len() + 1);
        let room: i64 = chosen.iter().map(|one| one.most).sum::<i64>() + found[at].most;
        let others = found.iter().enumerate().filter(|(other, _)| *other != at && !taken[*other]);
        let room = room + others.take(left).map(|(_, one)| one.most).sum::<i64>();
        let is_needed = chosen.len() < fewest && room >= total;
        if is_needed || found[at].is_frozen || (!balance && chosen.len() < most) {
            taken[at] = true;
            chosen.push(found[at].clone());
        }
    }
    for (at, one) in found.into_iter().enumerate() {
        let room: i64 = chosen.iter().map(|one| one.most).sum();
        if chosen.len() >= most || (room >= total && !chosen.is_empty()) {
            break;
        }
        if !taken[at] {
            chosen.push(one);
        }
    }
    chosen
}

/// Number of clusters, sorted by room, that take all replicas together.
fn fewest(found: &[Candidate<'_>], total: i64) -> usize {
    let mut room = 0i64;
    let enough = found.iter().position(|one| {
        room = room.saturating_add(one.most);
        room >= total
    });
    enough.map_or(found.len(), |at| at + 1)
}

/// Fills clusters one after another: those with a share keep it, then the fullest take the rest. A cluster that gets any
/// has at least `least` of them, unless it has all.
pub fn fill(found: &[Candidate<'_>], total: i64, least: i64) -> Vec<i64> {
    let mut shares: Vec<i64> = found.iter().map(|one| one.current.min(one.most)).collect();
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|at| (Reverse(found[*at].current), Reverse(found[*at].most), *at));
    let mut left = total - shares.iter().sum::<i64>();
    for at in &order {
        let more = (found[*at].most - shares[*at]).min(left).max(0);
        shares[*at] += more;
        left -= more;
    }
    for at in order.iter().rev() {
        let fewer = shares[*at].min(-left).max(0);
        if !found[*at].is_frozen {
            shares[*at] -= fewer;
            left += fewer;
        }
    }
    for at in order.into_iter().rev() {
        raise(found, &mut shares, at, least);
    }
    shares
}

/// Gives a cluster with too few replicas some of others, or its new ones up if these cannot spare enough.
fn raise(found: &[Candidate<'_>], shares: &mut [i64], at: usize, least: i64) {
    let is_alone = shares.iter().enumerate().all(|(other, share)| other == at || *share == 0);
    let one = &found[at];
    if one.is_frozen || is_alone || !(1..least).contains(&shares[at]) {
        return;
    }
    let missing = least - shares[at];
    let mut givers: Vec<usize> =
        (0..shares.len()).filter(|other| !found[*other].is_frozen && shares[*other] > least).collect();
    let spare: i64 = givers.iter().map(|other| shares[*other] - least).sum();
    if one.most < least || spare < missing {
        // Its present replicas may stay, if nothing else is possible.
        shares[at] = shares[at].min(one.current);
        return;
    }
    // Replicas that are new there move nothing.
    givers.sort_by_key(|other| (Reverse(shares[*other] - found[*other].current), *other));
    let mut left = missing;
    for other in givers {
        let given = (shares[other] - least).min(left);
        shares[other] -= given;
        left -= given;
    }
    shares[at] = least;
}
