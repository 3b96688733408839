//! Segments of a divided StatefulSet beyond the room of the last one.

use super::*;

/// A StatefulSet with segments, written as cluster, first ordinal and replicas.
fn set(replicas: i64, segments: &[(&str, i64, i64)]) -> Demand {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": "1" } } });
    let object = json!({
        "metadata": { "name": "db", "namespace": "n", "uid": "u" },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [container] } } },
    });
    let mut demand = Demand::of(("w", "root"), ("apps", "statefulsets"), &object);
    let share = |(uid, first, replicas): &(&str, i64, i64)| CurrentShare {
        uid: (*uid).into(),
        replicas: Some(*replicas),
        first_ordinal: Some(*first),
        ..CurrentShare::default()
    };
    demand.current = segments.iter().map(share).collect();
    demand
}

#[test]
fn a_full_last_segment_is_followed_by_another_one() {
    let fleet = fleet(&[(state("a"), 2), (state("b"), 3), (state("c"), 2), (state("d"), 4)]);
    let two = &[("a", 0, 2), ("b", 2, 2)][..];
    let even = || rules(Division::Even);
    let at_most = |most| Rules { max_clusters: Some(most), ..even() };
    for (rules, demand, expected) in [
        (even(), set(5, two), "a=2@0 b=3@2"),
        // One cluster that takes all that are missing comes before several.
        (even(), set(9, two), "a=2@0 b=3@2 d=4@5"),
        (even(), set(10, two), "a=2@0 b=3@2 d=4@5 c=1@9"),
        (even(), set(20, two), "a=2@0 b=3@2 d=4@5 c=2@9 -9"),
        (at_most(2), set(9, two), "a=2@0 b=3@2 -4"),
        (at_most(3), set(10, two), "a=2@0 b=3@2 d=4@5 -1"),
        (Rules { min_replicas: Some(2), ..even() }, set(6, two), "a=2@0 b=3@2 -1"),
        (Rules { max_replicas: Some(2), ..even() }, set(6, two), "a=2@0 b=2@2 d=2@4"),
        // Only clusters of the policy.
        (
            Rules { clusters: ClusterFilter::named(["a", "b", "c"]), ..even() },
            set(7, two),
            "a=2@0 b=3@2 c=2@5",
        ),
        // Once opened, a segment stays where it began.
        (even(), set(6, &[("a", 0, 2), ("b", 2, 3), ("c", 5, 2)]), "a=2@0 b=3@2 c=1@5"),
        (even(), set(3, &[("a", 0, 2), ("b", 2, 3), ("c", 5, 2)]), "a=2@0 b=1@2 c=0@5"),
        (even(), Demand { is_paused: true, ..set(9, two) }, "a=2@0 b=3@2 -4"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand, &rules)), expected, "{:?}", demand.current);
    }
}

#[test]
fn volumes_of_an_empty_segment_keep_its_ordinals() {
    let fleet =
        fleet(&[(state("a"), 2), (ClusterState { is_cordoned: true, ..state("b") }, 9), (state("c"), 9)]);
    let mut demand = set(4, &[("a", 0, 2), ("b", 2, 0)]);
    assert_eq!(words(&decide(&fleet, &demand, &rules(Division::Even))), "a=2@0 b=0@2 c=2@2");
    demand.has_bound_claims = true;
    assert_eq!(words(&decide(&fleet, &demand, &rules(Division::Even))), "a=2@0 b=0@2 -2");
}
