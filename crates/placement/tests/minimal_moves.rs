//! Decisions against brute force: of all fair divisions that fit, the one that moves the fewest replicas. Some clusters
//! are lost, and a rule may limit the replicas of each.

use std::sync::Arc;

use atoll_placement::cluster::{CapacityReport, ClusterState, Readiness};
use atoll_placement::decide::decide;
use atoll_placement::demand::{CurrentShare, Demand, Evicted, Needs, ObjectKey, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::node::NodeShape;
use atoll_placement::resources::Resources;
use atoll_placement::rules::{ClusterFilter, Division, Rules};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A cluster.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Replicas that it has of the object.
    current: i64,
    /// Number of further replicas that fit.
    more: i64,
    weight: i64,
    is_lost: bool,
    /// The most that it may have by the rules.
    bound: i64,
}

impl Row {
    /// The most that it may have.
    fn most(self) -> i64 {
        if self.is_lost { 0 } else { (self.current + self.more).min(self.bound) }
    }
}

fn fleet(rows: &[Row], is_reversed: bool) -> Fleet {
    let mut fleet = Fleet::new();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if is_reversed {
        order.reverse();
    }
    for at in order {
        let Row { current, more, is_lost, .. } = rows[at];
        let name: Arc<str> = NAMES[at].into();
        fleet.set_cluster(ClusterState {
            name: name.clone(),
            uid: name.clone(),
            workspace: "root".into(),
            registered: i64::try_from(at).unwrap_or(0),
            readiness: match is_lost {
                true => Readiness::NotReady { since: 0, reason: "Unreachable".into() },
                false => Readiness::Ready { since: 0 },
            },
            ..ClusterState::default()
        });
        let free =
            Resources { milli_cpu: more * 1000, memory: more << 32, pods: 100, ..Resources::default() };
        let report = CapacityReport {
            nodes: vec![NodeShape { count: 1, free, ..NodeShape::default() }],
            bound: [("u".into(), current)].into(),
            ..CapacityReport::default()
        };
        fleet.set_report(&name, Arc::new(report));
    }
    fleet
}

fn demand(rows: &[Row], replicas: i64) -> Demand {
    let requests = Resources { milli_cpu: 1000, pods: 1, ..Resources::default() };
    let share = |(name, row): (&&str, &Row)| CurrentShare {
        uid: (**name).into(),
        replicas: Some(row.current),
        ..CurrentShare::default()
    };
    let lost = NAMES.iter().zip(rows).filter(|(_, row)| row.is_lost);
    Demand {
        object: ObjectKey { uid: "u".into(), ..ObjectKey::default() },
        workspace_path: "root".into(),
        work: Work::Replicas,
        replicas,
        needs: Arc::new(Needs { requests, ..Needs::default() }),
        current: NAMES.iter().zip(rows).map(share).filter(|share| share.replicas != Some(0)).collect(),
        evicted: lost.map(|(name, _)| Evicted::lost(name)).collect(),
        may_rebalance: true,
        ..Demand::default()
    }
}

/// All divisions of a total that fit.
fn divisions(total: i64, rows: &[Row]) -> Vec<Vec<i64>> {
    let Some((row, rest)) = rows.split_first() else {
        return if total == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let mut found = Vec::new();
    for share in 0..=row.most().min(total) {
        for other in divisions(total - share, rest) {
            found.push([vec![share], other].concat());
        }
    }
    found
}

/// Whether no replica could move to a cluster that deserves it more.
fn is_fair(shares: &[i64], rows: &[Row]) -> bool {
    (0..rows.len()).all(|from| {
        (0..rows.len()).all(|to| {
            let fits = shares[to] < rows[to].most();
            let is_better =
                (2 * shares[from] - 1) * rows[to].weight > (2 * shares[to] + 1) * rows[from].weight;
            from == to || shares[from] == 0 || !fits || !is_better
        })
    })
}

fn moves(shares: &[i64], rows: &[Row]) -> i64 {
    shares.iter().zip(rows).map(|(share, row)| (row.current - share).max(0)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fewest_replicas_move(
        rows in proptest::collection::vec((0..5i64, 0..8i64, 1..4i64, proptest::bool::weighted(0.2)), 1..=5),
        replicas in 0..=12i64,
        max_replicas in proptest::option::of(1..8i64),
        is_even: bool,
    ) {
        let row = |(current, more, weight, is_lost)| Row {
            current,
            more,
            weight: if is_even { 1 } else { weight },
            is_lost,
            bound: max_replicas.unwrap_or(i64::MAX),
        };
        let rows: Vec<Row> = rows.into_iter().map(row).collect();
        // With fewer replicas than clusters, an even division prefers clusters with room.
        let fewest = if is_even { i64::try_from(rows.len()).unwrap_or(0) } else { 0 };
        let replicas = replicas.max(fewest);
        let weights = NAMES.iter().zip(&rows).map(|(name, row)| (ClusterFilter::named([*name]), row.weight)).collect();
        let division = if is_even { Division::Even } else { Division::Weighted(weights) };
        let rules = Rules { division, max_replicas, ..Rules::default() };
        let demand = demand(&rows, replicas);
        let decision = decide(&fleet(&rows, false), &demand, &rules);
        prop_assert_eq!(&decision, &decide(&fleet(&rows, true), &demand, &rules), "the order of events does not matter");
        let share = |name: &&str| {
            decision.shares.iter().find(|share| *share.name == **name).and_then(|share| share.replicas).unwrap_or(0)
        };
        let found: Vec<i64> = NAMES.iter().take(rows.len()).map(share).collect();
        let all = divisions(replicas, &rows);
        let Some(fewest) = all.iter().filter(|shares| is_fair(shares, &rows)).map(|shares| moves(shares, &rows)).min() else {
            let room: i64 = rows.iter().map(|row| row.most()).sum();
            prop_assert_eq!(found.iter().sum::<i64>(), room);
            prop_assert_eq!(decision.unplaced, replicas - room);
            return Ok(());
        };
        prop_assert_eq!(found.iter().sum::<i64>(), replicas);
        prop_assert!(is_fair(&found, &rows), "{:?}", found);
        prop_assert_eq!(moves(&found, &rows), fewest, "{:?}", found);
    }
}
