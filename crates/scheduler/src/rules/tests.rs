use serde_json::{Value, json};

use super::*;

fn policy(spec: Value) -> Policy {
    let policy = json!({ "kind": "PlacementPolicy", "metadata": { "name": "p", "uid": "1" }, "spec": spec });
    Policy::parse(&policy).expect("the policy is valid")
}

fn intent(text: &str, source: IntentSource) -> (Intent, IntentSource) {
    (Intent::parse(text).expect("the intent is valid"), source)
}

fn weighted(weights: &[(&str, i64)]) -> Division {
    Division::Weighted(
        weights.iter().map(|(name, weight)| (ClusterFilter::named([*name]), *weight)).collect(),
    )
}

#[test]
fn the_winner_is_named() {
    let spread = policy(json!({ "replicas": { "division": "Even" } }));
    let on = |source| intent("east", source);
    for (intent, policy, expected) in [
        (None, None, "default"),
        (None, Some(&spread), "placementpolicy/p"),
        (Some(on(IntentSource::Object)), Some(&spread), "annotation"),
        (Some(on(IntentSource::Namespace)), None, "namespace-annotation"),
        (Some(on(IntentSource::Label)), Some(&spread), "label"),
    ] {
        let rules = rules(intent.as_ref(), policy, false);
        assert_eq!(&*rules.by, expected);
        assert_eq!(placed_by::is_scheduled(&rules.by), expected != "label", "{expected}");
        assert_eq!(rules.keeps_namespace_together, expected == "default");
    }
}

#[test]
fn clusters_of_labels_run_all_of_it() {
    let even = policy(json!({ "replicas": { "division": "Even" } }));
    for (text, runs_once, expected) in [
        ("east", false, Division::Single),
        ("east,west", false, Division::Duplicate),
        ("east,west", true, Division::Single),
    ] {
        for policy in [None, Some(&even)] {
            let rules = rules(Some(&intent(text, IntentSource::Label)), policy, runs_once);
            assert_eq!(rules.division, expected, "{text}");
        }
    }
}

#[test]
fn amounts_of_an_annotation_decide_how_replicas_are_divided() {
    let even = policy(json!({ "replicas": { "division": "Even" } }));
    for (text, policy, runs_once, expected) in [
        ("none", None, false, Division::Nowhere),
        ("none", Some(&even), false, Division::Nowhere),
        ("east", None, false, Division::Single),
        ("east,west", None, false, Division::Duplicate),
        // Several clusters would each do all of its work.
        ("east,west", None, true, Division::Single),
        ("east,west", Some(&even), false, Division::Even),
        ("east=all,west=all", Some(&even), true, Division::Duplicate),
        ("east=2,west=1", Some(&even), false, weighted(&[("east", 2), ("west", 1)])),
        ("east==2,west==0", None, false, Division::Pinned(vec![("east".into(), 2), ("west".into(), 0)])),
        // The rest is divided between those without an exact number.
        ("east==2,west=3,north=1", None, false, weighted(&[("west", 3), ("north", 1)])),
        ("east==2,west", None, false, weighted(&[("west", 1)])),
    ] {
        let intent = intent(text, IntentSource::Object);
        let rules = rules(Some(&intent), policy, runs_once);
        assert_eq!(rules.division, expected, "{text}");
        assert_eq!(rules.clusters.names, intent.0.clusters().map(str::to_string).collect(), "{text}");
        assert!(rules.names_clusters, "{text}");
    }
}

#[test]
fn all_rules_of_a_policy_are_kept() {
    let weights = json!([
        { "selector": { "matchLabels": { "tier": "a" } }, "weight": 1 }, { "cluster": "east", "weight": 3 },
    ]);
    let policy = policy(json!({
        "clusters": {
            "names": ["east", "west"], "exclude": ["north"], "affinity": [{ "names": ["east"] }],
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
        },
        "replicas": { "division": "Weighted", "weights": weights },
        "bounds": { "minClusters": 1, "maxClusters": 5, "minReplicas": 2, "maxReplicas": 7 },
        "spread": [
            { "by": "region", "minDomains": 2, "maxSkew": 1 }, { "by": "cluster", "minDomains": 3, "maxDomains": 4, "maxSkew": 2 },
        ],
        "failover": { "after": "1m", "mode": "Never" },
        "failback": { "after": "2m" },
    }));
    let rules = rules(None, Some(&policy), false);
    assert_eq!(rules.clusters.names.len(), 2);
    assert_eq!(rules.clusters.except, BTreeSet::from(["north".to_string()]));
    assert_eq!(rules.terms, [ClusterFilter::named(["east"])]);
    assert_eq!(rules.tolerations.len(), 1);
    let Division::Weighted(weights) = &rules.division else { panic!("{:?}", rules.division) };
    let given: Vec<(bool, i64)> =
        weights.iter().map(|(filter, weight)| (filter.names.contains("east"), *weight)).collect();
    assert_eq!(given, [(true, 3), (false, 1)], "names have precedence over labels");
    // A spread over clusters is a number of clusters, and their difference.
    assert_eq!((rules.min_clusters, rules.max_clusters, rules.max_skew), (Some(3), Some(4), Some(2)));
    assert_eq!((rules.min_replicas, rules.max_replicas), (Some(2), Some(7)));
    assert_eq!(rules.spread.len(), 1);
    assert_eq!((&rules.spread[0].by, rules.spread[0].max_skew), (&Topology::Region, Some(1)));
    let expected = Failover { is_enabled: false, after: 60, returns: true, returns_after: 120 };
    assert_eq!(rules.failover, expected);
}

#[test]
fn an_annotation_leaves_the_strategy_of_rollouts_to_the_policy() {
    let policy = policy(json!({ "rollout": { "strategy": "OneByOne" } }));
    let intent = intent("east=2,west=1", IntentSource::Object);
    assert_eq!(rules(Some(&intent), Some(&policy), false).rollout, policy::Strategy::OneByOne);
}
