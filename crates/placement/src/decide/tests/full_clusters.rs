//! Clusters that take nothing any more do not stand in the way of others, and those that take the rest get enough.

use super::*;

#[test]
fn replicas_leave_a_cluster_that_takes_nothing_any_more() {
    let closed = ClusterState { limits: [("cpu".to_string(), 0)].into(), ..state("a") };
    let fleet = fleet(&[(closed, 10), (state("b"), 20), (state("c"), 30)]);
    for division in [Division::Single, Division::Even, Division::Capacity, Division::Pack] {
        for may_rebalance in [false, true] {
            let demand = Demand { may_rebalance, ..on(demand(2), &[("a", 2)]) };
            let one = Rules { max_clusters: Some(1), ..rules(division.clone()) };
            let decided = words(&decide(&fleet, &demand, &one));
            assert!(matches!(decided.as_str(), "b=2" | "c=2"), "{division:?}, {may_rebalance}: {decided}");
        }
    }
}

#[test]
fn replicas_are_even_without_a_cluster_that_takes_nothing_any_more() {
    let closed = ClusterState { limits: [("cpu".to_string(), 0)].into(), ..state("a") };
    let fleet = fleet(&[(closed, 10), (state("b"), 20), (state("c"), 30)]);
    let demand = Demand { may_rebalance: true, ..on(demand(2), &[("a", 1), ("b", 1)]) };
    assert_eq!(words(&decide(&fleet, &demand, &rules(Division::Even))), "b=1 c=1");
}

#[test]
fn packed_clusters_have_the_fewest_replicas_that_the_rules_allow() {
    let fleet = three();
    let bounded = |min: i64, max: i64| Rules {
        min_replicas: Some(min),
        max_replicas: Some(max),
        ..rules(Division::Pack)
    };
    for (demand, rules, expected) in [
        (demand(5), bounded(2, 4), "a=3 b=2"),
        (demand(5), bounded(1, 4), "a=4 b=1"),
        // Too few for two clusters.
        (demand(5), bounded(3, 4), "a=4 -1"),
        (demand(1), bounded(3, 4), "a=1"),
        // Present replicas move as little as possible.
        (on(demand(5), &[("b", 4)]), bounded(2, 4), "a=2 b=3"),
        (on(demand(6), &[("b", 2), ("c", 2)]), bounded(2, 4), "b=4 c=2"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand, &rules)), expected, "{:?}", demand.current);
    }
}
