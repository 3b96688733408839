//! How long clusters that have joined or returned wait for replicas, with the default settings: by the times in the
//! conditions of Clusters and in the decisions of placements.

use atoll_informer::resources;
use atoll_meta::time;
use atoll_meta::views::condition;

use crate::history::WORKSPACES;
use crate::profiles::Profile;
use crate::simulated_fleet::{Event, MINUTE, SECOND, SimulatedFleet};
use crate::{live, simulated, start};

/// Fewer than half of the objects that may move in an hour: they move twice.
const WORKLOADS: usize = 25;
/// Seconds after which replicas of the last workload go to a cluster that has joined, or returned.
const JOINED: i64 = 30;
const RETURNED: i64 = 60;
/// Seconds that a returned cluster must have been Ready.
const FAILBACK: i64 = 30;
const NODES: [i64; 2] = [16_000, 16_000];

fn seconds(text: &str) -> i64 {
    time::parse(text).unwrap().seconds
}

/// The seconds after which each workload got a share on a cluster, since that became Ready.
async fn delays(fleet: &mut SimulatedFleet, cluster: usize) -> Vec<i64> {
    let found = fleet.api.get(&resources::CLUSTERS, &fleet.cluster_key(cluster)).unwrap();
    let ready = condition(&found, "Ready").unwrap();
    assert!(ready.is_true());
    let ready = seconds(ready.last_transition_time().unwrap());
    let name = fleet.clusters[cluster].name.clone();
    let mut delays = vec![None; fleet.workloads.len()];
    let end = fleet.now() + 10 * MINUTE;
    while fleet.now() < end {
        let next = fleet.now() + SECOND;
        live(fleet, next).await;
        assert!(fleet.problems.is_empty(), "{:?}", fleet.problems);
        for (at, delay) in delays.iter_mut().enumerate().filter(|(_, delay)| delay.is_none()) {
            let placement = fleet.placement(at);
            let decision = placement.decisions.last().filter(|_| placement.share(&name).is_some());
            *delay = decision.map(|decision| seconds(&decision.time) - ready);
        }
    }
    delays.into_iter().map(|delay| delay.expect("every workload gets a share there")).collect()
}

#[test]
fn joined_and_returned_clusters_get_replicas_in_time() {
    simulated(async {
        let mut fleet = SimulatedFleet::new(1);
        let workspace = WORKSPACES[0];
        fleet.api.tree.insert(workspace, "root", workspace);
        fleet.write_policies();
        for region in ["north", "east"] {
            fleet.join(region, &NODES);
        }
        start(&fleet).await;
        for _ in 0..WORKLOADS {
            fleet.create_in(workspace, "n", Profile::Even, (6, 100));
        }
        live(&mut fleet, 10 * MINUTE).await;
        assert!((0..WORKLOADS).all(|at| fleet.placement(at).clusters.len() == 2));

        let third = fleet.join("south", &NODES);
        let joined = delays(&mut fleet, third).await;
        assert!(joined.iter().all(|delay| (0..=JOINED).contains(delay)), "{joined:?}");

        fleet.silence(third);
        let lost = fleet.now() + 10 * MINUTE;
        live(&mut fleet, lost).await;
        let name = fleet.clusters[third].name.clone();
        assert!((0..WORKLOADS).all(|at| fleet.placement(at).share(&name).is_none()), "it is lost");
        fleet.happen(Event::Return(third));
        let returned = delays(&mut fleet, third).await;
        assert!(returned.iter().all(|delay| (FAILBACK..=RETURNED).contains(delay)), "{returned:?}");
    });
}
