//! Few clusters that are chosen by their room, in each domain and in all.

use super::*;

fn within(name: &str, region: &str, cores: i64) -> (ClusterState, i64) {
    let mut state = state(name);
    state.labels.insert(crate::cluster::REGION.into(), region.into());
    (state, cores)
}

/// At most `max_clusters` clusters, in regions that differ by one replica at most.
fn level(max_clusters: i64) -> Rules {
    let spread = Spread { by: Topology::Region, min_domains: None, max_domains: None, max_skew: Some(1) };
    Rules { spread: vec![spread], max_clusters: Some(max_clusters), ..rules(Division::Even) }
}

fn settled(demand: Demand) -> Demand {
    Demand { may_rebalance: false, ..demand }
}

#[test]
fn domains_use_other_clusters_where_the_present_ones_are_full() {
    // The cluster in the south that has a share has room for three replicas, and another one there has more.
    let fleet = fleet(&[
        within("a", "north", 20),
        within("b", "east", 20),
        within("c", "south", 3),
        within("d", "west", 20),
        within("e", "south", 12),
        within("f", "north", 30),
    ]);
    let here = |replicas: i64| on(demand(replicas), &[("a", 3), ("b", 3), ("c", 3), ("d", 3)]);
    for (demand, expected) in [
        (settled(here(12)), "a=3 b=3 c=3 d=3"),
        (settled(here(15)), "a=4 b=4 c=3 d=4"),
        // Only the share in the south leaves its cluster.
        (settled(here(23)), "a=6 b=6 d=6 e=5"),
        (here(23), "a=6 b=6 d=6 e=5"),
        (settled(here(60)), "a=13 b=13 d=13 e=12 -9"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand, &level(4))), expected);
    }
}

#[test]
fn the_domain_with_least_room_gets_another_cluster() {
    let fleet = fleet(&[
        within("a", "north", 20),
        within("b", "north", 20),
        within("c", "south", 6),
        within("d", "south", 5),
        within("e", "south", 4),
    ]);
    for (most, expected) in [(2, "a=7 c=6 -7"), (3, "a=10 c=5 d=5"), (4, "a=5 b=5 c=5 d=5")] {
        assert_eq!(words(&decide(&fleet, &demand(20), &level(most))), expected);
    }
}

#[test]
fn few_clusters_have_room_for_all_replicas() {
    let fleet =
        fleet(&[(state("a"), 4), (state("b"), 6), (state("c"), 9), (state("d"), 16), (state("e"), 16)]);
    let two = |max_skew: Option<i64>| Rules { max_clusters: Some(2), max_skew, ..rules(Division::Even) };
    for (rules, demand, expected) in [
        (two(None), on(demand(8), &[("a", 4), ("b", 4)]), "a=4 b=4"),
        (two(None), settled(on(demand(20), &[("a", 4), ("b", 4)])), "d=10 e=10"),
        // One of the present clusters has room for half.
        (two(None), settled(on(demand(14), &[("a", 4), ("c", 4)])), "c=7 d=7"),
        (two(Some(1)), settled(on(demand(20), &[("a", 4), ("d", 4)])), "d=10 e=10"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand, &rules)), expected);
    }
}
