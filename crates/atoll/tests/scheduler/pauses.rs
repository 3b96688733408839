//! Pauses: shares follow the number of replicas, and no cluster enters or leaves.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotate, annotated, deployment, expect_placed, has_event, path, report_all_pods,
    report_pods, scale, summary, with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";

fn policy(spec: Value) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" }, "spec": spec,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_of_present_clusters_follow_the_replicas() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &web, "east=2 by annotation").await;
    report_all_pods(&admin, &web, "east", 2).await;
    atoll.run("pause --reason maintenance");
    annotate(&admin, &web, Some("west")).await;
    eventually("an event tells about the pause", async || has_event(&admin, "web", "Paused").await).await;
    scale(&admin, &web, 5).await;
    expect_placed(&admin, &web, "east=5 by annotation").await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "east=5 by annotation");
    report_all_pods(&admin, &web, "east", 5).await;
    atoll.run("resume");
    expect_placed(&admin, &web, "east=5 west=5 by annotation").await;
    report_pods(&admin, &web, "west", 5).await;
    expect_placed(&admin, &web, "west=5 by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_replica_moves_while_rules_change() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("north", 8), ("west", 8)]).await;
    let clusters = json!({ "names": ["east", "west"] });
    let even = policy(json!({ "clusters": clusters, "replicas": { "division": "Even" } }));
    admin.post(POLICIES, even).await.expect(201);
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 4, 100)).await.expect(201);
    let by = "by placementpolicy/spread";
    expect_placed(&admin, &web, &format!("east=2 west=2 {by}")).await;
    for cluster in ["east", "west"] {
        report_pods(&admin, &web, cluster, 2).await;
    }
    atoll.run("pause --reason maintenance");
    // Other weights move replicas, and other clusters move all of them.
    let weights = json!([{ "cluster": "east", "weight": 3 }, { "cluster": "west", "weight": 1 }]);
    let weighted = json!({ "spec": { "replicas": { "division": "Weighted", "weights": weights } } });
    admin.merge(&format!("{POLICIES}/spread"), weighted).await.expect(200);
    eventually("an event tells about the pause", async || has_event(&admin, "web", "Paused").await).await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), format!("east=2 west=2 {by}"));
    let only_north = json!({ "spec": { "clusters": { "names": ["north"] }, "replicas": { "division": "Single", "weights": null } } });
    admin.merge(&format!("{POLICIES}/spread"), only_north).await.expect(200);
    scale(&admin, &web, 6).await;
    expect_placed(&admin, &web, &format!("east=3 west=3 {by}")).await;
    let explained = atoll.run("explain deploy/web");
    assert!(explained.contains("workspace root is paused by "), "{explained}");
    assert!(explained.contains("maintenance; resume with: atoll resume"), "{explained}");
    atoll.run("resume");
    expect_placed(&admin, &web, &format!("east=2 north=6 west=2 {by}")).await;
    assert!(!atoll.run("explain deploy/web").contains("is paused by"));
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_on_a_paused_cluster_follow_the_replicas() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    admin.post(POLICIES, policy(json!({ "replicas": { "division": "Even" } }))).await.expect(201);
    let (web, by) = (path("web"), "by placementpolicy/spread");
    admin.post(DEPLOYMENTS, deployment("web", 4, 100)).await.expect(201);
    expect_placed(&admin, &web, &format!("east=2 west=2 {by}")).await;
    for cluster in ["east", "west"] {
        report_pods(&admin, &web, cluster, 2).await;
    }
    atoll.run("pause --cluster west");
    let paused = json!({ "spec": { "unschedulable": true } });
    admin.merge(&format!("{CLUSTERS}/east"), paused).await.expect(200);
    // East is closed, and nothing moves to west: only more replicas go there.
    scale(&admin, &web, 7).await;
    expect_placed(&admin, &web, &format!("east=2 west=5 {by}")).await;
    assert!(
        atoll.run("explain deploy/web").contains("is paused; resume it with: atoll resume --cluster west")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_during_a_pause_say_that_nothing_moves() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east=1,west=1")).await.expect(201);
    expect_placed(&admin, &web, "east=1 west=1 by annotation").await;
    let scaled = ["what-if deploy/web --replicas 3", "what-if deploy/web --replicas 1000"];
    let questions =
        [&scaled[..], &["what-if drain east", "what-if lose west", "cluster drain east --dry-run"]];
    for question in questions.concat() {
        assert!(!atoll.run(question).contains("paused"), "{question}");
    }
    atoll.run("pause --reason maintenance");
    for question in questions.concat() {
        let told = atoll.run(question);
        assert!(told.starts_with("Nothing moves now: workspace root is paused by "), "{question}: {told}");
        assert!(told.contains(": maintenance; resume with: atoll resume"), "{question}: {told}");
        assert!(told.ends_with("Nothing was changed.\n"), "{question}: {told}");
    }
    let answer: Value = serde_json::from_str(&atoll.run("what-if drain east -o json")).unwrap();
    assert!(answer["paused"].as_str().unwrap().contains("maintenance"), "{answer}");
}
