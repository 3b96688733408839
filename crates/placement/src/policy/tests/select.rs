use serde_json::json;

use super::super::*;
use super::{of_namespace, of_workspace, parsed};

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "shop", "labels": { "app": "web" } },
    })
}

fn shop() -> Value {
    json!({ "metadata": { "name": "shop", "labels": { "team": "a" } } })
}

#[test]
fn policies_match_by_group_kind_name_labels_and_namespace() {
    let (web, namespace) = (deployment("web"), shop());
    let service =
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" } });
    let class =
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "fast" } });
    let other = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "other" } });
    for (policy, matches_web, matches_service, matches_class, matches_other) in [
        (of_namespace("p", json!({})), true, false, false, false),
        (of_workspace("p", json!({})), true, false, false, true),
        (of_workspace("p", json!({ "objects": [{}] })), true, false, false, true),
        (of_workspace("p", json!({ "objects": [{ "name": "web" }] })), true, false, false, true),
        (of_workspace("p", json!({ "objects": [{ "kind": "Service" }] })), false, true, false, false),
        (
            of_workspace("p", json!({ "objects": [{ "group": "", "kind": "Service" }] })),
            false,
            true,
            false,
            false,
        ),
        (
            of_workspace("p", json!({ "objects": [{ "group": "apps", "kind": "Service" }] })),
            false,
            false,
            false,
            false,
        ),
        (of_workspace("p", json!({ "objects": [{ "group": "apps" }] })), true, false, false, true),
        (of_workspace("p", json!({ "objects": [{ "kind": "StorageClass" }] })), false, false, true, false),
        (
            of_workspace(
                "p",
                json!({ "objects": [{ "kind": "StorageClass" }], "namespaceSelector": { "matchLabels": { "team": "a" } } }),
            ),
            false,
            false,
            false,
            false,
        ),
        (
            of_workspace("p", json!({ "namespaceSelector": { "matchLabels": { "team": "a" } } })),
            true,
            false,
            false,
            false,
        ),
        (
            of_workspace("p", json!({ "namespaceSelector": { "matchLabels": { "team": "b" } } })),
            false,
            false,
            false,
            false,
        ),
        (
            of_workspace("p", json!({ "objects": [{ "selector": { "matchLabels": { "app": "web" } } }] })),
            true,
            false,
            false,
            false,
        ),
        (
            of_namespace(
                "p",
                json!({ "objects": [{ "kind": "Job" }, { "kind": "Deployment", "name": "web" }] }),
            ),
            true,
            false,
            false,
            false,
        ),
        (
            of_namespace("p", json!({ "objects": [{ "kind": "Deployment", "name": "db" }] })),
            false,
            false,
            false,
            false,
        ),
    ] {
        let policy = parsed(&policy);
        let matches = |object: &Value, namespace| policy.matches(&PolicyTarget::of(object, namespace));
        let found = (
            matches(&web, Some(&namespace)),
            matches(&service, Some(&namespace)),
            matches(&class, None),
            matches(&other, None),
        );
        assert_eq!(found, (matches_web, matches_service, matches_class, matches_other), "{policy:?}");
    }
}

#[test]
fn a_rule_may_be_about_all_custom_kinds() {
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a", "namespace": "shop" } });
    let target = PolicyTarget { is_custom: true, ..PolicyTarget::of(&widget, None) };
    for (objects, expected) in [
        (json!([]), None),
        (json!([{ "kind": "*" }]), Some(false)),
        (json!([{ "kind": "*", "group": "example.com" }]), Some(false)),
        (json!([{ "kind": "*", "group": "example.org" }]), None),
        (json!([{ "kind": "*" }, { "kind": "Widget" }]), Some(true)),
    ] {
        let policy = parsed(&of_workspace("p", json!({ "objects": objects })));
        let found = policy.specificity(&target).map(|fit| fit.has_kind);
        assert_eq!(found, expected, "{objects}");
    }
    let policy = parsed(&of_workspace("p", json!({ "objects": [{ "kind": "*" }] })));
    let service =
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a", "namespace": "shop" } });
    for object in [&service, &deployment("web")] {
        assert!(!policy.matches(&PolicyTarget::of(object, None)), "{object}");
    }
}

#[test]
fn policies_of_namespaces_apply_only_there() {
    let web = deployment("web");
    let mut inherited = parsed(&of_namespace("p", json!({})));
    inherited.distance = 1;
    assert!(
        !inherited.matches(&PolicyTarget::of(&web, None)),
        "a namespace of a parent has only the same name"
    );
}

/// The most specific policy wins; each row is the loser of the next one.
#[test]
fn most_specific_policy_wins() {
    let team = json!({ "matchLabels": { "team": "a" } });
    let app = json!({ "matchLabels": { "app": "web" } });
    let inherited = |name: &str, distance: usize| {
        let spec = json!({ "objects": [{ "kind": "Deployment", "name": "web", "selector": app }], "namespaceSelector": team });
        Policy { distance, ..parsed(&of_workspace(name, spec)) }
    };
    let workspace = |name: &str, spec: Value| parsed(&of_workspace(name, spec));
    let namespace = |name: &str, spec: Value| parsed(&of_namespace(name, spec));
    let ranked = [
        (inherited("z-grandparent", 2), Loss::OfParent),
        (inherited("z-parent", 1), Loss::OfParent),
        (workspace("z-all", json!({})), Loss::NoNamespaceSelector),
        (workspace("y-team", json!({ "namespaceSelector": team })), Loss::NoKind),
        (workspace("x-kind", json!({ "objects": [{ "kind": "Deployment" }] })), Loss::NoSelector),
        (workspace("w-labels", json!({ "objects": [{ "selector": app }] })), Loss::NoKind),
        (
            workspace("v-labels-of-kind", json!({ "objects": [{ "kind": "Deployment", "selector": app }] })),
            Loss::NoName,
        ),
        (
            workspace("u-name", json!({ "objects": [{ "kind": "Job" }, { "name": "web" }] })),
            Loss::OfWorkspace,
        ),
        (namespace("t-all", json!({})), Loss::NoKind),
        (namespace("s-kind", json!({ "objects": [{ "kind": "Deployment" }] })), Loss::NoName),
        (namespace("r-name", json!({ "objects": [{ "kind": "Deployment", "name": "web" }] })), Loss::NoName),
    ];
    let (web, shop) = (deployment("web"), shop());
    let target = PolicyTarget::of(&web, Some(&shop));
    for pair in ranked.windows(2) {
        let [(loser, loss), (winner, _)] = pair else { panic!("pairs") };
        for policies in [[loser, winner], [winner, loser]] {
            let selection = select(policies, &target);
            assert_eq!(selection.winner, Some(winner));
            assert_eq!(selection.losers, [Loser { policy: loser, loss: *loss }], "{}", loser.name);
        }
    }
    let all = select(ranked.iter().map(|(policy, _)| policy), &target);
    let order: Vec<&str> = all.losers.iter().map(|loser| loser.policy.name.as_str()).collect();
    let expected: Vec<&str> = ranked.iter().rev().skip(1).map(|(policy, _)| policy.name.as_str()).collect();
    assert_eq!(order, expected);
}

#[test]
fn ties_are_decided_by_age_then_name() {
    let policy = |name: &str, created: &str| Policy {
        created: created.into(),
        ..parsed(&of_namespace(name, json!({})))
    };
    let (old, new) = ("2026-11-16T12:00:00Z", "2026-11-17T09:00:00Z");
    let web = deployment("web");
    let target = PolicyTarget::of(&web, None);
    for (winner, loser, why) in [
        (
            policy("z", old),
            policy("a", new),
            "placementpolicy/a: as specific as placementpolicy/z, which is older",
        ),
        (
            policy("a", old),
            policy("b", old),
            "placementpolicy/b: as specific as placementpolicy/a and as old, which comes first by name",
        ),
    ] {
        let selection = select([&loser, &winner], &target);
        assert_eq!(selection.winner, Some(&winner));
        assert_eq!(selection.losers[0].why(&winner), why);
    }
}

#[test]
fn without_a_match_there_is_no_winner() {
    let policy = parsed(&of_namespace("p", json!({ "objects": [{ "kind": "Job" }] })));
    let web = deployment("web");
    assert_eq!(select([&policy], &PolicyTarget::of(&web, None)), PolicySelection::default());
}
