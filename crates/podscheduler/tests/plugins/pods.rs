//! Tests of topology spreading, pod affinity and pod anti-affinity.

use serde_json::{Value, json};

use super::{TestCluster, check};

fn zones() -> TestCluster {
    let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    TestCluster::of(&[("a1", zone("a")), ("a2", zone("a")), ("b1", zone("b")), ("none", json!({}))])
}

fn app(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}})
}

fn with(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

fn rule(special: Value) -> Value {
    let mut rule = json!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    super::merge(&mut rule, &special);
    with(json!({"topologySpreadConstraints": [rule]}))
}

#[test]
fn hard_spread_constraints() {
    let one = &[("a1", app("web"))][..];
    let two = &[("a1", app("web")), ("b1", app("web"))][..];
    let leaving = &[(
        "a1",
        json!({"metadata": {"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    )][..];
    let elsewhere = &[("a1", json!({"metadata": {"labels": {"app": "web"}, "namespace": "other"}}))][..];
    check(
        zones,
        &[
            (&[], rule(json!({})), Ok("a1 a2 b1")),
            (one, rule(json!({})), Ok("b1")),
            (two, rule(json!({})), Ok("a1 a2 b1")),
            (leaving, rule(json!({})), Ok("a1 a2 b1")),
            (elsewhere, rule(json!({})), Ok("a1 a2 b1")),
            (one, rule(json!({"maxSkew": 2})), Ok("a1 a2 b1")),
            (one, rule(json!({"whenUnsatisfiable": "ScheduleAnyway"})), Ok("a1 a2 b1 none")),
            (one, rule(json!({"labelSelector": {"matchLabels": {"app": "other"}}})), Ok("a1 a2 b1")),
            // With fewer zones than minDomains, the minimum is zero.
            (
                two,
                rule(json!({"minDomains": 3})),
                Err("1 node(s) didn't match pod topology spread constraints (missing required label), \
             3 node(s) didn't match pod topology spread constraints."),
            ),
            (one, rule(json!({"topologyKey": "kubernetes.io/hostname"})), Ok("a2 b1 none")),
        ],
    );
    // Zones excluded by node affinity are not counted, unless the policy is Ignore.
    let selecting = |policy: &str| {
        let mut pod = rule(json!({"nodeAffinityPolicy": policy}));
        pod["spec"]["nodeSelector"] = json!({"zone": "a"});
        pod
    };
    check(
        zones,
        &[
            (one, selecting("Honor"), Ok("a1 a2")),
            (
                one,
                selecting("Ignore"),
                Err(
                    "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod topology spread constraints.",
                ),
            ),
        ],
    );
}

#[test]
fn match_label_keys_restrict_the_selector() {
    let version = |version: &str| json!({"metadata": {"labels": {"app": "web", "version": version}}});
    let mut pod = rule(json!({"matchLabelKeys": ["version", "missing"]}));
    pod["metadata"]["labels"]["version"] = "2".into();
    check(
        zones,
        &[(&[("a1", version("1"))], pod.clone(), Ok("a1 a2 b1")), (&[("a1", version("2"))], pod, Ok("b1"))],
    );
}

fn affinity(kind: &str, special: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}});
    super::merge(&mut term, &special);
    with(json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
}

#[test]
fn required_pod_affinity() {
    let near = |special| affinity("podAffinity", special);
    let nowhere = Err("4 node(s) didn't match pod affinity rules.");
    let elsewhere = json!({"metadata": {"labels": {"app": "db"}, "namespace": "other"}});
    check(
        zones,
        &[
            (&[], near(json!({})), nowhere),
            (&[("a1", app("db"))], near(json!({})), Ok("a1 a2")),
            (&[("none", app("db"))], near(json!({})), nowhere),
            (&[("a1", elsewhere.clone())], near(json!({})), nowhere),
            (&[("a1", elsewhere.clone())], near(json!({"namespaces": ["other"]})), Ok("a1 a2")),
            (&[("a1", elsewhere.clone())], near(json!({"namespaceSelector": {}})), Ok("a1 a2")),
            (
                &[("a1", elsewhere.clone())],
                near(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}})),
                nowhere,
            ),
            // The first Pod of a group may go to any node with the label.
            (&[], near(json!({"labelSelector": {"matchLabels": {"app": "web"}}})), Ok("a1 a2 b1")),
            (
                &[("b1", app("web"))],
                near(json!({"labelSelector": {"matchLabels": {"app": "web"}}})),
                Ok("b1"),
            ),
        ],
    );
    let labelled = || {
        let mut cluster = zones();
        cluster.node_index.set_namespace(&json!({"metadata": {"name": "other", "labels": {"team": "x"}}}));
        cluster
    };
    check(
        labelled,
        &[(
            &[("a1", elsewhere)],
            near(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}})),
            Ok("a1 a2"),
        )],
    );
}

#[test]
fn namespace_labels_may_change() {
    let mut cluster = zones();
    cluster.place("a1", &json!({"metadata": {"labels": {"app": "db"}, "namespace": "other"}}));
    let near = affinity("podAffinity", json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}));
    assert!(cluster.nodes_for(&near).is_err());
    cluster.node_index.set_namespace(&json!({"metadata": {"name": "other", "labels": {"team": "x"}}}));
    assert_eq!(cluster.nodes_for(&near), Ok("a1 a2".to_owned()));
    cluster.node_index.remove_namespace("other");
    assert!(cluster.nodes_for(&near).is_err());
}

#[test]
fn required_pod_anti_affinity() {
    let apart = |special| affinity("podAntiAffinity", special);
    let mut hostile = apart(json!({"labelSelector": {"matchLabels": {"app": "web"}}}));
    hostile["metadata"]["labels"]["app"] = "db".into();
    let everywhere: Vec<_> = ["a1", "b1", "none"].map(|node| (node, app("db"))).into();
    let rejected: Vec<_> = ["a1", "b1"].map(|node| (node, hostile.clone())).into();
    check(
        zones,
        &[
            (&[], apart(json!({})), Ok("a1 a2 b1 none")),
            (&[("a1", app("db"))], apart(json!({})), Ok("b1 none")),
            (&[("a1", app("db"))], apart(json!({"topologyKey": "kubernetes.io/hostname"})), Ok("a2 b1 none")),
            (&everywhere, apart(json!({"topologyKey": "kubernetes.io/hostname"})), Ok("a2")),
            (&[("a1", hostile.clone())], app("web"), Ok("b1 none")),
            (&[("a1", hostile.clone())], app("other"), Ok("a1 a2 b1 none")),
            (
                &rejected,
                with(json!({"nodeSelector": {"zone": "a"}})),
                Err(
                    "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't satisfy existing pods anti-affinity rules.",
                ),
            ),
            (
                &[("a1", app("db")), ("b1", app("db"))],
                {
                    let mut pod = apart(json!({}));
                    pod["spec"]["nodeSelector"] = json!({"zone": "b"});
                    pod
                },
                Err(
                    "1 node(s) didn't match pod anti-affinity rules, 3 node(s) didn't match Pod's node affinity/selector.",
                ),
            ),
        ],
    );
}

#[test]
fn affinity_terms_are_removed_with_their_pods() {
    let mut cluster = zones();
    let mut hostile = affinity("podAntiAffinity", json!({"labelSelector": {"matchLabels": {"app": "web"}}}));
    hostile["metadata"]["labels"]["app"] = "db".into();
    let pod = cluster.place("a1", &hostile);
    assert_eq!(cluster.nodes_for(&app("web")), Ok("b1 none".to_owned()));
    cluster.node_index.remove_pod(pod.namespace(), &pod.name);
    assert_eq!(cluster.nodes_for(&app("web")), Ok("a1 a2 b1 none".to_owned()));
}
