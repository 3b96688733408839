//! Prints how many decisions a second one core makes, for fleets of 10, 100 and 1,000 clusters.
//!
//! Each decision is followed by its reservation, as in a burst of new workloads; then all workloads are
//! decided again, as after a change. Other processes on the machine do not count: on Linux, seconds are those
//! of CPU time.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use atoll_placement::cluster::{CapacityReport, ClusterState, REGION, Readiness};
use atoll_placement::decide::{DecidedShare, decide};
use atoll_placement::demand::{CurrentShare, Demand};
use atoll_placement::fleet::Fleet;
use atoll_placement::node::NodeShape;
use atoll_placement::resources::Resources;
use atoll_placement::rules::{ClusterFilter, Division, Rules, Spread, Topology};
use serde_json::json;

const WORKLOADS: usize = 10_000;

fn fleet(clusters: usize) -> Fleet {
    let mut fleet = Fleet::new();
    // The same capacity for any number of clusters, with some to spare.
    let nodes = i64::try_from(20_000 / clusters).unwrap_or(1);
    for at in 0..clusters {
        let shape = |cores: i64| NodeShape {
            count: nodes / 4,
            free: Resources {
                milli_cpu: cores * 1000 + i64::try_from(at % 7).unwrap_or(0) * 10,
                memory: cores << 32,
                pods: 110,
                ..Resources::default()
            },
            ..NodeShape::default()
        };
        let name: Arc<str> = format!("cluster-{at:04}").into();
        let labels = [(REGION.to_string(), format!("region-{}", at % 5))];
        fleet.set_cluster(ClusterState {
            name: name.clone(),
            uid: name.clone(),
            workspace: "root".into(),
            registered: i64::try_from(at).unwrap_or(0),
            labels: labels.into(),
            readiness: Readiness::Ready { since: 0 },
            ..ClusterState::default()
        });
        let report =
            CapacityReport { nodes: [4, 8, 16, 32].map(shape).to_vec(), ..CapacityReport::default() };
        fleet.set_report(&name, Arc::new(report));
    }
    fleet
}

fn demand(at: usize) -> Demand {
    let requests =
        json!({ "cpu": format!("{}m", 100 + at % 10 * 50), "memory": format!("{}Mi", 128 + at % 5 * 64) });
    let container = json!({ "name": "c", "resources": { "requests": requests } });
    let object = json!({
        "metadata": { "name": format!("web-{at}"), "namespace": format!("n{}", at % 500), "uid": format!("uid-{at}") },
        "spec": { "replicas": 1 + at % 10, "template": { "spec": { "containers": [container] } } },
    });
    Demand::of(("w", "root:team"), ("apps", "deployments"), &object)
}

/// The CPU time of this process or, where the system does not tell, the time since its start.
fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = times.split_whitespace().next().and_then(|number| number.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// The numbers of workloads and of clusters, by command line: `10000 10,100,1000`.
fn arguments() -> (usize, Vec<usize>) {
    let mut given = std::env::args().skip(1);
    let workloads = given.next().and_then(|number| number.parse().ok()).unwrap_or(WORKLOADS);
    let clusters =
        given.next().map(|list| list.split(',').filter_map(|number| number.parse().ok()).collect());
    (workloads, clusters.unwrap_or(vec![10, 100, 1000]))
}

fn current(share: &DecidedShare) -> CurrentShare {
    CurrentShare { uid: share.uid.clone(), replicas: share.replicas, ..CurrentShare::default() }
}

/// Returns decisions a second: for new workloads, for the same ones again, and without reservations.
fn measure(clusters: usize, rules: &Rules, demands: &mut [Demand]) -> (f64, f64, f64) {
    let mut fleet = fleet(clusters);
    let demands_count = demands.len();
    demands.iter_mut().for_each(|demand| demand.current.clear());
    let per_second = |started: Duration| demands_count as f64 / (now() - started).as_secs_f64();
    let started = now();
    for demand in demands.iter() {
        black_box(decide(&fleet, demand, rules));
    }
    let alone = per_second(started);
    let (started, mut unplaced) = (now(), 0);
    for demand in demands.iter_mut() {
        let decision = decide(&fleet, demand, rules);
        fleet.reserve(&demand.object, &demand.needs, &decision.reservations(&fleet, demand));
        unplaced += decision.unplaced;
        demand.current = decision.shares.iter().map(current).collect();
    }
    let new = per_second(started);
    let started = now();
    for demand in demands.iter() {
        black_box(decide(&fleet, demand, rules));
    }
    let again = per_second(started);
    assert_eq!(unplaced, 0, "the fleet has room for all");
    (alone, new, again)
}

fn main() {
    let (workloads, numbers) = arguments();
    let mut demands: Vec<Demand> = (0..workloads).map(demand).collect();
    let spread = Spread { by: Topology::Region, min_domains: None, max_domains: None, max_skew: Some(1) };
    let region = "topology.kubernetes.io/region in (region-1,region-3)";
    let selected = ClusterFilter { selector: region.parse().ok(), ..ClusterFilter::default() };
    let policies = [
        ("default", Rules::by_default()),
        ("even over 3", Rules { division: Division::Even, max_clusters: Some(3), ..Rules::default() }),
        ("even", Rules { division: Division::Even, ..Rules::default() }),
        ("by capacity", Rules { division: Division::Capacity, ..Rules::default() }),
        ("selected, one", Rules { clusters: selected, ..Rules::default() }),
        ("spread, even", Rules { division: Division::Even, spread: vec![spread], ..Rules::default() }),
    ];
    println!("{:<15}{:>9}{:>14}{:>14}{:>14}", "policy", "clusters", "decided/s", "and reserved", "again/s");
    for (name, rules) in policies {
        for clusters in numbers.iter().copied() {
            let (alone, new, again) = measure(clusters, &rules, &mut demands);
            println!("{name:<15}{clusters:>9}{alone:>14.0}{new:>14.0}{again:>14.0}");
        }
    }
}
