//! Validation of definitions and of their objects, in workspaces as in root.

use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::{DEFINITIONS, definition, free, object};

/// Creates a workspace below root.
async fn team(atoll: &Atoll) -> Client {
    let workspace = json!({ "metadata": { "name": "team" } });
    atoll.admin().post("/apis/atoll.dev/v1alpha1/workspaces", workspace).await.expect(201);
    atoll.admin().workspace("root:team")
}

/// Upstream's rule for groups of Kubernetes holds in workspaces, too.
#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_groups_need_the_approval_annotation() {
    let atoll = Atoll::start_bare();
    let team = team(&atoll).await;
    let mut widgets = definition("widgets", "Widget", "Cluster", json!([free("v1", true)]));
    widgets["metadata"]["name"] = "widgets.example.k8s.io".into();
    widgets["spec"]["group"] = "example.k8s.io".into();
    let message = team.post(DEFINITIONS, widgets.clone()).await.expect_status(422, "Invalid");
    assert!(message.contains("protected groups must have approval annotation"), "{message}");
    let approved = json!({ "api-approved.kubernetes.io": "https://example.com/approved" });
    widgets["metadata"]["annotations"] = approved;
    team.post(DEFINITIONS, widgets).await.expect(201);
}

/// A pattern that is large to compile, but within the limit.
#[tokio::test(flavor = "multi_thread")]
async fn large_patterns_within_the_limit_are_enforced() {
    let atoll = Atoll::start_bare();
    let team = team(&atoll).await;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "name": { "type": "string", "pattern": r"^(\pL{40}){5}1$" },
    } } } });
    let version =
        json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }]);
    team.post(DEFINITIONS, definition("names", "Name", "Namespaced", version)).await.expect(201);
    let path = "/apis/example.com/v1/namespaces/default/names";
    let named = |name: &str, value: String| -> Value { object("v1", "Name", name, json!({ "name": value })) };
    team.post(path, named("good", format!("{}1", "é".repeat(200)))).await.expect(201);
    let message = team.post(path, named("bad", "é".repeat(200))).await.expect_status(422, "Invalid");
    assert!(message.contains("spec.name in body should match"), "{message}");
}
