use proptest::prelude::*;

use super::*;
use crate::cluster::{ClusterState, Readiness};
use crate::rules::MoveBudget;

fn fleet(states: &[ClusterState]) -> Fleet {
    let mut fleet = Fleet::new();
    states.iter().for_each(|state| fleet.set_cluster(state.clone()));
    fleet
}

fn ready(name: &str) -> ClusterState {
    let readiness = Readiness::Ready { since: 0 };
    ClusterState { name: name.into(), uid: name.into(), readiness, ..ClusterState::default() }
}

fn lost(name: &str) -> ClusterState {
    let readiness = Readiness::NotReady { since: 0, reason: "Unreachable".into() };
    ClusterState { readiness, ..ready(name) }
}

/// Shares as `a=3`.
fn shares(words: &str) -> Vec<DecidedShare> {
    let share = |word: &str| {
        let (name, replicas) = word.split_once('=').unwrap();
        let replicas = Some(replicas.parse().unwrap());
        DecidedShare { name: name.into(), uid: name.into(), replicas, ..DecidedShare::default() }
    };
    words.split_whitespace().map(share).collect()
}

fn words(shares: &[DecidedShare]) -> String {
    let word = |share: &DecidedShare| format!("{}={}", share.name, share.replicas.unwrap_or(-1));
    shares.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A demand whose shares are given as `a=3/2`, of which two are ready.
fn demand(current: &str, replicas: i64) -> Demand {
    let share = |word: &str| {
        let (share, ready) = word.split_once('/').unwrap();
        let (name, replicas) = share.split_once('=').unwrap();
        CurrentShare {
            uid: name.into(),
            replicas: Some(replicas.parse().unwrap()),
            ready: ready.parse().unwrap(),
            ..CurrentShare::default()
        }
    };
    let current = current.split_whitespace().map(share).collect();
    Demand { work: Work::Replicas, replicas, current, ..Demand::default() }
}

fn described(step: &Step) -> String {
    match step {
        Step::Done => "done".into(),
        Step::Write { shares, phase } => format!("{}: {}", phase.name(), words(shares)),
        Step::Wait { phase, .. } => format!("{} waits", phase.name()),
        Step::Blocked { code, .. } => format!("blocked: {code}"),
    }
}

fn step(fleet: &Fleet, demand: &Demand, target: &str, budget: (Option<i64>, i64)) -> String {
    let decision = PlacementDecision { shares: shares(target), ..PlacementDecision::default() };
    let moves = MoveBudget { max_surge: budget.0, max_unavailable: budget.1 };
    described(&next_step(fleet, demand, &decision, &Rules { moves, ..Rules::default() }))
}

#[test]
fn replicas_are_made_before_others_are_broken() {
    let fleet = fleet(&[ready("a"), ready("b"), lost("c")]);
    for (current, replicas, target, budget, expected) in [
        ("", 3, "a=3", (None, 0), "settling: a=3"),
        ("a=3/3", 3, "a=3", (None, 0), "done"),
        ("a=10/10", 10, "b=10", (None, 0), "adding: a=10 b=10"),
        ("a=10/10 b=10/0", 10, "b=10", (None, 0), "removing waits"),
        ("a=10/10 b=10/4", 10, "b=10", (None, 0), "removing: a=6 b=10"),
        ("a=6/6 b=10/4", 10, "b=10", (None, 0), "removing waits"),
        ("a=6/6 b=10/10", 10, "b=10", (None, 0), "removing: b=10"),
        ("a=10/10", 10, "b=10", (Some(2), 0), "adding: a=10 b=2"),
        ("a=10/10 b=2/2", 10, "b=10", (Some(2), 0), "removing: a=8 b=2"),
        ("a=8/8 b=2/2", 10, "b=10", (Some(2), 0), "adding: a=8 b=4"),
        ("a=10/10", 10, "b=10", (Some(0), 3), "removing: a=7"),
        ("a=7/7", 10, "b=10", (Some(0), 3), "adding: a=7 b=3"),
        // Growth and shrinkage on the same clusters need no waiting.
        ("a=3/3 b=3/3", 10, "a=5 b=5", (None, 0), "adding: a=5 b=5"),
        ("a=5/5 b=5/5", 4, "a=2 b=2", (None, 0), "removing: a=2 b=2"),
        // Replicas of a lost cluster do not count, and is not waited for.
        ("a=3/3 c=3/3", 6, "a=3 b=3", (None, 0), "adding: a=3 b=3"),
        // Replicas that are not ready are taken away first.
        ("a=4/1 b=4/4", 8, "a=2 b=6", (None, 0), "adding: a=2 b=6"),
        ("a=3/3", 3, "", (None, 0), "removing: "),
    ] {
        assert_eq!(
            step(&fleet, &demand(current, replicas), target, budget),
            expected,
            "{current} to {target} {budget:?}"
        );
    }
}

#[test]
fn run_once_work_stops_before_it_starts_elsewhere() {
    let once = |current: &str, leaving: &[&str]| Demand {
        work: Work::Ordinals,
        runs_once: true,
        leaving: leaving.iter().map(|uid| (*uid).into()).collect(),
        ..demand(current, 3)
    };
    let claims = Demand { has_bound_claims: true, ..once("a=3/3", &[]) };
    let itself = ClusterState { stops_itself: true, ..lost("d") };
    let fleet =
        fleet(&[ready("a"), ready("b"), lost("c"), itself, ClusterState { is_fenced: true, ..lost("e") }]);
    for (demand, target, expected) in [
        (once("", &[]), "a=3", "settling: a=3"),
        (once("a=3/3", &[]), "b=3", "stopping: "),
        (once("", &["a"]), "b=3", "stopping waits"),
        (once("", &["e"]), "b=3", "starting: b=3"),
        (once("", &["d"]), "b=3", "starting: b=3"),
        (once("", &["gone"]), "b=3", "starting: b=3"),
        (once("a=3/3", &[]), "a=5", "settling: a=5"),
        (once("a=3/3", &["c"]), "a=5", "settling: a=5"),
        (once("c=3/0", &[]), "b=3", "blocked: NotFenced"),
        (once("d=3/0", &[]), "b=3", "stopping: "),
        (once("e=3/0", &[]), "b=3", "stopping: "),
        (claims.clone(), "b=3", "blocked: VolumesStay"),
        (claims.clone(), "a=5", "settling: a=5"),
        (Demand { may_leave_volumes: true, ..claims.clone() }, "b=3", "stopping: "),
    ] {
        assert_eq!(step(&fleet, &demand, target, (None, 0)), expected, "{demand:?} to {target}");
    }
}

#[test]
fn replicas_with_claims_are_made_before_others_are_broken() {
    let fleet = fleet(&[ready("a"), ready("b"), ready("c")]);
    let claims = |current: &str, may_leave_volumes: bool| Demand {
        has_bound_claims: true,
        may_leave_volumes,
        ..demand(current, 10)
    };
    for (demand, target, expected) in [
        (claims("a=10/10", false), "b=10", "blocked: VolumesStay"),
        (claims("a=5/5 b=5/5", false), "a=10", "blocked: VolumesStay"),
        (claims("a=10/10", true), "b=10", "adding: a=10 b=10"),
        (claims("a=10/10 b=10/4", true), "b=10", "removing: a=6 b=10"),
        (claims("a=6/6 b=10/10", true), "b=10", "removing: b=10"),
        // No cluster is left, so that no volume is.
        (claims("a=5/5 b=5/5", false), "a=4 b=3 c=3", "adding: a=5 b=5 c=3"),
        (claims("a=5/5 b=5/5", false), "a=6 b=6", "adding: a=6 b=6"),
    ] {
        assert_eq!(step(&fleet, &demand, target, (None, 0)), expected, "{demand:?} to {target}");
    }
}

/// Shares as `a=2@0`.
fn segments(words: &str) -> Vec<DecidedShare> {
    let share = |word: &str| {
        let (share, first) = word.split_once('@').unwrap();
        let first_ordinal = Some(first.parse().unwrap());
        DecidedShare { first_ordinal, ..shares(share)[0].clone() }
    };
    words.split_whitespace().map(share).collect()
}

#[test]
fn ordinals_start_and_stop_in_their_order() {
    let fleet = fleet(&[ready("a"), ready("b"), ready("c")]);
    for (current, target, is_ordered, expected) in [
        ("", "a=2@0 b=2@2", true, "settling: a=2"),
        ("", "a=2@0 b=2@2", false, "settling: a=2 b=2"),
        ("a=2@0/1", "a=2@0 b=2@2", true, "settling waits"),
        ("a=2@0/2", "a=2@0 b=2@2", true, "settling: a=2 b=2"),
        ("a=2@0/2 b=2@2/2", "a=2@0 b=2@2", true, "done"),
        ("a=2@0/2 b=2@2/2", "a=1@0 b=0@2", true, "settling: a=2 b=0"),
        ("a=2@0/2 b=0@2/1", "a=1@0 b=0@2", true, "settling waits"),
        ("a=2@0/2 b=0@2/0", "a=1@0 b=0@2", true, "settling: a=1 b=0"),
        ("a=2@0/2 b=2@2/2", "a=1@0 b=0@2", false, "settling: a=1 b=0"),
        // An ordinal that moves to another cluster stops first.
        ("a=4@0/4", "a=2@0 b=2@2", false, "settling: a=2"),
        ("a=2@0/3", "a=2@0 b=2@2", false, "settling waits"),
        ("a=2@0/2", "a=2@0 b=2@2", false, "settling: a=2 b=2"),
    ] {
        let share = |word: &str| {
            let (share, ready) = word.split_once('/').unwrap();
            let share = segments(share)[0].clone();
            CurrentShare {
                uid: share.uid,
                replicas: share.replicas,
                first_ordinal: share.first_ordinal,
                ready: ready.parse().unwrap(),
                ..CurrentShare::default()
            }
        };
        let demand = Demand {
            work: Work::Ordinals,
            runs_once: true,
            is_ordered,
            current: current.split_whitespace().map(share).collect(),
            ..Demand::default()
        };
        let decision = PlacementDecision { shares: segments(target), ..PlacementDecision::default() };
        let step = next_step(&fleet, &demand, &decision, &Rules::default());
        assert_eq!(described(&step), expected, "{current} to {target} {is_ordered}");
    }
}

#[test]
fn while_paused_no_cluster_enters_or_leaves() {
    let fleet = fleet(&[ready("a"), ready("b")]);
    for (current, target, expected) in [
        ("a=3/3", "a=5", "settling: a=5"),
        ("a=3/3", "b=3", "blocked: Paused"),
        ("a=3/3", "a=2 b=2", "settling: a=2"),
        ("a=3/3 b=1/1", "a=2 b=2", "blocked: Paused"),
        ("a=3/3 b=1/1", "a=3 b=2", "settling: a=3 b=2"),
    ] {
        let paused = Demand { is_paused: true, ..demand(current, 3) };
        assert_eq!(step(&fleet, &paused, target, (None, 0)), expected, "{current} to {target}");
    }
}

#[test]
fn copies_leave_when_they_have_arrived() {
    let fleet = fleet(&[ready("a"), ready("b"), lost("c")]);
    // A name with an exclamation mark is that of a cluster that has reported the object.
    let share = |word: &&str| CurrentShare {
        uid: word.trim_end_matches('!').into(),
        is_applied: word.ends_with('!'),
        ..CurrentShare::default()
    };
    let on = |names: &[&str]| Demand {
        work: Work::Copy,
        replicas: 1,
        current: names.iter().map(share).collect(),
        ..Demand::default()
    };
    let target = |name: &str| PlacementDecision {
        shares: vec![DecidedShare { name: name.into(), uid: name.into(), ..DecidedShare::default() }],
        ..PlacementDecision::default()
    };
    for (now, expected) in [
        (&[][..], "settling: b=-1"),
        (&["a!"], "adding: b=-1 a=-1"),
        (&["a!", "b"], "removing waits"),
        (&["a!", "b!"], "removing: b=-1"),
        // It does not have to arrive where nothing can be lost.
        (&["c!", "b"], "removing: b=-1"),
        (&["b"], "done"),
    ] {
        assert_eq!(
            described(&next_step(&fleet, &on(now), &target("b"), &Rules::default())),
            expected,
            "{now:?}"
        );
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// From any shares to any others, with any budget, and new replicas becoming ready in any order: the move
    /// ends, and never are fewer replicas available than asked for less those that may be unavailable.
    #[test]
    fn moves_end_and_keep_enough_available(
        before in proptest::collection::vec(0..6i64, 4),
        after in proptest::collection::vec(0..6i64, 4),
        surge in proptest::option::of(1..4i64),
        max_unavailable in 0..3i64,
        readiness in proptest::collection::vec(0..3i64, 16),
    ) {
        let fleet = fleet(&NAMES.map(ready));
        let total: i64 = after.iter().sum();
        let target: Vec<DecidedShare> =
            NAMES.iter().zip(&after).filter(|(_, replicas)| **replicas > 0).flat_map(|(name, replicas)| shares(&format!("{name}={replicas}"))).collect();
        let decision = PlacementDecision { shares: target, ..PlacementDecision::default() };
        let rules = Rules { moves: MoveBudget { max_surge: surge, max_unavailable }, ..Rules::default() };
        let mut now = Demand { work: Work::Replicas, replicas: total, ..Demand::default() };
        now.current = NAMES.iter().zip(&before).filter(|(_, replicas)| **replicas > 0).map(|(uid, replicas)| CurrentShare {
            uid: (*uid).into(), replicas: Some(*replicas), ready: *replicas, ..CurrentShare::default()
        }).collect();
        let asked = total.min(before.iter().sum());
        let mut is_done = false;
        for round in 0..200 {
            match next_step(&fleet, &now, &decision, &rules) {
                Step::Done => {
                    is_done = true;
                    break;
                }
                Step::Write { shares, .. } => {
                    let before: i64 = now.current.iter().filter_map(|share| share.replicas).sum();
                    let sum: i64 = shares.iter().filter_map(|share| share.replicas).sum();
                    if let Some(surge) = surge {
                        prop_assert!(sum <= before.max(total + surge), "{} after {}", sum, before);
                    }
                    let kept = |share: &DecidedShare| {
                        let ready = now.share(&share.uid).map_or(0, |now| now.ready);
                        CurrentShare {
                            uid: share.uid.clone(),
                            replicas: share.replicas,
                            ready: ready.min(share.replicas.unwrap_or(0)),
                            ..CurrentShare::default()
                        }
                    };
                    now.current = shares.iter().map(kept).collect();
                }
                Step::Wait { .. } => {
                    for (at, share) in now.current.iter_mut().enumerate() {
                        let more = if round > 100 { 9 } else { readiness[(round + at * 5) % readiness.len()] };
                        share.ready = (share.ready + more).min(share.replicas.unwrap_or(0));
                    }
                }
                Step::Blocked { code, .. } => prop_assert!(false, "{}", code),
            }
            let available: i64 = now.current.iter().map(|share| share.ready).sum();
            prop_assert!(available >= asked - max_unavailable, "{:?}", now.current);
        }
        prop_assert!(is_done, "{:?}", now.current);
    }
}
