//! Parts of divided work that are to leave their cluster, and that no other one takes.

use super::*;

fn set(replicas: i64, segments: &[(&str, i64, i64)]) -> Demand {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": "1" } } });
    let object = json!({
        "metadata": { "name": "db", "namespace": "n", "uid": "u" },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [container] } } },
    });
    let share = |(uid, first, replicas): &(&str, i64, i64)| CurrentShare {
        uid: (*uid).into(),
        replicas: Some(*replicas),
        first_ordinal: Some(*first),
        ..CurrentShare::default()
    };
    Demand {
        current: segments.iter().map(share).collect(),
        ..Demand::of(("w", "root"), ("apps", "statefulsets"), &object)
    }
}

fn job(parts: &[(&str, i64)]) -> Demand {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": "1" } } });
    let object = json!({
        "metadata": { "name": "sum", "namespace": "n", "uid": "u" },
        "spec": { "completions": 9, "parallelism": 4, "template": { "spec": { "containers": [container] } } },
    });
    let share = |(uid, completions): &(&str, i64)| CurrentShare {
        uid: (*uid).into(),
        completions: Some(*completions),
        parallelism: Some(2),
        ..CurrentShare::default()
    };
    Demand {
        current: parts.iter().map(share).collect(),
        ..Demand::of(("w", "root"), ("batch", "jobs"), &object)
    }
}

fn without(demand: Demand, cluster: &str) -> Demand {
    Demand { evicted: vec![Evicted::lost(cluster)], ..demand }
}

#[test]
fn parts_stay_where_they_are_if_no_other_cluster_takes_them() {
    let two = &[("a", 0, 2), ("b", 2, 3)][..];
    let parts = &[("a", 6), ("b", 3)][..];
    let both = || fleet(&[(state("a"), 5), (state("b"), 5)]);
    let third = |cores| fleet(&[(state("a"), 5), (state("b"), 5), (state("c"), cores)]);
    for (fleet, demand, expected, kept) in [
        (both(), set(5, two), "a=2@0 b=3@2", 0),
        (both(), without(set(5, two), "b"), "a=2@0 b=3@2", 3),
        (both(), without(set(5, two), "a"), "a=2@0 b=3@2", 2),
        // It shrinks there, and does not grow.
        (both(), without(set(3, two), "b"), "a=2@0 b=1@2", 1),
        (both(), without(set(2, two), "b"), "a=2@0 b=0@2", 0),
        (both(), without(set(6, two), "b"), "a=2@0 b=3@2 -1", 3),
        (third(2), without(set(5, two), "b"), "a=2@0 b=3@2", 3),
        (third(3), without(set(5, two), "b"), "a=2@0 c=3@2", 0),
        (both(), without(job(parts), "b"), "a!6|2 b!3|2", 3),
        (third(1), without(job(parts), "b"), "a!6|2 b!3|2", 3),
        (third(2), without(job(parts), "b"), "a!6|2 c!3|2", 0),
        // The cluster of a part does not exist any more: nothing changes until another one takes it.
        (both(), set(5, &[("x", 0, 2), ("a", 2, 3), ("b", 5, 0)]), " -5", 0),
        (both(), set(5, &[("a", 0, 2), ("b", 2, 3), ("x", 5, 0)]), "a=2@0 b=3@2", 0),
        (third(2), set(5, &[("x", 0, 2), ("a", 2, 3)]), "b=2@0 a=3@2", 0),
        (both(), job(&[("x", 3), ("a", 3), ("b", 3)]), " -9", 0),
    ] {
        let decision = decide(&fleet, &demand, &rules(Division::Even));
        assert_eq!((words(&decision).as_str(), decision.kept), (expected, kept), "{:?}", demand.current);
        assert_eq!(decision.refusals.is_empty(), decision.unplaced + kept == 0, "{decision:?}");
    }
    let decision = decide(&both(), &without(set(5, two), "b"), &rules(Division::Even));
    assert_eq!(codes(&decision), [("b", "Evicted")]);
}

#[test]
fn reasons_of_evictions_name_the_one_that_holds() {
    let fleet = fleet(&[(state("a"), 5), (state("b"), 5)]);
    for (why, words) in [
        (Eviction::Lost, "is lost"),
        (Eviction::Emptied, "is being emptied"),
        (Eviction::Leaving, "earlier share"),
        (Eviction::RecentlyReady, "became ready a moment ago"),
    ] {
        let mut demand = set(5, &[("a", 0, 2), ("b", 2, 3)]);
        demand.evict(["b".into()], why);
        // The first reason counts.
        demand.evict(["b".into()], Eviction::Lost);
        let decision = decide(&fleet, &demand, &rules(Division::Even));
        assert_eq!(codes(&decision), [("b", "Evicted")]);
        assert!(decision.refusals[0].text.contains(words), "{:?}", decision.refusals);
    }
}

#[test]
fn a_divided_stateful_set_stays_divided() {
    let fleet = fleet(&[(state("a"), 9), (state("b"), 9)]);
    let two = &[("a", 0, 2), ("b", 2, 3)][..];
    let only_a = Rules { clusters: ClusterFilter::named(["a"]), ..rules(Division::Even) };
    for (rules, demand, expected, kept, has_reason) in [
        (rules(Division::Even), set(5, two), "a=2@0 b=3@2", 0, false),
        (rules(Division::Single), set(5, two), "a=2@0 b=3@2", 0, true),
        (rules(Division::Single), set(2, two), "a=2@0 b=0@2", 0, false),
        (rules(Division::Single), set(5, &[("a", 0, 2)]), "a=5@0", 0, false),
        (only_a, set(5, two), "a=2@0 b=3@2", 3, true),
    ] {
        let decision = decide(&fleet, &demand, &rules);
        assert_eq!((words(&decision).as_str(), decision.kept), (expected, kept), "{rules:?}");
        let says =
            decision.reason.is_some_and(|reason| reason.starts_with("a divided StatefulSet stays divided"));
        assert_eq!(says, has_reason, "{rules:?}");
    }
}
