//! From a decision to the next write: shares move make before break, one step at a time.
//!
//! ```text
//!   decision ─► next_step (pure) ─► shares, phase, target ─► …/placement ─► reports ─► next step
//! ```
//!
//! An object that moves is decided about as if it were at its target already, so that it goes there unless the
//! target has become impossible.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_placement::decide::{DecidedShare, PlacementDecision};
use atoll_placement::demand::{CurrentShare, Demand, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::moves::{Phase, Step, next_step};
use atoll_placement::rules::{Division, Rules};

use crate::reports::ReportedPods;

/// The phase of an object that failed over. Its target is its former cluster.
pub const AWAY: &str = "away";

/// The shares to write next, and their target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextShares {
    pub shares: Vec<DecidedShare>,
    /// Empty if the shares are those of the decision.
    pub phase: String,
    pub target: Vec<DecidedShare>,
    /// Whether the shares are the present ones, until reports change.
    pub is_waiting: bool,
}

/// Whether a placement is on the way to its target.
pub fn is_moving(placement: &Placement) -> bool {
    !placement.phase.is_empty() && !placement.target.is_empty() && placement.phase != AWAY
}

/// Whether an object has failed over and is to return.
pub fn is_away(placement: &Placement) -> bool {
    placement.phase == AWAY && !placement.target.is_empty()
}

/// The demand of an object as if it had these shares. Reports stay, but of the Pods that find no node, those that a
/// smaller share takes away do not count.
pub fn as_if_on(demand: &Demand, shares: Vec<CurrentShare>) -> Demand {
    let with_reports = |share: CurrentShare| match demand.share(&share.uid) {
        Some(now) => {
            let fewer = demand.replicas_of(now).saturating_sub(demand.replicas_of(&share)).max(0);
            let unschedulable = now.unschedulable.saturating_sub(fewer).max(0);
            CurrentShare { ready: now.ready, unschedulable, is_applied: now.is_applied, ..share }
        }
        None => share,
    };
    Demand { current: shares.into_iter().map(with_reports).collect(), ..demand.clone() }
}

/// Whether a decision gives replicas to another cluster, or takes some away from one.
pub fn changes_clusters(demand: &Demand, decision: &PlacementDecision) -> bool {
    let decided = |uid: &str| decision.shares.iter().find(|share| *share.uid == *uid);
    decision.shares.iter().any(|share| demand.share(&share.uid).is_none())
        || demand.current.iter().any(|share| match decided(&share.uid) {
            Some(after) => after.replicas.unwrap_or(demand.replicas) < demand.replicas_of(share),
            None => true,
        })
}

/// Keeps replicas for which a decision has no other cluster. Returns their number.
pub fn keep_unplaced(
    fleet: &Fleet,
    demand: &Demand,
    decision: &mut PlacementDecision,
    division: &Division,
) -> i64 {
    if demand.work != Work::Replicas || decision.unplaced <= 0 {
        return 0;
    }
    let is_live = |share: &&CurrentShare| {
        fleet.cluster(&share.uid).is_some_and(|state| !state.is_fenced && !state.readiness.is_not_ready())
    };
    let decided = |shares: &[DecidedShare], uid: &str| shares.iter().position(|share| *share.uid == *uid);
    let live: Vec<&CurrentShare> = demand.current.iter().filter(is_live).collect();
    let placed: i64 = decision.shares.iter().map(|share| share.replicas.unwrap_or(demand.replicas)).sum();
    let has: i64 = live.iter().map(|share| demand.replicas_of(share)).sum();
    let mut left = (has.min(demand.replicas) - placed).clamp(0, decision.unplaced);
    if left == 0 {
        return 0;
    }
    let kept = left;
    // An object on one cluster is not divided.
    if *division == Division::Single {
        decision.shares = live.iter().filter_map(|share| as_decided(fleet, share)).collect();
        return kept;
    }
    for share in live {
        let at = decided(&decision.shares, &share.uid);
        let has = demand.replicas_of(share);
        let after = at.map_or(0, |at| decision.shares[at].replicas.unwrap_or(demand.replicas));
        let more = (has - after).clamp(0, left);
        left -= more;
        match (at, as_decided(fleet, share)) {
            (_, _) if more == 0 => {}
            (Some(at), _) => decision.shares[at].replicas = Some(after + more),
            (None, Some(share)) => decision.shares.push(DecidedShare { replicas: Some(more), ..share }),
            (None, None) => {}
        }
    }
    kept
}

fn as_decided(fleet: &Fleet, share: &CurrentShare) -> Option<DecidedShare> {
    Some(DecidedShare {
        name: fleet.cluster(&share.uid)?.name.clone(),
        uid: share.uid.clone(),
        replicas: share.replicas,
        first_ordinal: share.first_ordinal,
        completions: share.completions,
        parallelism: share.parallelism,
    })
}

/// Returns the shares to write next, or a code and a sentence if nothing can happen.
pub fn next_shares(
    fleet: &Fleet,
    demand: &Demand,
    decision: &PlacementDecision,
    rules: &Rules,
) -> Result<NextShares, (&'static str, String)> {
    let target = decision.shares.clone();
    match next_step(fleet, demand, decision, rules) {
        Step::Done => Ok(NextShares { shares: target, ..NextShares::default() }),
        Step::Write { mut shares, phase } => {
            keep_unreachable(fleet, demand, &target, &mut shares);
            if is_same(&shares, &target) {
                return Ok(NextShares { shares: target, ..NextShares::default() });
            }
            Ok(NextShares { shares, phase: phase.name().to_string(), target, is_waiting: false })
        }
        Step::Wait { .. } if rules.moves.max_surge == Some(0) => {
            let reason = format!("{} allows no moves: its spec.disruption.maxMoving is 0", rules.by);
            Err(("MoveBlocked", reason))
        }
        Step::Wait { phase, .. } => {
            let now = demand.current.iter().filter_map(|share| as_decided(fleet, share));
            let phase = phase.name().to_string();
            Ok(NextShares { shares: now.collect(), phase, target, is_waiting: true })
        }
        Step::Blocked { code, reason } => Err((code, reason)),
    }
}

/// Keeps shares of clusters that cannot be reached for a moment until the target is ready: their pods may be
/// all that runs.
fn keep_unreachable(fleet: &Fleet, demand: &Demand, target: &[DecidedShare], shares: &mut Vec<DecidedShare>) {
    let ready = |uid: &str| demand.share(uid).map_or(0, |share| share.ready);
    let is_ready = |share: &DecidedShare| ready(&share.uid) >= share.replicas.unwrap_or(demand.replicas);
    if demand.work != Work::Replicas || target.iter().all(is_ready) {
        return;
    }
    for share in demand.current.iter().filter(|share| !demand.is_evicted(&share.uid)) {
        let Some(state) = fleet.cluster(&share.uid) else { continue };
        let is_unreachable = state.readiness.is_not_ready() && !state.is_fenced;
        let Some(kept) = as_decided(fleet, share).filter(|_| is_unreachable) else { continue };
        match shares.iter_mut().find(|next| next.uid == share.uid) {
            Some(next) if next.replicas.unwrap_or(demand.replicas) >= demand.replicas_of(share) => {}
            Some(next) => *next = kept,
            None => shares.push(kept),
        }
    }
}

/// Keeps shares from growing again while their clusters report about more replicas than they have: of these, some are
/// going away, and the report would count them as the new ones.
pub fn await_reports(
    demand: &Demand,
    reports: &HashMap<String, ReportedPods>,
    placement: &Placement,
    next: &mut NextShares,
) {
    // The former cluster must stay recorded.
    if demand.work != Work::Replicas || is_away(placement) {
        return;
    }
    let target = next.shares.clone();
    let mut has_waiting = false;
    for share in &mut next.shares {
        let Some(now) = demand.share(&share.uid).and_then(|now| now.replicas) else { continue };
        let is_outdated = reports.get(&*share.uid).is_some_and(|pods| pods.is_of_more(now));
        if is_outdated && share.replicas.is_some_and(|replicas| replicas > now) {
            share.replicas = Some(now);
            has_waiting = true;
        }
    }
    if has_waiting && next.phase.is_empty() {
        (next.phase, next.target) = (Phase::Settling.name().to_string(), target);
    }
}

fn is_same(shares: &[DecidedShare], others: &[DecidedShare]) -> bool {
    shares.len() == others.len() && shares.iter().all(|share| others.contains(share))
}

/// Pods by uid of the cluster of the present and the target shares: a moving object reserves room for both.
pub fn reservations<'a, S>(shares: S, pods: impl Fn(&DecidedShare) -> i64) -> Vec<(Arc<str>, i64)>
where
    S: Iterator<Item = &'a DecidedShare>,
{
    let mut taken: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for share in shares {
        let most = taken.entry(share.uid.clone()).or_default();
        *most = (*most).max(pods(share));
    }
    taken.into_iter().collect()
}

/// Whether two lists contain the same shares, in any order. Their turns in a rollout do not matter.
pub fn have_same_amounts(shares: &[Share], others: &[Share]) -> bool {
    let amounts = |share: &Share| {
        (share.replicas, share.first_ordinal, share.completions, share.parallelism, share.needed)
    };
    are_alike(shares, others, |one, other| amounts(one) == amounts(other))
}

/// Whether the shares in two lists have the same turns in a rollout.
pub fn have_same_turns(shares: &[Share], others: &[Share]) -> bool {
    let turn = |share: &Share| (share.held, share.max_unavailable, share.max_surge);
    are_alike(shares, others, |one, other| turn(one) == turn(other))
}

fn are_alike(shares: &[Share], others: &[Share], is_alike: impl Fn(&Share, &Share) -> bool) -> bool {
    let has_other = |share: &Share| {
        others.iter().any(|other| other.is_of(&share.name, &share.uid) && is_alike(share, other))
    };
    shares.len() == others.len() && shares.iter().all(has_other)
}

#[cfg(test)]
mod tests {
    use atoll_placement::cluster::{ClusterState, Readiness};

    use super::*;

    fn fleet(lost: &str) -> Fleet {
        let mut fleet = Fleet::new();
        for name in ["a", "b", "c"] {
            let readiness = match name == lost {
                true => Readiness::NotReady { since: 0, reason: "Unreachable".into() },
                false => Readiness::Ready { since: 0 },
            };
            fleet.set_cluster(ClusterState {
                name: name.into(),
                uid: name.into(),
                readiness,
                ..ClusterState::default()
            });
        }
        fleet
    }

    fn demand(words: &str, replicas: i64) -> Demand {
        let share = |word: &str| {
            let (uid, replicas) = word.split_once('=').expect("a share is a name and a number");
            let replicas = Some(replicas.parse().expect("a number"));
            CurrentShare { uid: uid.into(), replicas, ..CurrentShare::default() }
        };
        let current = words.split_whitespace().map(share).collect();
        Demand { work: Work::Replicas, replicas, current, ..Demand::default() }
    }

    #[test]
    fn replicas_without_another_place_stay() {
        for (lost, now, decided, unplaced, division, expected) in [
            // A move with room for six of ten.
            ("", "a=10", "b=6", 4, Division::Even, "b=6 a=4"),
            ("", "a=10", "b=6", 4, Division::Single, "a=10"),
            ("", "a=5 b=5", "c=3", 7, Division::Even, "c=3 a=5 b=2"),
            // Growth beyond the room takes nothing away.
            ("", "a=6", "a=8", 2, Division::Single, "a=8"),
            ("", "", "a=8", 2, Division::Even, "a=8"),
            // Nothing stays on a lost cluster.
            ("a", "a=10", "b=6", 4, Division::Even, "b=6"),
            ("a", "a=10", "b=6", 4, Division::Single, "b=6"),
            // Replicas that find no node stay pending if no other cluster has one.
            ("", "a=5", "a=3", 2, Division::Even, "a=5"),
        ] {
            let replicas =
                demand(decided, 0).current.iter().filter_map(|share| share.replicas).sum::<i64>() + unplaced;
            let fleet = fleet(lost);
            let shares =
                demand(decided, 0).current.iter().filter_map(|share| as_decided(&fleet, share)).collect();
            let mut decision = PlacementDecision { shares, unplaced, ..PlacementDecision::default() };
            keep_unplaced(&fleet, &demand(now, replicas), &mut decision, &division);
            let text = |share: &DecidedShare| format!("{}={}", share.name, share.replicas.unwrap_or(-1));
            let found: Vec<String> = decision.shares.iter().map(text).collect();
            assert_eq!(found.join(" "), expected, "{now} to {decided}");
        }
    }

    #[test]
    fn shares_grow_again_when_their_clusters_have_followed() {
        let of = |replicas: i64| {
            let pods = ReportedPods { applied: Some(replicas), is_applied: true, ..ReportedPods::default() };
            HashMap::from([("a".to_string(), pods)])
        };
        let fleet = fleet("");
        let decided = |words: &str| -> Vec<DecidedShare> {
            demand(words, 0).current.iter().filter_map(|share| as_decided(&fleet, share)).collect()
        };
        for (now, reported, next, expected, phase) in [
            ("a=1", 2, "a=2", "a=1", "settling"),
            ("a=1", 1, "a=2", "a=2", ""),
            ("a=1 b=1", 2, "a=2 b=2", "a=1 b=2", "settling"),
            ("a=2", 3, "a=1", "a=1", ""),
            ("b=2", 3, "a=1 b=1", "a=1 b=1", ""),
        ] {
            let mut wanted = NextShares { shares: decided(next), ..NextShares::default() };
            await_reports(&demand(now, 2), &of(reported), &Placement::default(), &mut wanted);
            assert_eq!((wanted.shares, wanted.phase.as_str()), (decided(expected), phase), "{now} to {next}");
            assert_eq!(wanted.target, if phase.is_empty() { Vec::new() } else { decided(next) });
        }
        let away =
            Placement { phase: AWAY.into(), target: vec![Share::on("b", "b")], ..Placement::default() };
        let mut wanted = NextShares { shares: decided("a=2"), ..NextShares::default() };
        await_reports(&demand("a=1", 2), &of(2), &away, &mut wanted);
        assert_eq!(wanted.shares, decided("a=2"), "where it returns to stays known");
    }

    #[test]
    fn pods_that_a_smaller_share_takes_away_do_not_count_as_pending() {
        for (now, stuck, target, expected) in
            [("a=4", 2, "a=2 b=2", 0), ("a=4", 3, "a=2 b=2", 1), ("a=4", 2, "a=4", 2), ("a=2", 2, "a=4", 2)]
        {
            let mut demand = demand(now, 4);
            demand.current[0].unschedulable = stuck;
            let shares = super::as_if_on(&demand, self::demand(target, 4).current).current;
            assert_eq!(shares[0].unschedulable, expected, "{now} with {stuck} on the way to {target}");
        }
    }

    #[test]
    fn targets_are_kept_until_they_are_reached() {
        let fleet = fleet("");
        let on = |words: &str, ready: i64| {
            let mut demand = demand(words, 3);
            demand.current.iter_mut().for_each(|share| share.ready = ready);
            demand
        };
        let target = demand("b=3", 3).current.iter().filter_map(|share| as_decided(&fleet, share)).collect();
        let decision = PlacementDecision { shares: target, ..PlacementDecision::default() };
        for (demand, phase, shares) in
            [(on("a=3", 3), "adding", 2), (on("a=3 b=3", 0), "", 1), (on("b=3", 0), "", 1)]
        {
            let next = next_shares(&fleet, &demand, &decision, &Rules::default()).expect("it can move");
            assert_eq!((next.phase.as_str(), next.shares.len()), (phase, shares), "{:?}", demand.current);
            assert_eq!(next.target.is_empty(), phase.is_empty());
        }
    }
}
