//! Lost clusters: their shares are replaced elsewhere, and return.

use atoll_fleet::Placement;
use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, has_event, path, report_all_pods,
    report_gone, report_pods, set_ready, summary, wait_until, with_clusters,
};

/// Whether there is an event with this reason about a Cluster.
async fn has_cluster_event(admin: &Client, name: &str, reason: &str) -> bool {
    let events = admin.get("/api/v1/events").await.expect(200);
    let all = events["items"].as_array().unwrap();
    all.iter().any(|event| event["reason"] == reason && event["involvedObject"]["name"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn share_of_a_lost_cluster_is_replaced_and_returns() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 8), ("north", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=3 by default").await;
    report_pods(&admin, &web, "east", 3).await;
    // Shortly after Ready turned False nothing happens: the time is 15 seconds.
    set_ready(&admin, "east", false, 12).await;
    let lost = expect_placed(&admin, &web, "west=3 by default").await;
    let placement = Placement::of(&lost);
    assert_eq!((placement.phase.as_str(), placement.target[0].name.as_str()), ("away", "east"));
    assert_eq!(placement.leaving[0].name, "east");
    eventually("an event says so", async || has_event(&admin, "web", "FailedOver").await).await;
    report_all_pods(&admin, &web, "west", 3).await;
    // The cluster has returned some time ago, so that its share may return.
    set_ready(&admin, "east", true, 3600).await;
    // It must have removed the old share first: its last report is not about the new one.
    report_gone(&admin, &web, "east").await;
    let returning = expect_placed(&admin, &web, "east=3 west=3 by default").await;
    assert_eq!(Placement::of(&returning).phase, "adding");
    report_pods(&admin, &web, "east", 3).await;
    let home = expect_placed(&admin, &web, "east=3 by default").await;
    assert_eq!(Placement::of(&home).phase, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn divided_replicas_move_to_the_clusters_that_are_left() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8), ("north", 8)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 6, 100), "east=1,west=1,north=1")).await.expect(201);
    expect_placed(&admin, &web, "east=2 north=2 west=2 by annotation").await;
    set_ready(&admin, "north", false, 60).await;
    expect_placed(&admin, &web, "east=3 west=3 by annotation").await;
    // A Cluster that is deleted never comes back.
    admin.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    admin.merge(&format!("{CLUSTERS}/west"), json!({ "metadata": { "finalizers": null } })).await;
    expect_placed(&admin, &web, "east=6 by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_work_waits_for_the_fence() {
    let (atoll, admin) = with_clusters(&[("east", 16), ("west", 8), ("north", 4)]).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = deployment("db", 2, 100);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "db".into();
    admin.post(sets, set).await.expect(201);
    let db = format!("{sets}/db");
    expect_placed(&admin, &db, "east=2 by default").await;
    set_ready(&admin, "east", false, 60).await;
    eventually("an event says why", async || has_event(&admin, "db", "NotFenced").await).await;
    assert_eq!(summary(&admin.get(&db).await.expect(200)), "east=2 by default");
    atoll.run("cluster fence east --yes");
    expect_placed(&admin, &db, "west=2 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_fails_over_while_the_control_plane_suspects_itself() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 8), ("north", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=3 by default").await;
    set_ready(&admin, "west", false, 59).await;
    set_ready(&admin, "east", false, 60).await;
    eventually("an event of the Cluster says so", async || {
        has_cluster_event(&admin, "east", "ControlPlaneSuspect").await
    })
    .await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "east=3 by default");
    let suspected = |cluster: &Value| condition(cluster, "ControlPlaneSuspect").0;
    for (name, expected) in [("east", "True"), ("west", "True"), ("north", "")] {
        let what = format!("the condition of {name} is {expected:?}");
        wait_until(&admin, &format!("{CLUSTERS}/{name}"), &what, |cluster| suspected(cluster) == expected)
            .await;
    }
    // One of them returns: the other one is lost alone.
    set_ready(&admin, "west", true, 0).await;
    wait_until(&admin, &web, "it is replaced", |web| summary(web) == "west=3 by default").await;
    let east = format!("{CLUSTERS}/east");
    wait_until(&admin, &east, "the suspicion is over", |cluster| suspected(cluster).is_empty()).await;
}
