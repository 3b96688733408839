//! Workloads that are scaled to zero and back.

use std::sync::Arc;

use atoll_placement::cluster::{CapacityReport, ClusterState, Readiness};
use atoll_placement::decide::decide;
use atoll_placement::demand::{CurrentShare, Demand, Needs, ObjectKey, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::node::NodeShape;
use atoll_placement::resources::Resources;
use atoll_placement::rules::{Division, Rules};

/// Clusters with this many free cores.
fn fleet(clusters: &[(&str, i64)]) -> Fleet {
    let mut fleet = Fleet::new();
    for (order, (name, cores)) in (0..).zip(clusters) {
        let name: Arc<str> = (*name).into();
        fleet.set_cluster(ClusterState {
            name: name.clone(),
            uid: name.clone(),
            workspace: "root".into(),
            registered: order,
            readiness: Readiness::Ready { since: 0 },
            ..ClusterState::default()
        });
        let free =
            Resources { milli_cpu: cores * 1000, memory: cores << 32, pods: 100, ..Resources::default() };
        let nodes = vec![NodeShape { count: 1, free, ..NodeShape::default() }];
        fleet.set_report(&name, Arc::new(CapacityReport { nodes, ..CapacityReport::default() }));
    }
    fleet
}

/// A Deployment whose only share, on this cluster, has no replicas.
fn empty_on(cluster: &str, replicas: i64, may_rebalance: bool) -> Demand {
    let requests = Resources { milli_cpu: 1000, pods: 1, ..Resources::default() };
    Demand {
        object: ObjectKey { uid: "u".into(), ..ObjectKey::default() },
        workspace_path: "root".into(),
        work: Work::Replicas,
        replicas,
        needs: Arc::new(Needs { requests, ..Needs::default() }),
        current: vec![CurrentShare { uid: cluster.into(), replicas: Some(0), ..CurrentShare::default() }],
        may_rebalance,
        ..Demand::default()
    }
}

#[test]
fn workloads_that_are_scaled_to_zero_stay_and_grow_where_they_are() {
    let fleet = fleet(&[("small", 4), ("large", 40)]);
    for division in [Division::Even, Division::Capacity, Division::Pack, Division::Single] {
        for may_rebalance in [false, true] {
            let rules = Rules { division: division.clone(), ..Rules::default() };
            let decided = |replicas: i64| {
                let decision = decide(&fleet, &empty_on("small", replicas, may_rebalance), &rules);
                let names: Vec<String> = decision.shares.iter().map(|share| share.name.to_string()).collect();
                (names.join(" "), decision.unplaced)
            };
            assert_eq!(decided(0), ("small".to_string(), 0), "{division:?}: nothing is worth a move");
            // All room is used, that of the cluster with the empty share too.
            if division != Division::Single {
                assert_eq!(decided(44), ("small large".to_string(), 0), "{division:?}");
            }
        }
    }
}
