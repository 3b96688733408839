//! The steps of moves over random fleets, with reports that come late and in any order: what is ready stays until it is
//! replaced, no more runs than the budget allows, and every move ends.

use std::sync::Arc;

use atoll_placement::cluster::{CapacityReport, ClusterState, Readiness};
use atoll_placement::decide::{DecidedShare, PlacementDecision};
use atoll_placement::demand::{CurrentShare, Demand, Evicted, Needs, ObjectKey, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::moves::{Step, next_step};
use atoll_placement::rules::{MoveBudget, Rules};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Rounds in which all clusters do their work: more than any move takes.
const ROUNDS: usize = 200;

fn fleet(clusters: usize, lost: &[bool]) -> Fleet {
    let mut fleet = Fleet::new();
    for (name, is_lost) in NAMES.into_iter().take(clusters).zip(lost) {
        let readiness = match is_lost {
            true => Readiness::NotReady { since: 0, reason: "Unreachable".into() },
            false => Readiness::Ready { since: 0 },
        };
        fleet.set_cluster(ClusterState {
            name: name.into(),
            uid: name.into(),
            workspace: "root".into(),
            readiness,
            ..ClusterState::default()
        });
        fleet.set_report(name, Arc::new(CapacityReport::default()));
    }
    fleet
}

/// A move, and what is known of it.
struct Move {
    fleet: Fleet,
    demand: Demand,
    decision: PlacementDecision,
    rules: Rules,
}

impl Move {
    fn new(now: &[i64], goal: &[i64], lost: &[bool], budget: MoveBudget) -> Move {
        let clusters = now.len().max(goal.len());
        let (fleet, replicas) = (fleet(clusters, lost), goal.iter().sum());
        let share = |(name, replicas): (&&str, &i64)| CurrentShare {
            uid: (**name).into(),
            replicas: Some(*replicas),
            is_applied: true,
            ..CurrentShare::default()
        };
        let current = NAMES.iter().zip(now).map(share).filter(|share| share.replicas > Some(0));
        let decided = |(name, replicas): (&&str, &i64)| DecidedShare {
            name: (**name).into(),
            uid: (**name).into(),
            replicas: Some(*replicas),
            ..DecidedShare::default()
        };
        let shares = NAMES.iter().zip(goal).map(decided).filter(|share| share.replicas > Some(0));
        let evicted = NAMES.iter().zip(lost).filter(|(_, is_lost)| **is_lost);
        let demand = Demand {
            object: ObjectKey { uid: "u".into(), ..ObjectKey::default() },
            workspace_path: "root".into(),
            work: Work::Replicas,
            replicas,
            needs: Arc::new(Needs::default()),
            current: current.collect(),
            evicted: evicted.map(|(name, _)| Evicted::lost(name)).collect(),
            ..Demand::default()
        };
        let decision = PlacementDecision { shares: shares.collect(), ..PlacementDecision::default() };
        Move { fleet, demand, decision, rules: Rules { moves: budget, ..Rules::default() } }
    }

    fn is_lost(&self, uid: &str) -> bool {
        self.fleet.cluster(uid).is_none_or(|state| state.readiness.is_not_ready())
    }

    /// Replicas that are ready and that shares keep, on clusters that work.
    fn ready(&self) -> i64 {
        let alive = self.demand.current.iter().filter(|share| !self.is_lost(&share.uid));
        alive.map(|share| share.ready.min(self.demand.replicas_of(share))).sum()
    }

    /// Replicas of all shares on clusters that work.
    fn placed(&self) -> i64 {
        let alive = self.demand.current.iter().filter(|share| !self.is_lost(&share.uid));
        alive.map(|share| self.demand.replicas_of(share)).sum()
    }

    /// A cluster has made another pod ready.
    fn start(&mut self, cluster: usize) {
        let lost = self.is_lost(NAMES[cluster]);
        let replicas = |share: &CurrentShare| share.replicas.unwrap_or(0);
        let share = self.demand.current.iter_mut().find(|share| *share.uid == *NAMES[cluster]);
        if let Some(share) = share.filter(|share| !lost && share.ready < replicas(share)) {
            share.ready += 1;
        }
    }

    /// Writes the next step, if there is one. Returns whether the placement is as decided.
    fn step(&mut self) -> Result<bool, TestCaseError> {
        let (asked, ready, placed) = (self.demand.replicas, self.ready(), self.placed());
        let step = next_step(&self.fleet, &self.demand, &self.decision, &self.rules);
        prop_assert_eq!(&step, &next_step(&self.fleet, &self.demand, &self.decision, &self.rules));
        let shares = match step {
            Step::Done => return Ok(true),
            Step::Wait { .. } => return Ok(false),
            Step::Blocked { code, reason } => {
                return Err(TestCaseError::fail(format!("blocked: {code} {reason}")));
            }
            Step::Write { shares, .. } => shares,
        };
        let before = std::mem::take(&mut self.demand.current);
        let present = |uid: &str| before.iter().find(|share| *share.uid == *uid);
        self.demand.current = shares
            .iter()
            .map(|share| CurrentShare {
                uid: share.uid.clone(),
                replicas: share.replicas,
                ready: present(&share.uid).map_or(0, |now| now.ready).min(share.replicas.unwrap_or(asked)),
                is_applied: present(&share.uid).is_some(),
                ..CurrentShare::default()
            })
            .collect();
        let least = ready.min(asked - self.rules.moves.max_unavailable);
        prop_assert!(
            self.ready() >= least,
            "{} of {} ready replicas stay: {:?}",
            self.ready(),
            ready,
            shares
        );
        let most = placed.max(asked + self.rules.moves.max_surge.unwrap_or(i64::MAX / 2));
        prop_assert!(self.placed() <= most, "{} replicas of {} at most: {:?}", self.placed(), most, shares);
        Ok(false)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn moves_end_and_lose_no_replica(
        now in proptest::collection::vec(0..6i64, 5),
        goal in proptest::collection::vec(0..6i64, 5),
        ready in proptest::collection::vec(0..6i64, 5),
        lost in proptest::collection::vec(proptest::bool::weighted(0.15), 5),
        max_surge in proptest::option::of(1..4i64),
        max_unavailable in 0..2i64,
        events in proptest::collection::vec(0..8usize, 0..60),
    ) {
        // Nothing is decided for lost clusters.
        let goal: Vec<i64> = goal.iter().zip(&lost).map(|(goal, is_lost)| if *is_lost { 0 } else { *goal }).collect();
        let mut under_way = Move::new(&now, &goal, &lost, MoveBudget { max_surge, max_unavailable });
        for share in &mut under_way.demand.current {
            let at = NAMES.iter().position(|name| **name == *share.uid).unwrap_or(0);
            share.ready = ready[at].min(share.replicas.unwrap_or(0));
        }
        for event in events {
            match event {
                cluster if cluster < NAMES.len() => under_way.start(cluster),
                _ => drop(under_way.step()?),
            }
        }
        let mut has_ended = false;
        for _ in 0..ROUNDS {
            (0..NAMES.len()).for_each(|cluster| under_way.start(cluster));
            has_ended = under_way.step()?;
            if has_ended {
                break;
            }
        }
        prop_assert!(has_ended, "it does not end: {:?}", under_way.demand.current);
        prop_assert_eq!(under_way.placed(), goal.iter().sum::<i64>(), "no replica is lost");
    }
}
