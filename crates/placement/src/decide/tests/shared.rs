//! Clusters of workspaces above, which several workspaces share.

use super::*;

/// A cluster of this workspace that has reported nothing.
fn unreported(workspace: &str, readiness: Readiness) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.set_cluster(ClusterState { workspace: workspace.into(), readiness, ..state("a") });
    fleet
}

#[test]
fn shared_clusters_take_nothing_before_they_have_reported_their_room() {
    let named =
        |division| Rules { clusters: ClusterFilter::named(["a"]), names_clusters: true, ..rules(division) };
    let pins = Division::Pinned(vec![("a".into(), 3)]);
    let (ready, unknown) = (Readiness::Ready { since: 0 }, Readiness::Unknown);
    for (workspace, readiness, division, expected) in [
        ("root", &ready, Division::Single, " -3"),
        ("root", &ready, Division::Even, " -3"),
        ("root", &ready, pins.clone(), " -3"),
        ("root", &unknown, Division::Single, " -3"),
        ("root:org", &ready, Division::Single, "a=3"),
        ("root:org", &ready, pins.clone(), "a=3"),
        ("root:org", &unknown, Division::Even, "a=3"),
    ] {
        let fleet = unreported(workspace, readiness.clone());
        let decision = decide(&fleet, &demand(3), &named(division.clone()));
        assert_eq!(words(&decision), expected, "{workspace} {readiness:?} {division:?}");
        if decision.shares.is_empty() {
            assert_eq!(codes(&decision), [("a", "RoomNotReported")], "{division:?}");
            assert!(decision.refusals[0].text.contains("has not reported its room yet"));
        }
    }
    // Objects without pods wait, too, and what is there stays as it is.
    let fleet = unreported("root", ready);
    let copy = json!({ "metadata": { "name": "x", "namespace": "n", "uid": "u" } });
    let copy = Demand::of(("w", "root:org"), ("example.dev", "widgets"), &copy);
    assert_eq!(words(&decide(&fleet, &copy, &named(Division::Duplicate))), " -1");
    assert_eq!(words(&decide(&fleet, &on(demand(5), &[("a", 2)]), &named(Division::Even))), "a=2 -3");
    // Without names, the reason is the same.
    let decision = decide(&fleet, &demand(1), &Rules::by_default());
    assert_eq!(codes(&decision), [("a", "RoomNotReported")]);
}

/// A Job, or a CronJob with it as its template.
fn job(resource: &str, spec: Value) -> Demand {
    let mut spec = spec;
    spec["template"] = deployment(0)["spec"]["template"].clone();
    let spec = if resource == "cronjobs" { json!({ "jobTemplate": { "spec": spec } }) } else { spec };
    let object = json!({ "metadata": { "name": "sum", "namespace": "n", "uid": "u" }, "spec": spec });
    Demand::of(("w", "root:org"), ("batch", resource), &object)
}

#[test]
fn jobs_get_the_parallelism_that_has_room_on_shared_clusters() {
    let shared = fleet(&[(state("a"), 10)]);
    let own = fleet(&[(ClusterState { workspace: "root:org".into(), ..state("a") }, 10)]);
    let on_a = |demand: Demand, parallelism: i64| {
        let share =
            CurrentShare { uid: "a".into(), parallelism: Some(parallelism), ..CurrentShare::default() };
        Demand { current: vec![share], ..demand }
    };
    let indexed =
        |parallelism| json!({ "completions": 90, "completionMode": "Indexed", "parallelism": parallelism });
    let divisible = |parallelism| json!({ "completions": 90, "parallelism": parallelism });
    for (resource, spec, of_shared, of_own) in [
        ("jobs", json!({ "parallelism": 4 }), "a|4", "a"),
        ("jobs", json!({ "completions": 3, "parallelism": 40, "completionMode": "Indexed" }), "a|3", "a"),
        ("jobs", divisible(4), "a|4", "a"),
        ("jobs", json!({ "parallelism": 11 }), " -11", " -11"),
        ("jobs", indexed(11), " -11", " -11"),
        ("cronjobs", json!({}), "a|1", "a"),
        ("cronjobs", json!({ "parallelism": 10 }), "a|10", "a"),
        ("cronjobs", json!({ "parallelism": 11 }), " -11", " -11"),
    ] {
        let demand = job(resource, spec.clone());
        for (fleet, expected) in [(&shared, of_shared), (&own, of_own)] {
            assert_eq!(words(&decide(fleet, &demand, &Rules::by_default())), expected, "{resource} {spec}");
        }
    }
    // A higher parallelism finds room first, and pods that run stay.
    for (demand, before, expected) in [
        (job("jobs", json!({ "parallelism": 7 })), 4, "a|7"),
        (job("jobs", json!({ "parallelism": 5000 })), 4, "a|10 -4990"),
        (job("jobs", indexed(5000)), 4, "a|10 -80"),
        (job("jobs", divisible(5000)), 4, "a|10 -80"),
        (job("cronjobs", json!({ "parallelism": 5000 })), 1, "a|10 -4990"),
        (job("jobs", json!({ "parallelism": 2 })), 4, "a|2"),
        (job("jobs", json!({ "parallelism": 0 })), 4, "a|0"),
        (job("jobs", json!({ "parallelism": 50 })), 40, "a|40 -10"),
    ] {
        let decision = decide(&shared, &on_a(demand, before), &Rules::by_default());
        assert_eq!(words(&decision), expected, "{before}");
        let is_told = decision.refusals.iter().any(|refusal| refusal.code == "NoRoom");
        assert_eq!(is_told, decision.unplaced > 0, "{decision:?}");
    }
    let cordoned = fleet(&[(ClusterState { is_cordoned: true, ..state("a") }, 10)]);
    let decision =
        decide(&cordoned, &on_a(job("jobs", json!({ "parallelism": 8 })), 4), &Rules::by_default());
    assert_eq!(words(&decision), "a|4 -4");
}

#[test]
fn pods_of_jobs_are_reserved_by_their_parallelism() {
    let mut shared = fleet(&[(state("a"), 10)]);
    let first = job("cronjobs", json!({ "parallelism": 8 }));
    let decision = decide(&shared, &first, &Rules::by_default());
    let taken = decision.reservations(&shared, &first);
    assert_eq!(taken, [("a".into(), 8)]);
    shared.reserve(&first.object, &first.needs, &taken);
    let mut second = job("jobs", json!({ "completions": 2, "parallelism": 9 }));
    second.object.uid = "other".into();
    assert_eq!(words(&decide(&shared, &second, &Rules::by_default())), "a|2");
    second = Demand { object: second.object, ..job("jobs", json!({ "parallelism": 3 })) };
    assert_eq!(words(&decide(&shared, &second, &Rules::by_default())), " -3");
}

#[test]
fn autoscalers_act_above_for_workloads_on_shared_clusters() {
    let autoscaler = json!({ "metadata": { "name": "web", "namespace": "n", "uid": "u" } });
    let autoscaler = Demand::of(("w", "root:org"), ("autoscaling", "horizontalpodautoscalers"), &autoscaler);
    for (workspace, expected) in [("root", " -1"), ("root:org", "a")] {
        let fleet = fleet(&[(ClusterState { workspace: workspace.into(), ..state("a") }, 10)]);
        let decision = decide(&fleet, &autoscaler, &rules(Division::Duplicate));
        assert_eq!(words(&decision), expected, "{workspace}");
        if decision.unplaced > 0 {
            assert_eq!(codes(&decision), [("a", "Autoscales")]);
        }
    }
}
