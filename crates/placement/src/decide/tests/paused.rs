//! Pauses, whatever the rules are.

use super::*;

#[test]
fn present_shares_follow_the_replicas_by_any_rules() {
    let filter = |name: &str| ClusterFilter::named([name]);
    let weights = || Division::Weighted(vec![(filter("a"), 3), (filter("b"), 1)]);
    let spread = Spread { by: Topology::Zone, min_domains: Some(2), max_domains: None, max_skew: Some(1) };
    for (rules, shares, replicas, expected) in [
        (rules(Division::Even), &[("a", 3), ("b", 1)][..], 4, "a=3 b=1"),
        (rules(Division::Even), &[("a", 3), ("b", 1)], 6, "a=3 b=3"),
        (rules(Division::Even), &[("a", 3), ("b", 1)], 1, "a=1 b=0"),
        (rules(Division::Even), &[("a", 3), ("b", 1)], 0, "a=0 b=0"),
        (rules(weights()), &[("a", 1), ("b", 3)], 4, "a=1 b=3"),
        (rules(weights()), &[("a", 1), ("b", 3)], 8, "a=5 b=3"),
        (rules(Division::Capacity), &[("a", 3), ("b", 1)], 4, "a=3 b=1"),
        (rules(Division::Pack), &[("a", 1), ("c", 1)], 5, "a=3 c=2"),
        (rules(Division::Single), &[("a", 3)], 5, "a=5"),
        (rules(Division::Single), &[("a", 3), ("b", 1)], 4, "a=3 b=1"),
        (rules(Division::Single), &[("a", 3), ("b", 1)], 2, "a=1 b=1"),
        (Rules::by_default(), &[("a", 3), ("b", 1)], 4, "a=3 b=1"),
        (rules(Division::Duplicate), &[("a", 3), ("b", 3)], 5, "a=5 b=5"),
        (rules(Division::Duplicate), &[("a", 2), ("b", 2)], 4, "a=2 b=2"),
        (rules(Division::Even), &[("a", 4), ("b", 4)], 4, "a=4 b=4"),
        // Rules about clusters, bounds and domains count after the pause.
        (Rules { clusters: filter("c"), ..rules(Division::Even) }, &[("a", 2), ("b", 2)], 6, "a=3 b=3"),
        (Rules { terms: vec![filter("c")], ..rules(Division::Even) }, &[("a", 2)], 6, "a=6"),
        (Rules { min_clusters: Some(3), ..rules(Division::Even) }, &[("a", 2), ("b", 2)], 6, "a=3 b=3"),
        (Rules { min_replicas: Some(3), ..rules(Division::Even) }, &[("a", 4), ("b", 1)], 5, "a=4 b=1"),
        (Rules { spread: vec![spread], ..rules(Division::Even) }, &[("a", 4), ("b", 1)], 6, "a=4 b=2"),
        (Rules { clusters: filter("c"), ..rules(Division::Duplicate) }, &[("a", 3), ("b", 3)], 5, "a=5 b=5"),
        (rules(Division::Even), &[("a", 2)], 12, "a=10 -2"),
    ] {
        let paused = Demand { is_paused: true, may_rebalance: true, ..on(demand(replicas), shares) };
        assert_eq!(
            words(&decide(&three(), &paused, &rules)),
            expected,
            "{shares:?} to {replicas}, {rules:?}"
        );
        let lost = Demand { evicted: vec![Evicted::lost("a")], ..paused };
        assert_eq!(words(&decide(&three(), &lost, &rules)), expected, "whatever is to be left");
    }
}

#[test]
fn shares_on_a_paused_cluster_follow_where_others_cannot() {
    let fleet = fleet(&[(ClusterState { is_paused: true, ..state("a") }, 10), (state("b"), 3)]);
    let even = || rules(Division::Even);
    let b_only = || Rules { clusters: ClusterFilter::named(["b"]), ..even() };
    for (rules, shares, replicas, expected) in [
        (even(), &[("a", 2), ("b", 2)][..], 5, "a=2 b=3"),
        (even(), &[("a", 2), ("b", 2)], 7, "a=4 b=3"),
        (even(), &[("a", 2), ("b", 2)], 3, "a=2 b=1"),
        (even(), &[("a", 2), ("b", 2)], 1, "a=1"),
        (even(), &[("a", 2)], 0, "a=0"),
        (b_only(), &[("a", 2), ("b", 2)], 4, "a=2 b=2"),
        (rules(Division::Single), &[("a", 2), ("b", 2)], 4, "a=2 b=2"),
        (rules(Division::Single), &[("a", 2)], 5, "a=5"),
        (rules(Division::Duplicate), &[("a", 2), ("b", 2)], 3, "a=3 b=3"),
    ] {
        let demand = Demand { may_rebalance: true, ..on(demand(replicas), shares) };
        assert_eq!(words(&decide(&fleet, &demand, &rules)), expected, "{shares:?} to {replicas}, {rules:?}");
    }
}
