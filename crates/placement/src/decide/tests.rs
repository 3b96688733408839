//! Tables of decisions: fleets in a few words, and what is decided.

mod full_clusters;
mod kept_parts;
mod left_out;
mod opened_segments;
mod paused;
mod room_of_domains;
mod shared;
mod skew;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cluster::{CapacityReport, Classes, ClusterState, Readiness};
use crate::demand::{CurrentShare, Evicted, Eviction};
use crate::node::{NodeShape, Taint};
use crate::resources::Resources;
use crate::rules::{OtherWorkloads, Spread, Topology};

/// A node shape with cores, and enough of everything else.
fn nodes(count: i64, cores: i64) -> NodeShape {
    let free = Resources { milli_cpu: cores * 1000, memory: cores << 32, pods: 1000, ..Resources::default() };
    NodeShape { count, free, ..NodeShape::default() }
}

fn state(name: &str) -> ClusterState {
    let order = i64::from(name.bytes().next().unwrap_or_default());
    ClusterState {
        name: name.into(),
        uid: name.into(),
        workspace: "root".into(),
        registered: order,
        readiness: Readiness::Ready { since: 0 },
        ..ClusterState::default()
    }
}

fn fleet(clusters: &[(ClusterState, i64)]) -> Fleet {
    let mut fleet = Fleet::new();
    for (state, cores) in clusters {
        fleet.set_cluster(state.clone());
        let report = CapacityReport { nodes: vec![nodes(1, *cores)], ..CapacityReport::default() };
        fleet.set_report(&state.uid, Arc::new(report));
    }
    fleet
}

/// Three clusters with 10, 20 and 30 cores.
fn three() -> Fleet {
    fleet(&[(state("a"), 10), (state("b"), 20), (state("c"), 30)])
}

fn deployment(replicas: i64) -> Value {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } });
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [container] } } },
    })
}

fn demand(replicas: i64) -> Demand {
    Demand::of(("w", "root:org"), ("apps", "deployments"), &deployment(replicas))
}

fn on(mut demand: Demand, shares: &[(&str, i64)]) -> Demand {
    demand.current = shares
        .iter()
        .map(|(uid, replicas)| CurrentShare {
            uid: (*uid).into(),
            replicas: Some(*replicas),
            ready: *replicas,
            ..CurrentShare::default()
        })
        .collect();
    demand
}

fn rules(division: Division) -> Rules {
    Rules { by: "policy p".into(), division, ..Rules::default() }
}

fn words(decision: &PlacementDecision) -> String {
    let share = |share: &DecidedShare| {
        let mut text = share.name.to_string();
        for (sign, number) in [
            ("=", share.replicas),
            ("@", share.first_ordinal),
            ("!", share.completions),
            ("|", share.parallelism),
        ] {
            if let Some(number) = number {
                text.push_str(&format!("{sign}{number}"));
            }
        }
        text
    };
    let shares: Vec<String> = decision.shares.iter().map(share).collect();
    let unplaced = if decision.unplaced > 0 { format!(" -{}", decision.unplaced) } else { String::new() };
    format!("{}{unplaced}", shares.join(" "))
}

fn codes(decision: &PlacementDecision) -> Vec<(&str, &str)> {
    decision.refusals.iter().map(|refusal| (&*refusal.name, refusal.code)).collect()
}

#[test]
fn clusters_for_other_workspaces_are_not_named() {
    let reserved = ClusterState { workspaces: Some(vec!["other".into()]), is_cordoned: true, ..state("a") };
    let fleet = fleet(&[(reserved, 10)]);
    let decision = decide(&fleet, &demand(1), &rules(Division::Single));
    assert_eq!((decision.unplaced, decision.refusals.len()), (1, 0));
    assert!(explain(&fleet, &demand(1), &rules(Division::Single)).1.is_empty());
    // An object that was there before the owner of the cluster removed the workspace gets the reason.
    let mut present = demand(20);
    present.current = vec![CurrentShare { uid: "a".into(), replicas: Some(2), ..CurrentShare::default() }];
    let decision = decide(&fleet, &present, &rules(Division::Even));
    assert_eq!(decision.refusals.iter().map(|one| one.code).collect::<Vec<_>>(), ["Cordoned"]);
}

#[test]
fn without_a_policy_a_namespace_stays_together() {
    let plain = demand(3);
    let with = |namespace: &[&str], workspace: &[&str]| Demand {
        namespace_on: namespace.iter().map(|uid| (*uid).into()).collect(),
        workspace_on: workspace.iter().map(|uid| (*uid).into()).collect(),
        ..plain.clone()
    };
    let large = |replicas: i64| Demand { replicas, ..with(&["a"], &[]) };
    for (demand, expected) in [
        (plain.clone(), "c=3"),
        (with(&["a"], &["b"]), "a=3"),
        (with(&[], &["b"]), "b=3"),
        (with(&["gone"], &[]), "c=3"),
        (Demand { evicted: vec![Evicted::lost("a")], ..with(&["a"], &[]) }, "c=3"),
        // A new object does not wait for room beside its namespace, and one that is there does not leave.
        (large(15), "c=15"),
        (large(40), "c=30 -10"),
        (Demand { replicas: 40, ..plain.clone() }, "c=30 -10"),
        (on(plain.clone(), &[("a", 3)]), "a=3"),
        // A workload that has outgrown its cluster stays with the others of its namespace, or moves as a whole.
        (Demand { shares_cluster_with_namespace: true, ..on(demand(15), &[("a", 3)]) }, "a=10 -5"),
        (on(demand(15), &[("a", 3)]), "c=15"),
        (Demand { may_rebalance: false, ..on(demand(15), &[("a", 3)]) }, "c=15"),
        (on(demand(40), &[("a", 3)]), "a=10 -30"),
        (Demand { runs_once: true, ..on(demand(15), &[("a", 3)]) }, "a=10 -5"),
        (Demand { has_bound_claims: true, ..on(demand(15), &[("a", 3)]) }, "a=10 -5"),
        (Demand { is_scaled_below: true, ..plain.clone() }, "c"),
        (Demand { replicas: 0, ..plain.clone() }, "c=0"),
    ] {
        let decision = decide(&three(), &demand, &Rules::by_default());
        assert_eq!(words(&decision), expected, "{demand:?}");
    }
    let decision = decide(&three(), &large(40), &Rules::by_default());
    assert_eq!(codes(&decision), [("a", "NotChosen"), ("b", "NotChosen"), ("c", "NoRoom")]);
}

#[test]
fn policies_divide_replicas() {
    let filter = |name: &str| ClusterFilter::named([name]);
    let weights = || Division::Weighted(vec![(filter("a"), 2), (filter("b"), 1)]);
    for (rules, demand, expected) in [
        (rules(Division::Even), demand(9), "a=3 b=3 c=3"),
        (rules(Division::Even), demand(2), "b=1 c=1"),
        (rules(Division::Even), on(demand(2), &[("a", 2)]), "a=1 c=1"),
        (rules(Division::Even), Demand { may_rebalance: false, ..on(demand(2), &[("a", 2)]) }, "a=2"),
        (
            rules(Division::Even),
            Demand { may_rebalance: false, ..on(demand(12), &[("a", 2)]) },
            "a=4 b=4 c=4",
        ),
        (rules(Division::Even), demand(0), "c=0"),
        (rules(Division::Even), demand(50), "a=10 b=20 c=20"),
        (rules(Division::Even), demand(70), "a=10 b=20 c=30 -10"),
        (rules(weights()), demand(3), "a=2 b=1"),
        (rules(weights()), demand(12), "a=8 b=4"),
        (rules(weights()), demand(18), "a=10 b=8"),
        (rules(Division::Capacity), demand(6), "a=1 b=2 c=3"),
        (rules(Division::Pack), demand(25), "c=25"),
        (rules(Division::Pack), demand(40), "b=10 c=30"),
        (rules(Division::Pack), on(demand(9), &[("a", 4), ("b", 5)]), "b=9"),
        (rules(Division::Duplicate), demand(9), "a=9 b=9 c=9"),
        (rules(Division::Duplicate), demand(15), "b=15 c=15"),
        (rules(Division::Single), demand(9), "c=9"),
        (rules(Division::Single), on(demand(9), &[("a", 5)]), "a=9"),
        (rules(Division::Single), on(demand(15), &[("a", 5)]), "c=15"),
        (rules(Division::Nowhere), demand(9), ""),
        (rules(Division::Pinned(vec![("a".into(), 2), ("c".into(), 1)])), demand(9), "a=2 c=1"),
        (rules(Division::Pinned(vec![("a".into(), 12), ("x".into(), 1)])), demand(9), "a=10 -3"),
        (Rules { max_clusters: Some(2), ..rules(Division::Even) }, demand(9), "b=5 c=4"),
        (Rules { max_clusters: Some(2), ..rules(Division::Even) }, demand(45), "b=20 c=25"),
        (Rules { max_replicas: Some(2), ..rules(Division::Even) }, demand(9), "a=2 b=2 c=2 -3"),
        (Rules { min_replicas: Some(4), ..rules(Division::Even) }, demand(9), "b=5 c=4"),
        (Rules { min_clusters: Some(4), ..rules(Division::Even) }, demand(9), " -9"),
        (Rules { clusters: filter("b"), ..rules(Division::Even) }, demand(9), "b=9"),
        (Rules { terms: vec![filter("a"), filter("b")], ..rules(Division::Even) }, demand(9), "a=9"),
        (Rules { terms: vec![filter("a"), filter("b")], ..rules(Division::Even) }, demand(15), "b=15"),
    ] {
        let decision = decide(&three(), &demand, &rules);
        assert_eq!(words(&decision), expected, "{rules:?}");
    }
}

#[test]
fn a_reason_is_given_for_every_cluster() {
    let taint = |effect: &str| json!({ "key": "k", "value": "v", "effect": effect });
    let tainted = |effect: &str| Taint::of(atoll_meta::views::TaintView::of(&taint(effect)));
    let not_ready = Readiness::NotReady { since: 0, reason: "Unreachable".into() };
    let mut needy = demand(1);
    Arc::make_mut(&mut needy.needs).classes.storage.insert("fast".into());
    let require =
        |is_required| OtherWorkloads { text: "app=db".into(), is_required, ..OtherWorkloads::default() };
    let with = Rules { with: vec![require(true)], ..Rules::by_default() };
    let meets = OtherWorkloads { clusters: ["a".into()].into(), ..require(true) };
    let without = Rules { without: vec![meets], ..Rules::by_default() };
    let other = Rules { clusters: ClusterFilter::named(["b"]), ..rules(Division::Single) };
    let spread = Spread { by: Topology::Region, min_domains: None, max_domains: None, max_skew: None };
    let spread = Rules { spread: vec![spread], ..rules(Division::Even) };
    let plain = Rules::by_default();
    let limit = |cpu: i64| [("cpu".to_string(), cpu)].into();
    for (state, demand, rules, code, part) in [
        (
            ClusterState { is_cordoned: true, ..state("a") },
            demand(1),
            &plain,
            "Cordoned",
            "atoll cluster uncordon a",
        ),
        (ClusterState { is_fenced: true, ..state("a") }, demand(1), &plain, "Fenced", "fence a --lift"),
        (ClusterState { is_observed: true, ..state("a") }, demand(1), &plain, "Observed", "cluster join a"),
        (
            ClusterState { is_paused: true, ..state("a") },
            demand(1),
            &plain,
            "Paused",
            "atoll resume --cluster a",
        ),
        (
            ClusterState { is_being_removed: true, ..state("a") },
            demand(1),
            &plain,
            "BeingRemoved",
            "describe a",
        ),
        (ClusterState { readiness: not_ready, ..state("a") }, demand(1), &plain, "NotReady", "Unreachable"),
        (
            ClusterState { readiness: Readiness::Unknown, ..state("a") },
            demand(1),
            &plain,
            "NotReported",
            "describe a",
        ),
        (
            ClusterState { taints: vec![tainted("NoSchedule")], ..state("a") },
            demand(1),
            &plain,
            "Tainted",
            "k=v:NoSchedule",
        ),
        (
            ClusterState { apis: Some(["pods".into()].into()), ..state("a") },
            demand(1),
            &plain,
            "NotServed",
            "deployments.apps",
        ),
        (
            ClusterState { missing_rights: ["deployments.apps".into()].into(), ..state("a") },
            demand(1),
            &plain,
            "RightsMissing",
            "cluster join a",
        ),
        (
            ClusterState { classes: Some(Classes::default()), ..state("a") },
            needy,
            &plain,
            "ClassMissing",
            "StorageClass \"fast\"",
        ),
        (
            ClusterState { limits: limit(2500), ..state("a") },
            demand(5),
            &rules(Division::Even),
            "LimitReached",
            "cpu",
        ),
        (state("a"), demand(11), &rules(Division::Even), "NoRoom", "room for 10 replicas: too little cpu"),
        (state("a"), demand(1), &other, "Excluded", "policy p"),
        (state("a"), demand(1), &with, "WorkloadMissing", "app=db"),
        (state("a"), demand(1), &without, "WorkloadPresent", "app=db"),
        (state("a"), demand(1), &spread, "NoDomain", "topology.kubernetes.io/region"),
    ] {
        let fleet = fleet(&[(state.clone(), 10)]);
        let decision = decide(&fleet, &demand, rules);
        assert!(decision.unplaced > 0, "{code}: {decision:?}");
        assert_eq!(codes(&decision), [("a", code)]);
        assert!(decision.refusals[0].text.contains(part), "{}", decision.refusals[0].text);
        let (same, verdicts) = explain(&fleet, &demand, rules);
        assert_eq!(same, decision);
        assert_eq!(verdicts[0].refusal, Some(decision.refusals[0].clone()));
    }
    let tolerated = Rules { tolerations: vec![crate::node::Toleration::default()], ..Rules::by_default() };
    let tainted = fleet(&[(ClusterState { taints: vec![tainted("NoSchedule")], ..state("a") }, 10)]);
    assert_eq!(words(&decide(&tainted, &demand(1), &tolerated)), "a=1");
}

#[test]
fn shares_stay_where_new_ones_are_refused() {
    let even = rules(Division::Even);
    let here = |replicas| on(demand(replicas), &[("a", 2), ("b", 2)]);
    let not_ready = Readiness::NotReady { since: 0, reason: "Unreachable".into() };
    let taint = |effect: &str| {
        let taint = json!({ "key": "k", "effect": effect });
        vec![Taint::of(atoll_meta::views::TaintView::of(&taint))]
    };
    for (changed, replicas, expected) in [
        (ClusterState { is_cordoned: true, ..state("a") }, 4, "a=2 b=2"),
        (ClusterState { is_cordoned: true, ..state("a") }, 6, "a=2 b=4"),
        (ClusterState { readiness: not_ready.clone(), ..state("a") }, 6, "a=2 b=4"),
        (ClusterState { taints: taint("NoSchedule"), ..state("a") }, 6, "a=2 b=4"),
        (ClusterState { taints: taint("NoExecute"), ..state("a") }, 4, "b=4"),
        (ClusterState { is_fenced: true, ..state("a") }, 4, "b=4"),
        (ClusterState { is_paused: true, ..state("a") }, 8, "a=2 b=6"),
        (ClusterState { is_cordoned: true, ..state("a") }, 2, "a=1 b=1"),
    ] {
        let fleet = fleet(&[(changed.clone(), 10), (state("b"), 10)]);
        assert_eq!(words(&decide(&fleet, &here(replicas), &even)), expected, "{changed:?} {replicas}");
    }
    // A share on one cluster does not grow while the cluster is not ready.
    let not_ready = |name| ClusterState { readiness: not_ready.clone(), ..state(name) };
    let unready = super::tests::fleet(&[(not_ready("a"), 10), (state("b"), 10)]);
    for (replicas, expected) in [(2, "a=2"), (5, "a=2 -3"), (1, "a=1")] {
        let undivided = on(demand(replicas), &[("a", 2)]);
        assert_eq!(words(&decide(&unready, &undivided, &rules(Division::Single))), expected, "{replicas}");
    }
    // Neither does an object without replicas leave it.
    let unready = super::tests::fleet(&[(state("a"), 10), (not_ready("b"), 10)]);
    for division in [Division::Single, Division::Even, Division::Capacity, Division::Pack] {
        let (rules, none) = (rules(division), on(demand(0), &[("b", 0)]));
        let balanced = Demand { may_rebalance: true, ..none };
        assert_eq!(words(&decide(&unready, &balanced, &rules)), "b=0", "{rules:?}");
    }
    let fleet = three();
    let evicted = Demand { evicted: vec![Evicted::lost("a")], ..here(4) };
    assert_eq!(words(&decide(&fleet, &evicted, &even)), "b=2 c=2");
    let paused = Demand { is_paused: true, ..here(8) };
    assert_eq!(words(&decide(&fleet, &paused, &even)), "a=4 b=4");
    assert_eq!(words(&decide(&fleet, &Demand { is_paused: true, ..demand(3) }, &even)), " -3");
    // Replicas that cannot be scheduled move to where they fit.
    let mut stuck = here(4);
    stuck.current[0].unschedulable = 2;
    let full = super::tests::fleet(&[(state("a"), 0), (state("b"), 10)]);
    assert_eq!(words(&decide(&full, &stuck, &even)), "b=4");
}

#[test]
fn replicas_are_spread_over_domains() {
    let within = |name: &str, region: &str| {
        let mut state = state(name);
        state.labels.insert(crate::cluster::REGION.into(), region.into());
        (state, 10)
    };
    let fleet = fleet(&[within("a", "north"), within("b", "north"), within("c", "south")]);
    let spread = |min_domains: Option<i64>, max_domains: Option<i64>, max_skew: Option<i64>| Rules {
        spread: vec![Spread { by: Topology::Region, min_domains, max_domains, max_skew }],
        ..rules(Division::Even)
    };
    for (rules, replicas, expected) in [
        (spread(None, None, None), 9, "a=3 b=3 c=3"),
        (spread(None, None, Some(1)), 8, "a=2 b=2 c=4"),
        (spread(None, None, Some(1)), 23, "a=6 b=5 c=10 -2"),
        (spread(Some(2), None, None), 2, "a=1 c=1"),
        (spread(Some(3), None, None), 9, " -9"),
        (spread(None, Some(1), None), 9, "a=5 b=4"),
        (Rules { max_clusters: Some(2), ..spread(Some(2), None, None) }, 9, "a=5 c=4"),
    ] {
        assert_eq!(words(&decide(&fleet, &demand(replicas), &rules)), expected, "{rules:?}");
    }
}

#[test]
fn other_kinds_are_divided_as_they_can_be() {
    let fleet = three();
    let pod = json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] });
    let object =
        |spec: Value| json!({ "metadata": { "name": "x", "namespace": "n", "uid": "u" }, "spec": spec });
    let template = json!({ "spec": pod });
    let job = |completions: Value, mode: &str| {
        object(
            json!({ "completions": completions, "parallelism": 4, "completionMode": mode, "template": template }),
        )
    };
    for (group, resource, object, division, expected) in [
        ("batch", "jobs", job(json!(10), "NonIndexed"), Division::Even, "a!4|2 b!3|1 c!3|1"),
        ("batch", "jobs", job(json!(10), "NonIndexed"), Division::Single, "c"),
        ("batch", "jobs", job(json!(10), "Indexed"), Division::Even, "c"),
        ("batch", "jobs", job(json!(null), "NonIndexed"), Division::Even, "c"),
        (
            "batch",
            "cronjobs",
            object(json!({ "jobTemplate": { "spec": { "template": template } } })),
            Division::Even,
            "c",
        ),
        ("apps", "daemonsets", object(json!({ "template": template })), Division::Even, "a b c"),
        ("apps", "daemonsets", object(json!({ "template": template })), Division::Single, "c"),
        (
            "apps",
            "statefulsets",
            object(json!({ "replicas": 5, "template": template })),
            Division::Single,
            "c=5",
        ),
        (
            "apps",
            "statefulsets",
            object(json!({ "replicas": 5, "template": template })),
            Division::Even,
            "a=2@0 b=2@2 c=1@4",
        ),
        ("", "configmaps", object(json!(null)), Division::Even, "a b c"),
        ("", "configmaps", object(json!(null)), Division::Single, "c"),
    ] {
        let demand = Demand::of(("w", "root"), (group, resource), &object);
        let decision = decide(&fleet, &demand, &rules(division.clone()));
        assert_eq!(words(&decision), expected, "{resource} {division:?}");
    }
}

#[test]
fn divided_statefulsets_and_jobs_stay_as_they_were_divided() {
    let fleet = three();
    let set = |replicas: i64| {
        let object = json!({
            "metadata": { "name": "db", "namespace": "n", "uid": "u" },
            "spec": { "replicas": replicas, "template": { "spec": { "containers": [] } } },
        });
        let mut demand = Demand::of(("w", "root"), ("apps", "statefulsets"), &object);
        let share = |uid: &str, first: i64, replicas: i64| CurrentShare {
            uid: uid.into(),
            replicas: Some(replicas),
            first_ordinal: Some(first),
            ..CurrentShare::default()
        };
        demand.current = vec![share("b", 0, 2), share("a", 2, 1)];
        demand
    };
    let even = rules(Division::Even);
    for (replicas, expected) in [(3, "b=2@0 a=1@2"), (5, "b=2@0 a=3@2"), (1, "b=1@0 a=0@2")] {
        assert_eq!(words(&decide(&fleet, &set(replicas), &even)), expected, "{replicas}");
    }
    // Volumes keep an undivided one from being divided.
    let mut whole = set(4);
    whole.current = vec![CurrentShare { uid: "a".into(), replicas: Some(3), ..CurrentShare::default() }];
    assert_eq!(words(&decide(&fleet, &whole, &even)), "a=2@0 b=1@2 c=1@3");
    whole.has_bound_claims = true;
    assert_eq!(words(&decide(&fleet, &whole, &even)), "a=4@0");
    assert_eq!(words(&decide(&fleet, &whole, &rules(Division::Single))), "a=4");
    let evicted = Demand { evicted: vec![Evicted::lost("a")], ..set(3) };
    assert_eq!(words(&decide(&fleet, &evicted, &even)), "b=2@0 c=1@2");
    let job = json!({
        "metadata": { "name": "j", "namespace": "n", "uid": "u" },
        "spec": { "completions": 9, "parallelism": 3, "template": { "spec": { "containers": [] } } },
    });
    let mut job = Demand::of(("w", "root"), ("batch", "jobs"), &job);
    let share = |uid: &str, completions| CurrentShare {
        uid: uid.into(),
        completions: Some(completions),
        parallelism: Some(2),
        ..CurrentShare::default()
    };
    job.current = vec![share("a", 8), share("b", 1)];
    assert_eq!(words(&decide(&fleet, &job, &even)), "a!8|2 b!1|2");
    job.evicted = vec![Evicted::lost("b")];
    assert_eq!(words(&decide(&fleet, &job, &even)), "a!8|2 c!1|2");
}

#[test]
fn names_mean_the_nearest_cluster() {
    let near = ClusterState { uid: "near".into(), workspace: "root:org".into(), ..state("a") };
    let fleet = fleet(&[(state("a"), 10), (near, 5)]);
    let pins = rules(Division::Pinned(vec![("a".into(), 1)]));
    assert_eq!(decide(&fleet, &demand(1), &pins).shares[0].uid, "near".into());
    let outside = Demand { workspace_path: "root".into(), ..demand(1) };
    assert_eq!(decide(&fleet, &outside, &pins).shares[0].uid, "a".into());
    let unknown = rules(Division::Pinned(vec![("x".into(), 1)]));
    assert!(decide(&fleet, &outside, &unknown).reason.is_some_and(|reason| reason.contains("the name x;")));
    assert_eq!(fleet.serving("root:org:team").count(), 2);
    assert_eq!(fleet.serving("root:organ").count(), 1);
    let elsewhere = Demand { workspace_path: "other".into(), ..demand(1) };
    assert_eq!(words(&decide(&fleet, &elsewhere, &Rules::by_default())), " -1");
}
