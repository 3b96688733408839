use std::time::Duration;

use atoll_meta::FieldError;
use atoll_meta::views::TaintView;
use serde_json::{Map, json};

use super::super::*;
use super::{cluster, of_namespace, of_workspace, parsed};

#[test]
fn unset_fields_have_their_defaults() {
    for spec in [json!(null), json!({}), json!({ "objects": [], "clusters": {}, "failover": null })] {
        let policy = parsed(&of_namespace("p", spec));
        assert_eq!((policy.kind, policy.namespace.as_str()), (PolicyKind::PlacementPolicy, "shop"));
        assert_eq!((policy.name.as_str(), policy.created.as_str()), ("p", "2026-11-16T12:00:00Z"));
        assert_eq!(policy.replicas.division(), Division::Single);
        assert_eq!((policy.failover, policy.failback), (Reaction::FAILOVER, Reaction::FAILBACK));
        assert_eq!((policy.max_moving, policy.rollout), (None, Strategy::AllAtOnce));
        assert_eq!((policy.bounds, policy.distance), (Bounds::default(), 0));
        assert!(policy.objects.is_empty() && policy.spread.is_empty() && !policy.keeps_above());
        assert!(policy.namespaces.is_empty() && policy.clusters == ClusterRule::default());
        assert!(policy.clusters.allows("any", &None::<&Map<String, Value>>));
    }
}

#[test]
fn set_fields_are_read() {
    let policy = parsed(&of_workspace(
        "p",
        json!({
            "objects": [
                { "group": "apps", "kind": "Deployment", "name": "web", "selector": { "matchLabels": { "a": "b" } } },
                { "group": "", "kind": "Service" },
            ],
            "namespaceSelector": { "matchLabels": { "team": "shop" } },
            "clusters": {
                "selector": { "matchExpressions": [{ "key": "env", "operator": "In", "values": ["prod"] }] },
                "names": ["east", "west"], "exclude": ["old"],
                "affinity": [{ "names": ["east"] }, { "selector": {} }],
                "tolerations": [{ "key": "gpu", "operator": "Exists" }],
            },
            "replicas": {
                "division": "Weighted",
                "weights": [{ "cluster": "east", "weight": 2 }, { "selector": { "matchLabels": { "env": "prod" } }, "weight": 1 }],
            },
            "bounds": { "minClusters": 1, "maxClusters": 3, "minReplicas": 1, "maxReplicas": 10 },
            "spread": [{ "by": "region", "minDomains": 2, "maxDomains": 3, "maxSkew": 1 }, { "by": "example.com/rack", "maxSkew": 2 }],
            "affinity": [{ "kind": "StatefulSet", "selector": { "matchLabels": { "app": "db" } }, "by": "zone" }],
            "antiAffinity": [{ "selector": {} }],
            "failover": { "after": "1m30s", "mode": "Never" },
            "failback": { "after": "0s" },
            "disruption": { "maxMoving": "25%" },
            "rollout": { "strategy": "OneByOne", "deadline": "5m" },
        }),
    ));
    assert_eq!((policy.objects.len(), policy.objects[1].group.as_deref()), (2, Some("")));
    assert_eq!(policy.namespaces.to_string(), "team=shop");
    assert_eq!(policy.replicas.division(), Division::Weighted);
    let bounds = policy.bounds;
    assert_eq!((bounds.min_clusters, bounds.max_clusters), (Some(1), Some(3)));
    assert_eq!((bounds.min_replicas, bounds.max_replicas), (Some(1), Some(10)));
    let spread: Vec<&str> = policy.spread.iter().map(|rule| rule.by.name()).collect();
    assert_eq!(spread, ["region", "example.com/rack"]);
    assert_eq!((policy.spread[0].min_domains, policy.spread[1].min_domains), (Some(2), None));
    assert_eq!(
        (policy.affinity[0].kind.as_deref(), &policy.affinity[0].by),
        (Some("StatefulSet"), &Domain::Zone)
    );
    assert_eq!(
        (policy.anti_affinity[0].kind.as_deref(), &policy.anti_affinity[0].by),
        (None, &Domain::Cluster)
    );
    assert_eq!(policy.failover, Reaction { mode: Mode::Never, after: Duration::from_secs(90) });
    assert_eq!(policy.failback, Reaction { mode: Mode::Automatic, after: Duration::ZERO });
    assert_eq!((policy.max_moving, policy.rollout), (Some(Amount::Percent(25)), Strategy::OneByOne));
    assert_eq!(policy.rollout_deadline, Some(Duration::from_secs(300)));

    let prod = json!({ "env": "prod" });
    let test = json!({ "env": "test" });
    for (name, labels, is_allowed, weight) in [
        ("east", &prod, true, 2),
        ("west", &prod, true, 1),
        ("west", &test, false, 0),
        ("north", &prod, false, 1),
    ] {
        let labels = labels.as_object();
        assert_eq!(policy.clusters.allows(name, &labels), is_allowed, "{name} {labels:?}");
        assert_eq!(policy.replicas.weight(name, &labels), weight, "{name} {labels:?}");
    }
    let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule" });
    assert!(policy.clusters.tolerates(TaintView::of(&taint("gpu"))));
    assert!(!policy.clusters.tolerates(TaintView::of(&taint("dedicated"))));
}

#[test]
fn invalid_fields_are_named() {
    for (spec, expected) in [
        (
            json!({ "namespaceSelector": {} }),
            "spec.namespaceSelector: Forbidden: a PlacementPolicy applies to its own namespace; use a ClusterPlacementPolicy to \
             select namespaces",
        ),
        (
            json!({ "objects": [{ "kind": "Deployment" }, { "name": "a/b" }] }),
            "spec.objects[1].name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            json!({ "objects": [{ "selector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } }] }),
            "spec.objects[0].selector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
        ),
        (json!({ "objects": "all" }), "spec.objects: Invalid value: \"all\": must be a list"),
        (
            json!({ "clusters": { "names": ["east", "east", ""], "exclude": ["east"] } }),
            "spec.clusters.names[1]: Duplicate value: \"east\"\n\
             spec.clusters.names[2]: Required value: must be the name of a cluster\n\
             spec.clusters.exclude[0]: Invalid value: \"east\": is also in clusters.names",
        ),
        (
            json!({ "clusters": { "affinity": [{ "names": ["east"] }, {}] } }),
            "spec.clusters.affinity[1]: Required value: must have a selector or names",
        ),
        (
            json!({ "clusters": { "tolerations": [{ "key": "a", "effect": "No" }, {}, { "key": "a", "operator": "Exists", "value": "b" }] } }),
            "spec.clusters.tolerations[0].effect: Unsupported value: \"No\": supported values: \"NoExecute\", \"NoSchedule\", \
             \"PreferNoSchedule\"\n\
             spec.clusters.tolerations[1].operator: Invalid value: null: operator must be Exists when `key` is empty, which means \
             \"match all values and all keys\"\n\
             spec.clusters.tolerations[2].value: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ),
        (
            json!({ "replicas": { "division": "Half" } }),
            "spec.replicas.division: Unsupported value: \"Half\": supported values: \"Single\", \"Duplicate\", \"Even\", \
             \"Weighted\", \"Capacity\", \"Pack\", \"None\"",
        ),
        (
            json!({ "replicas": { "division": "Weighted" } }),
            "spec.replicas.weights: Required value: the division Weighted needs weights",
        ),
        (
            json!({ "replicas": { "division": "Even", "weights": [{ "cluster": "east", "weight": 1 }] } }),
            "spec.replicas.weights: Forbidden: only the division Weighted has weights",
        ),
        (
            json!({ "replicas": { "division": "Weighted", "weights": [{ "cluster": "east", "weight": 0 }] } }),
            "spec.replicas.weights: Invalid value: [{\"cluster\":\"east\",\"weight\":0}]: at least one weight must be greater than 0",
        ),
        (
            json!({ "replicas": { "division": "Weighted", "weights": [
                { "weight": 1 }, { "cluster": "a" }, { "cluster": "b", "weight": 1 }, { "cluster": "b", "weight": 2 },
            ] } }),
            "spec.replicas.weights[0]: Invalid value: {\"weight\":1}: must have either cluster or selector\n\
             spec.replicas.weights[1].weight: Required value\n\
             spec.replicas.weights[3].cluster: Duplicate value: \"b\"",
        ),
        (
            json!({ "bounds": { "minClusters": 3, "maxClusters": 2, "minReplicas": -1 }, "replicas": { "division": "Even" } }),
            "spec.bounds.minReplicas: Invalid value: -1: must be an integer between 0 and 1000000\n\
             spec.bounds.minClusters: Invalid value: 3: must not be greater than maxClusters, which is 2",
        ),
        (
            json!({ "bounds": { "minClusters": 2 }, "replicas": { "division": "Single" } }),
            "spec.bounds.minClusters: Invalid value: 2: the division Single uses one cluster",
        ),
        (
            json!({ "spread": [{ "by": "zone", "minDomains": 2 }] }),
            "spec.spread[0].minDomains: Invalid value: 2: without a division an object runs on one cluster; set replicas.division",
        ),
        (
            json!({ "spread": [{ "maxSkew": 1 }, { "by": "zone" }, { "by": "zone", "maxSkew": 0 }] }),
            "spec.spread[0].by: Required value: must be region, zone, provider or the key of a label\n\
             spec.spread[1]: Required value: must have minDomains, maxDomains or maxSkew\n\
             spec.spread[2].by: Duplicate value: \"zone\"\n\
             spec.spread[2].maxSkew: Invalid value: 0: must be an integer between 1 and 1000000",
        ),
        (
            json!({ "antiAffinity": [{ "kind": "Job" }] }),
            "spec.antiAffinity[0].selector: Required value: must select the other workloads; {} selects all of the namespace",
        ),
        (
            json!({ "failover": { "after": "soon", "mode": "Always" }, "failback": { "after": "-1s" } }),
            "spec.failover.after: Invalid value: \"soon\": must be a duration such as 15s or 5m: time: invalid duration \"soon\"\n\
             spec.failover.mode: Unsupported value: \"Always\": supported values: \"Automatic\", \"Never\"\n\
             spec.failback.after: Invalid value: \"-1s\": must be between 0s and 720h",
        ),
        (
            json!({ "disruption": { "maxMoving": "25" }, "rollout": { "strategy": "Slow", "deadline": "5" } }),
            "spec.disruption.maxMoving: Invalid value: \"25\": must be an integer or a percentage such as 25%\n\
             spec.rollout.strategy: Unsupported value: \"Slow\": supported values: \"AllAtOnce\", \"OneByOne\"\n\
             spec.rollout.deadline: Invalid value: \"5\": must be a duration such as 15s or 5m: time: missing unit in duration \"5\"",
        ),
    ] {
        let errors = Policy::parse(&of_namespace("p", spec.clone())).expect_err(&spec.to_string());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.join("\n"), expected, "{spec}");
    }
}

#[test]
fn long_lists_are_refused() {
    let names: Vec<String> = (0..1001).map(|number| format!("c{number}")).collect();
    let errors =
        Policy::parse(&of_namespace("p", json!({ "clusters": { "names": names } }))).expect_err("too long");
    assert_eq!(errors.iter().map(FieldError::field).collect::<Vec<_>>(), ["spec.clusters.names"]);
}

#[test]
fn percentages_are_rounded_up() {
    for (amount, whole, expected) in [
        (Amount::Number(2), 10, 2),
        (Amount::Percent(25), 10, 3),
        (Amount::Percent(25), 0, 0),
        (Amount::Percent(0), 10, 0),
        (Amount::Percent(100), i64::MAX, i64::MAX),
        (Amount::Percent(1), 1, 1),
    ] {
        assert_eq!(amount.of(whole), expected, "{amount:?} of {whole}");
    }
}

#[test]
fn domains_are_read_from_labels_and_status() {
    let reported = json!({ "region": "eu", "zones": ["a", "b"] });
    let labels = json!({
        "topology.kubernetes.io/region": "us", "topology.kubernetes.io/zone": "us-1", "atoll.dev/provider": "aws", "rack": "7",
    });
    let (labelled, reporting) = (cluster("x", labels, reported.clone()), cluster("y", json!({}), reported));
    let bare = cluster("z", json!({}), json!({ "zones": ["only"] }));
    for (by, expected) in [
        ("cluster", [Some("x"), Some("y"), Some("z")]),
        ("region", [Some("us"), Some("eu"), None]),
        ("zone", [Some("us-1"), Some("a+b"), Some("only")]),
        ("provider", [Some("aws"), None, None]),
        ("rack", [Some("7"), None, None]),
    ] {
        let domain = Domain::parse(by);
        let found = [&labelled, &reporting, &bare].map(|cluster| domain.of(cluster));
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{by}");
        assert_eq!(domain.name(), by);
    }
}
