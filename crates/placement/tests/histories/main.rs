//! Random fleets and histories: whatever happens in whatever order, invariants hold.

mod simulated_fleet;

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_placement::cluster::{REGION, Readiness};
use atoll_placement::rules::{Division, Rules, Spread, Topology};
use proptest::prelude::*;

use self::simulated_fleet::{SimulatedFleet, count};

#[derive(Clone)]
enum Event {
    Create { replicas: i64, request: i64, rules: Box<Rules> },
    Scale { workload: usize, replicas: i64 },
    Delete(usize),
    Decide { workload: usize, may_rebalance: bool },
    Report(usize),
    Run(usize),
    Cordon(usize, bool),
    Lose(usize, bool),
    Join(Vec<i64>),
    Relabel(usize, usize),
    Grow(usize, i64),
    LoseNode(usize),
    Limit(usize, Option<i64>),
}

/// In a few words, because a failing history has many events.
impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::Create { replicas, request, rules } => {
                let Rules { division, max_clusters, min_replicas, max_replicas, spread, .. } = &**rules;
                write!(f, "Create {replicas} of {request} {division:?} clusters {max_clusters:?}")?;
                write!(f, " replicas {min_replicas:?} to {max_replicas:?} {spread:?}")
            }
            Event::Scale { workload, replicas } => write!(f, "Scale {workload} to {replicas}"),
            Event::Delete(workload) => write!(f, "Delete {workload}"),
            Event::Decide { workload, may_rebalance } => write!(f, "Decide {workload} {may_rebalance}"),
            Event::Report(cluster) => write!(f, "Report {cluster}"),
            Event::Run(cluster) => write!(f, "Run {cluster}"),
            Event::Cordon(cluster, is) => write!(f, "Cordon {cluster} {is}"),
            Event::Lose(cluster, is) => write!(f, "Lose {cluster} {is}"),
            Event::Join(nodes) => write!(f, "Join {nodes:?}"),
            Event::Relabel(cluster, region) => write!(f, "Relabel {cluster} {region}"),
            Event::Grow(cluster, size) => write!(f, "Grow {cluster} {size}"),
            Event::LoseNode(cluster) => write!(f, "LoseNode {cluster}"),
            Event::Limit(cluster, limit) => write!(f, "Limit {cluster} {limit:?}"),
        }
    }
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let division = prop_oneof![
        Just(Division::Single),
        Just(Division::Even),
        Just(Division::Capacity),
        Just(Division::Pack),
    ];
    let most = proptest::option::of(1..4i64);
    let spread = proptest::option::of((proptest::option::of(1..3i64), proptest::option::of(1..3i64)));
    (division, most.clone(), most.clone(), proptest::option::of(3..9i64), spread).prop_map(
        |(division, max_clusters, min_replicas, max_replicas, spread)| {
            let is_divided = division != Division::Single;
            let spread = spread.filter(|_| is_divided).map(|(max_domains, max_skew)| Spread {
                by: Topology::Region,
                min_domains: None,
                max_domains,
                max_skew,
            });
            Rules {
                by: "policy".into(),
                division,
                max_clusters,
                min_replicas: min_replicas.filter(|_| is_divided && spread.is_none()),
                max_replicas,
                spread: spread.into_iter().collect(),
                ..Rules::default()
            }
        },
    )
}

/// Events, with requests of one size or of several.
fn any_event(requests: &'static [i64]) -> impl Strategy<Value = Event> {
    let request = proptest::sample::select(requests);
    prop_oneof![
        6 => (0..12i64, request, any_rules())
            .prop_map(|(replicas, request, rules)| Event::Create { replicas, request, rules: Box::new(rules) }),
        4 => (0..40usize, 0..16i64).prop_map(|(workload, replicas)| Event::Scale { workload, replicas }),
        1 => (0..40usize).prop_map(Event::Delete),
        4 => (0..40usize, any::<bool>())
            .prop_map(|(workload, may_rebalance)| Event::Decide { workload, may_rebalance }),
        4 => (0..6usize).prop_map(Event::Report),
        4 => (0..6usize).prop_map(Event::Run),
        1 => (0..6usize, any::<bool>()).prop_map(|(cluster, is)| Event::Cordon(cluster, is)),
        1 => (0..6usize, any::<bool>()).prop_map(|(cluster, is)| Event::Lose(cluster, is)),
        1 => any_nodes().prop_map(Event::Join),
        1 => (0..6usize, 0..3usize).prop_map(|(cluster, region)| Event::Relabel(cluster, region)),
        1 => (0..6usize, any_size()).prop_map(|(cluster, size)| Event::Grow(cluster, size)),
        1 => (0..6usize).prop_map(Event::LoseNode),
        1 => (0..6usize, proptest::option::of(1000..9000i64))
            .prop_map(|(cluster, limit)| Event::Limit(cluster, limit)),
    ]
}

fn any_nodes() -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(any_size(), 1..4)
}

fn any_size() -> impl Strategy<Value = i64> {
    prop_oneof![Just(2000i64), Just(4000), Just(8000)]
}

fn happen(fleet: &mut SimulatedFleet, event: &Event) -> Result<(), TestCaseError> {
    let (clusters, workloads) = (fleet.clusters.len(), fleet.workloads.len());
    let shares: Vec<Shares> = fleet.workloads.iter().map(|workload| workload.shares.clone()).collect();
    let before: Vec<i64> = fleet.clusters.iter().map(|cluster| fleet.placed(cluster)).collect();
    let decided = match event {
        Event::Create { replicas, request, rules } => {
            fleet.create(*replicas, *request, (**rules).clone());
            Some(workloads)
        }
        Event::Scale { workload, replicas } if workloads > 0 => {
            let at = workload % workloads;
            fleet.workloads[at].replicas = *replicas;
            fleet.decide(at, true);
            Some(at)
        }
        Event::Delete(workload) if workloads > 0 => {
            fleet.delete(workload % workloads);
            None
        }
        Event::Decide { workload, may_rebalance } if workloads > 0 => {
            fleet.decide(workload % workloads, *may_rebalance);
            Some(workload % workloads)
        }
        Event::Report(cluster) => {
            fleet.report(cluster % clusters);
            None
        }
        Event::Run(cluster) => {
            fleet.run(cluster % clusters);
            None
        }
        Event::Cordon(cluster, is) => {
            fleet.set_state(cluster % clusters, |state| state.is_cordoned = *is);
            None
        }
        Event::Lose(cluster, is) => {
            let lost = Readiness::NotReady { since: 0, reason: "Unreachable".into() };
            let readiness = if *is { lost } else { Readiness::Ready { since: 0 } };
            fleet.set_state(cluster % clusters, |state| state.readiness = readiness);
            None
        }
        Event::Join(nodes) if clusters < 6 => {
            fleet.add_cluster(nodes, None);
            None
        }
        Event::Relabel(cluster, region) => {
            let region = format!("r{region}");
            fleet.set_state(cluster % clusters, |state| {
                state.labels.insert(REGION.to_string(), region);
            });
            None
        }
        // The next report tells.
        Event::Grow(cluster, size) => {
            fleet.clusters[cluster % clusters].nodes.push((*size, Vec::new()));
            None
        }
        Event::LoseNode(cluster) => {
            fleet.lose_node(cluster % clusters);
            None
        }
        Event::Limit(cluster, limit) => {
            let limits = limit.map(|limit| ("cpu".to_string(), limit));
            fleet.set_state(cluster % clusters, |state| state.limits = limits.into_iter().collect());
            None
        }
        _ => None,
    };
    if let Some(at) = decided {
        check_rules(fleet, at, shares.get(at).unwrap_or(&Shares::new()))?;
    }
    check_room(fleet, &before)
}

/// No cluster is overcommitted: judged by the sizes of its nodes, not by the ledger. One that has lost a node, or whose
/// limit has become lower, gets nothing more.
fn check_room(fleet: &SimulatedFleet, before: &[i64]) -> Result<(), TestCaseError> {
    for (at, cluster) in fleet.clusters.iter().enumerate() {
        let placed = fleet.placed(cluster);
        let limit = cluster.state.limits.get("cpu").copied().unwrap_or(i64::MAX);
        let most = cluster.size().min(limit).max(before.get(at).copied().unwrap_or(0));
        let name = &cluster.state.name;
        prop_assert!(placed <= most, "{name}: {placed} of {}, limit {limit}", cluster.size());
    }
    Ok(())
}

type Shares = BTreeMap<Arc<str>, i64>;

/// The last decision follows the rules.
fn check_rules(fleet: &SimulatedFleet, at: usize, before: &Shares) -> Result<(), TestCaseError> {
    let workload = &fleet.workloads[at];
    if workload.is_deleted {
        return Ok(());
    }
    let (rules, shares) = (&workload.rules, &workload.shares);
    let placed: i64 = shares.values().sum();
    if workload.replicas > 0 {
        prop_assert_eq!(placed + workload.unplaced, workload.replicas, "no replica is lost");
    }
    prop_assert!(shares.values().all(|share| *share <= rules.max_replicas.unwrap_or(i64::MAX)));
    // Only if all of it is on one cluster, or was there before, a share may be smaller than the rules ask for.
    let least = rules.min_replicas.unwrap_or(0).min(placed);
    let is_enough = |(uid, share): (&Arc<str>, &i64)| {
        *share == 0 || *share >= least || before.get(uid).is_some_and(|before| *before > 0)
    };
    prop_assert!(shares.iter().all(is_enough), "{:?} after {:?}, {} at least", shares, before, least);
    let used = count(shares.values().filter(|share| **share > 0).count());
    prop_assert!(used <= rules.max_clusters.unwrap_or(i64::MAX).max(1), "{:?}", shares);
    if rules.division == Division::Single {
        prop_assert!(used <= 1, "{:?}", shares);
    }
    let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
    for cluster in &fleet.clusters {
        let share = shares.get(&cluster.state.uid).copied().unwrap_or(0);
        if share > 0 {
            prop_assert!(!cluster.state.readiness.is_not_ready(), "{} is lost", cluster.state.name);
            let domain = cluster.state.labels.get(REGION).map_or("", String::as_str);
            *domains.entry(domain).or_default() += share;
        }
    }
    if let [spread] = rules.spread.as_slice() {
        prop_assert!(count(domains.len()) <= spread.max_domains.unwrap_or(i64::MAX), "{:?}", domains);
        if let Some(skew) = spread.max_skew {
            let (min, max) = (domains.values().min().unwrap_or(&0), domains.values().max().unwrap_or(&0));
            prop_assert!(max - min <= skew, "{:?}", domains);
        }
    }
    Ok(())
}

/// Runs a history, then lets everything come to rest.
fn history(
    nodes: &[Vec<i64>],
    limit: Option<i64>,
    events: &[Event],
    has_one_size: bool,
) -> Result<SimulatedFleet, TestCaseError> {
    let mut fleet = SimulatedFleet::new(has_one_size);
    for (at, nodes) in nodes.iter().enumerate() {
        fleet.add_cluster(nodes, limit.filter(|_| at == 0));
    }
    for event in events {
        happen(&mut fleet, event)?;
    }
    for _ in 0..12 {
        for cluster in 0..fleet.clusters.len() {
            fleet.run(cluster);
            fleet.report(cluster);
        }
        for workload in 0..fleet.workloads.len() {
            let is_stuck = fleet.clusters.iter().any(|cluster| cluster.pending.contains_key(&workload));
            if is_stuck {
                happen(&mut fleet, &Event::Decide { workload, may_rebalance: false })?;
            }
        }
    }
    Ok(fleet)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pods of one size: whatever is placed finds a node, however late reports are.
    #[test]
    fn nothing_is_overcommitted_and_nothing_stays_pending(
        nodes in proptest::collection::vec(any_nodes(), 1..5),
        limit in proptest::option::of(1000..9000i64),
        events in proptest::collection::vec(any_event(&[500]), 1..80),
    ) {
        let fleet = history(&nodes, limit, &events, true)?;
        prop_assert!(fleet.is_settled(), "{:?}", fleet.clusters.iter().map(|cluster| &cluster.pending).collect::<Vec<_>>());
    }

    /// Pods of all sizes: nodes below may be filled otherwise than expected, but not beyond their sums, and pods that
    /// find no node there are moved to where they do, or reported as unplaced.
    #[test]
    fn pods_of_all_sizes_come_to_rest(
        nodes in proptest::collection::vec(any_nodes(), 1..5),
        limit in proptest::option::of(1000..9000i64),
        events in proptest::collection::vec(any_event(&[100, 300, 500, 1000, 1900, 3500]), 1..80),
    ) {
        let fleet = history(&nodes, limit, &events, false)?;
        prop_assert!(fleet.is_settled(), "{:?}", fleet.clusters.iter().map(|cluster| &cluster.pending).collect::<Vec<_>>());
    }
}
