//! Placement by policies of a namespace, a workspace and the workspaces above.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotated, deployment, expect_placed, path, scale, wait_until, with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
const CLUSTER_POLICIES: &str = "/apis/atoll.dev/v1alpha1/clusterplacementpolicies";

fn policy(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

async fn create(admin: &Client, name: &str, spec: Value) {
    admin.post(POLICIES, policy("PlacementPolicy", name, spec)).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_divided_as_the_policy_says() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 16), ("north", 16)]).await;
    create(&admin, "spread", json!({ "replicas": { "division": "Even" } })).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 6, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=2 north=2 west=2 by placementpolicy/spread").await;
    scale(&admin, &web, 9).await;
    expect_placed(&admin, &web, "east=3 north=3 west=3 by placementpolicy/spread").await;
    let weights = json!([{ "cluster": "east", "weight": 3 }, { "cluster": "west", "weight": 1 }]);
    let weighted = json!({ "spec": { "replicas": { "division": "Weighted", "weights": weights } } });
    admin.merge(&format!("{POLICIES}/spread"), weighted).await.expect(200);
    scale(&admin, &web, 8).await;
    expect_placed(&admin, &web, "east=6 west=2 by placementpolicy/spread").await;
    // An annotation has precedence over the policy.
    admin.post(DEPLOYMENTS, annotated(deployment("own", 2, 100), "west=1,east=1")).await.expect(201);
    expect_placed(&admin, &path("own"), "east=1 west=1 by annotation").await;
    // Without the policy, it is placed by default again.
    admin.delete(&format!("{POLICIES}/spread")).await.expect(200);
    wait_until(&admin, &web, "it is placed by default", |web| {
        atoll_fleet::Placement::of(web).by == "default" && atoll_fleet::Placement::of(web).clusters.len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_differ_by_no_more_than_the_skew() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 16)]).await;
    let weights = json!([{ "cluster": "east", "weight": 3 }, { "cluster": "west", "weight": 1 }]);
    let replicas = json!({ "division": "Weighted", "weights": weights });
    create(&admin, "spread", json!({ "replicas": replicas, "spread": [{ "by": "cluster", "maxSkew": 2 }] }))
        .await;
    admin.post(DEPLOYMENTS, deployment("web", 8, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "east=4 west=4 by placementpolicy/spread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn most_specific_policy_wins() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 16)]).await;
    let on = |name: &str| json!({ "clusters": { "names": [name] } });
    admin.post(CLUSTER_POLICIES, policy("ClusterPlacementPolicy", "all", on("west"))).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "west=2 by clusterplacementpolicy/all").await;
    // A policy of the namespace moves it.
    create(&admin, "own", on("east")).await;
    expect_placed(&admin, &path("web"), "east=2 by placementpolicy/own").await;
    // Policies of a workspace are inherited.
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", team).await.expect(201);
    wait_until(&admin, "/apis/atoll.dev/v1alpha1/workspaces/team", "the workspace is ready", |team| {
        team["status"]["phase"] == "Ready"
    })
    .await;
    let team = admin.workspace("root:team");
    team.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&team, &path("web"), "west=2 by clusterplacementpolicy/all").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_policy_counts_its_objects() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 16)]).await;
    let selector = json!({ "matchLabels": { "app": "web" } });
    create(
        &admin,
        "spread",
        json!({ "objects": [{ "selector": selector }], "replicas": { "division": "Even" } }),
    )
    .await;
    let at = format!("{POLICIES}/spread");
    let is_counted = |matched: i64| move |policy: &Value| policy["status"]["matched"] == matched;
    wait_until(&admin, &at, "it says that it matches nothing", |policy| {
        policy["status"]["conditions"][0]["status"] == "False"
    })
    .await;
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("other", 2, 100)).await.expect(201);
    wait_until(&admin, &at, "it counts the object", is_counted(1)).await;
    admin.delete(&path("web")).await;
    wait_until(&admin, &at, "the object is gone", is_counted(0)).await;
}
