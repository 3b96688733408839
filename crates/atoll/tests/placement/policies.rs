//! PlacementPolicies and ClusterPlacementPolicies as objects: validation, status, columns, explain and rights.

use atoll_testkit::{Atoll, Client, Kubectl, Setup};
use serde_json::{Value, json};

pub const OF_NAMESPACE: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
pub const OF_WORKSPACE: &str = "/apis/atoll.dev/v1alpha1/clusterplacementpolicies";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub fn policy(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Binds a ClusterRole to a user in the whole workspace.
pub async fn bind(admin: &Client, user: &str, role: &str) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": { "name": format!("{user}-{role}") },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
    });
    admin.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

/// Creates a ClusterRole.
pub async fn create_role(admin: &Client, name: &str, rules: Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    admin.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
}

#[tokio::test]
async fn invalid_policies_are_refused_with_the_field() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let weights = |weights: Value| json!({ "replicas": { "division": "Weighted", "weights": weights } });
    for (path, spec, fields) in [
        (OF_NAMESPACE, json!({ "replicas": { "division": "Half" } }), vec!["spec.replicas.division"]),
        (OF_WORKSPACE, json!({ "replicas": { "division": "Half" } }), vec!["spec.replicas.division"]),
        (OF_NAMESPACE, json!({ "clusters": { "names": ["East"] } }), vec!["spec.clusters.names[0]"]),
        (
            OF_NAMESPACE,
            json!({ "bounds": { "minClusters": 0, "maxReplicas": "many" } }),
            vec!["spec.bounds.maxReplicas", "spec.bounds.minClusters"],
        ),
        (OF_WORKSPACE, weights(json!([])), vec!["spec.replicas.weights"]),
        (OF_WORKSPACE, weights(json!([{ "cluster": "east" }])), vec!["spec.replicas.weights[0].weight"]),
        (OF_WORKSPACE, json!({ "spread": [{ "by": "region" }] }), vec!["spec.spread[0]"]),
        (OF_WORKSPACE, json!({ "failover": { "after": "soon" } }), vec!["spec.failover.after"]),
        (OF_WORKSPACE, json!({ "disruption": { "maxMoving": "most" } }), vec!["spec.disruption.maxMoving"]),
        (
            OF_WORKSPACE,
            json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } }),
            vec!["spec.namespaceSelector.matchExpressions[0].operator"],
        ),
    ] {
        let refused = admin.post(path, policy("bad", spec.clone())).await;
        refused.expect_status(422, "Invalid");
        let causes = refused.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut found: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, fields, "{spec}: {causes:?}");
    }
    // A PlacementPolicy selects no namespaces, and fields that policies do not have are refused by name.
    let selecting = policy("bad", json!({ "namespaceSelector": {} }));
    let strict = format!("{OF_NAMESPACE}?fieldValidation=Strict");
    let message = admin.post(&strict, selecting).await.expect_status(400, "BadRequest");
    assert!(message.contains("unknown field \"spec.namespaceSelector\""), "{message}");
    assert_eq!(admin.get(OF_NAMESPACE).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn policies_have_a_generation_and_a_status() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for collection in [OF_NAMESPACE, OF_WORKSPACE] {
        let mut given = policy("spread", json!({ "replicas": { "division": "Even" } }));
        given["status"] = json!({ "matched": 7 });
        let created = admin.post(collection, given).await.expect(201);
        assert_eq!((&created["metadata"]["generation"], created["status"].get("matched")), (&json!(1), None));
        let path = format!("{collection}/spread");
        let status = json!({
            "observedGeneration": 1, "matched": 2, "placed": 1,
            "conditions": [{ "type": "Matched", "status": "True", "reason": "Objects", "message": "" }],
        });
        let patch = json!({ "spec": { "replicas": { "division": "Pack" } }, "status": status });
        let counted = admin.merge(&format!("{path}/status"), patch).await.expect(200);
        assert_eq!((&counted["status"], &counted["spec"]["replicas"]["division"]), (&status, &json!("Even")));
        assert_eq!(counted["metadata"]["generation"], 1);
        let patch = json!({ "spec": { "replicas": { "division": "Pack" } }, "status": null });
        let changed = admin.merge(&path, patch).await.expect(200);
        assert_eq!((&changed["metadata"]["generation"], &changed["status"]), (&json!(2), &status));
        // Policies stay in the control plane.
        admin.get(&format!("{path}/placement")).await.expect_status(404, "NotFound");
    }
}

#[tokio::test]
async fn kubectl_applies_explains_and_prints_policies() {
    let atoll = Atoll::start_bare();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let manifest = "\
apiVersion: atoll.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: web
  namespace: default
spec:
  objects: [{kind: Deployment, selector: {matchLabels: {app: web}}}]
  clusters: {names: [east, west], exclude: [old]}
  replicas: {division: Even}
---
apiVersion: atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata:
  name: all
spec:
  namespaceSelector: {matchLabels: {team: a}}
";
    for outcome in ["created", "unchanged"] {
        let applied = kubectl.run_with_input("apply -f -", manifest);
        let printed = String::from_utf8_lossy(&applied.stdout).into_owned();
        assert!(printed.contains(&format!("placementpolicy.atoll.dev/web {outcome}")), "{applied:?}");
        assert!(printed.contains(&format!("clusterplacementpolicy.atoll.dev/all {outcome}")), "{applied:?}");
    }
    let status = json!({ "status": { "matched": 2, "placed": 1 } });
    atoll.admin().merge(&format!("{OF_NAMESPACE}/web/status"), status).await.expect(200);
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let table = kubectl.run("get pp");
    let lines: Vec<Vec<String>> = table.lines().map(words).collect();
    assert_eq!(lines[0], ["NAME", "DIVISION", "CLUSTERS", "MATCHED", "PLACED", "AGE"]);
    assert_eq!(lines[1][..5], ["web", "Even", "east,west,!old", "2", "1"]);
    let table = kubectl.run("get clusterplacementpolicies -o wide");
    let lines: Vec<Vec<String>> = table.lines().map(words).collect();
    assert_eq!(lines[0].last().map(String::as_str), Some("FAILOVER"));
    assert_eq!(lines[1][..5], ["all", "Single", "<all>", "<unknown>", "<unknown>"]);
    for (path, expected) in [
        ("pp", "on which clusters objects of its namespace run"),
        ("pp.spec.replicas.division", "ENUM: Single Duplicate Even Weighted Capacity Pack None"),
        ("cpp.spec.namespaceSelector.matchLabels", "Labels and their values."),
        ("pp.spec.failover.after", "Defaults to 15s."),
        ("pp.status.placed", "<integer>"),
    ] {
        let printed = kubectl.run(&format!("explain {path}"));
        let printed = words(&printed).join(" ");
        assert!(printed.contains(expected), "{path}: {printed}");
    }
    assert!(!kubectl.run("explain pp.spec").contains("namespaceSelector"));
    let refused = kubectl.run_with_input("apply -f -", &manifest.replace("Even", "Half"));
    assert!(!refused.status.success(), "{refused:?}");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("spec.replicas.division: Unsupported value: \"Half\""), "{message}");
}

#[tokio::test]
async fn viewers_read_policies_and_administrators_of_namespaces_write_them() {
    let atoll = Setup::new().tokens("vera,vera,1\nedda,edda,2\nadam,adam,3\n").start();
    let admin = atoll.admin();
    for (user, role) in [("vera", "view"), ("edda", "edit"), ("adam", "admin")] {
        bind(&admin, user, role).await;
    }
    admin.post(OF_WORKSPACE, policy("all", json!({}))).await.expect(201);
    for (user, may_write) in [("vera", false), ("edda", false), ("adam", true)] {
        let client = admin.token(user);
        client.get(OF_NAMESPACE).await.expect(200);
        client.get(&format!("{OF_WORKSPACE}/all")).await.expect(200);
        let created = client.post(OF_NAMESPACE, policy(user, json!({}))).await;
        match may_write {
            true => drop(created.expect(201)),
            false => drop(created.expect_status(403, "Forbidden")),
        }
        // Those of the workspace belong to its administrators.
        client.post(OF_WORKSPACE, policy(user, json!({}))).await.expect_status(403, "Forbidden");
    }
}
