//! The largest difference between clusters, and clusters that are excluded one by one.

use super::*;

#[test]
fn clusters_differ_by_no_more_than_the_skew() {
    let fleet = three();
    let within = |max_skew: i64, division: Division| Rules { max_skew: Some(max_skew), ..rules(division) };
    let weights = || {
        let named = |name: &str, weight: i64| (ClusterFilter::named([name]), weight);
        Division::Weighted(vec![named("a", 1), named("b", 1), named("c", 4)])
    };
    for (rules, demand, expected) in [
        (rules(weights()), demand(6), "a=1 b=1 c=4"),
        (within(1, weights()), demand(6), "a=2 b=2 c=2"),
        (within(2, weights()), demand(6), "a=2 b=2 c=2"),
        (within(3, weights()), demand(6), "a=1 b=1 c=4"),
        (within(1, Division::Pack), demand(6), "a=2 b=2 c=2"),
        (within(1, Division::Capacity), demand(12), "a=4 b=4 c=4"),
        // The smallest cluster limits all others.
        (within(1, Division::Even), demand(40), "a=10 b=11 c=11 -8"),
        // Few replicas leave clusters empty.
        (within(1, Division::Even), demand(2), "b=1 c=1"),
        // Present shares are levelled too.
        (within(1, Division::Even), on(demand(6), &[("a", 6)]), "a=2 b=2 c=2"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand, &rules)), expected, "{rules:?}");
    }
}

#[test]
fn one_of_two_clusters_of_a_name_is_excluded() {
    let near = ClusterState { uid: "near".into(), workspace: "root:org".into(), ..state("a") };
    let fleet = fleet(&[(state("a"), 10), (near, 5)]);
    let except = |uids: &[&str]| {
        let except_uids = uids.iter().map(|uid| Arc::from(*uid)).collect();
        let clusters = ClusterFilter { except_uids, ..ClusterFilter::default() };
        Rules { clusters, ..rules(Division::Single) }
    };
    for (rules, expected) in [(except(&[]), "a"), (except(&["a"]), "near"), (except(&["near"]), "a")] {
        assert_eq!(&*decide(&fleet, &demand(1), &rules).shares[0].uid, expected);
    }
}
