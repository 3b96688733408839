//! SIGKILL of the control plane in every step of a move, and at any moment of the step: what was begun is continued,
//! and nothing is lost or runs twice.

mod clusters;

use atoll_fleet::Placement;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_phase, expect_placed, path, report_all_pods,
    report_gone, report_pods, scale, set_ready, summary, wait_until, with_clusters,
};
use crate::moving::on_east;
use crate::simulated::POLICIES;

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// Kills the control plane, whatever it is doing, and starts it again.
fn kill(atoll: &mut Atoll) -> Client {
    atoll.kill();
    atoll.restart();
    atoll.admin()
}

/// Waits until the scheduler has decided about everything that it found when it started: it places another workload.
async fn expect_scheduler(admin: &Client, name: &str) {
    admin.post(DEPLOYMENTS, deployment(name, 1, 1)).await.expect(201);
    wait_until(admin, &path(name), "it is placed", |other| summary(other) != "nowhere").await;
}

fn stateful_set(name: &str, replicas: i64) -> Value {
    let mut set = deployment(name, replicas, 100);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = name.into();
    set
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_continue_after_a_kill_in_any_phase() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = on_east(&admin).await;
    annotate(&admin, &web, Some("west")).await;
    expect_phase(&admin, &web, "east=3 west=3 by annotation", "adding").await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &web, "east=3 west=3 by annotation", "adding").await;
    report_pods(&admin, &web, "west", 1).await;
    expect_phase(&admin, &web, "east=2 west=3 by annotation", "removing").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &web, "west", 3).await;
    expect_phase(&admin, &web, "west=3 by annotation", "").await;
    let admin = kill(&mut atoll);
    report_gone(&admin, &web, "east").await;
    wait_until(&admin, &web, "the object is gone from east", |web| Placement::of(web).leaving.is_empty())
        .await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "west=3 by annotation");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_work_does_not_run_twice_after_a_kill_in_any_phase() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    admin.post(STATEFUL_SETS, annotated(stateful_set("db", 2), "east")).await.expect(201);
    let db = format!("{STATEFUL_SETS}/db");
    expect_placed(&admin, &db, "east=2 by annotation").await;
    report_all_pods(&admin, &db, "east", 2).await;
    annotate(&admin, &db, Some("west")).await;
    expect_phase(&admin, &db, "nowhere", "stopping").await;
    let admin = kill(&mut atoll);
    expect_scheduler(&admin, "other").await;
    let stopping = expect_phase(&admin, &db, "nowhere", "stopping").await;
    assert_eq!(Placement::of(&stopping).leaving[0].name, "east", "it may still run there");
    report_gone(&admin, &db, "east").await;
    expect_phase(&admin, &db, "west=2 by annotation", "").await;
    let admin = kill(&mut atoll);
    report_all_pods(&admin, &db, "west", 2).await;
    let moved = expect_phase(&admin, &db, "west=2 by annotation", "").await;
    assert!(Placement::of(&moved).leaving.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_shares_return_after_a_kill_in_any_phase() {
    let (mut atoll, admin) = with_clusters(&[("east", 16), ("west", 8), ("north", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=3 by default").await;
    report_all_pods(&admin, &web, "east", 3).await;
    set_ready(&admin, "east", false, 60).await;
    expect_phase(&admin, &web, "west=3 by default", "away").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &web, "west", 3).await;
    expect_phase(&admin, &web, "west=3 by default", "away").await;
    set_ready(&admin, "east", true, 3600).await;
    report_gone(&admin, &web, "east").await;
    expect_phase(&admin, &web, "east=3 west=3 by default", "adding").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &web, "east", 2).await;
    expect_phase(&admin, &web, "east=3 west=1 by default", "removing").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &web, "east", 3).await;
    expect_phase(&admin, &web, "east=3 by default", "").await;
}

/// The kill follows a request at once, so that it may come before, after or in the middle of the step to which the
/// request leads.
#[tokio::test(flavor = "multi_thread")]
async fn moves_continue_after_kills_between_and_within_steps() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = on_east(&admin).await;
    let mut admin = admin;
    for (from, to) in [("east", "west"), ("west", "east"), ("east", "west")] {
        let both = |old: &str, new: &str| match from {
            "east" => format!("east={old} west={new} by annotation"),
            _ => format!("east={new} west={old} by annotation"),
        };
        annotate(&admin, &web, Some(to)).await;
        admin = kill(&mut atoll);
        expect_phase(&admin, &web, &both("3", "3"), "adding").await;
        report_pods(&admin, &web, to, 2).await;
        admin = kill(&mut atoll);
        expect_phase(&admin, &web, &both("1", "3"), "removing").await;
        report_pods(&admin, &web, from, 1).await;
        report_pods(&admin, &web, to, 3).await;
        admin = kill(&mut atoll);
        let moved = expect_phase(&admin, &web, &format!("{to}=3 by annotation"), "").await;
        assert_eq!(Placement::of(&moved).leaving[0].name, from);
        report_gone(&admin, &web, from).await;
        admin = kill(&mut atoll);
        let web = wait_until(&admin, &web, "it has left", |web| Placement::of(web).leaving.is_empty()).await;
        assert_eq!(summary(&web), format!("{to}=3 by annotation"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_work_starts_after_kills_between_and_within_steps() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    admin.post(STATEFUL_SETS, annotated(stateful_set("db", 2), "east")).await.expect(201);
    let db = format!("{STATEFUL_SETS}/db");
    expect_placed(&admin, &db, "east=2 by annotation").await;
    report_all_pods(&admin, &db, "east", 2).await;
    let mut admin = admin;
    for (round, (from, to)) in [("east", "west"), ("west", "east"), ("east", "west")].into_iter().enumerate()
    {
        annotate(&admin, &db, Some(to)).await;
        admin = kill(&mut atoll);
        let stopping = expect_phase(&admin, &db, "nowhere", "stopping").await;
        assert_eq!(Placement::of(&stopping).leaving[0].name, from);
        // It starts when its cluster has confirmed that it is gone, not because the scheduler does.
        expect_scheduler(&admin, &format!("other-{round}")).await;
        expect_phase(&admin, &db, "nowhere", "stopping").await;
        report_gone(&admin, &db, from).await;
        admin = kill(&mut atoll);
        let started = expect_phase(&admin, &db, &format!("{to}=2 by annotation"), "").await;
        assert!(Placement::of(&started).leaving.is_empty(), "{started}");
        report_all_pods(&admin, &db, to, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_settle_after_a_kill_in_any_step() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" },
        "spec": { "objects": [{ "kind": "StatefulSet" }], "replicas": { "division": "Even" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    admin.post(STATEFUL_SETS, stateful_set("db", 4)).await.expect(201);
    let (db, by) = (format!("{STATEFUL_SETS}/db"), "by placementpolicy/spread");
    // The second segment begins when the Pods of the first are ready.
    expect_phase(&admin, &db, &format!("east=2=0 {by}"), "settling").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &db, "east", 1).await;
    expect_scheduler(&admin, "first").await;
    expect_phase(&admin, &db, &format!("east=2=0 {by}"), "settling").await;
    report_pods(&admin, &db, "east", 2).await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &db, &format!("east=2=0 west=2=2 {by}"), "").await;
    report_pods(&admin, &db, "west", 2).await;

    // The last ordinals stop first, and those before them when they are gone.
    scale(&admin, &db, 1).await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &db, &format!("east=2=0 west=0=2 {by}"), "settling").await;
    let admin = kill(&mut atoll);
    report_pods(&admin, &db, "west", 1).await;
    expect_scheduler(&admin, "second").await;
    expect_phase(&admin, &db, &format!("east=2=0 west=0=2 {by}"), "settling").await;
    report_pods(&admin, &db, "west", 0).await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &db, &format!("east=1=0 west=0=2 {by}"), "").await;
    report_pods(&admin, &db, "east", 1).await;

    scale(&admin, &db, 3).await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &db, &format!("east=2=0 west=0=2 {by}"), "settling").await;
    report_pods(&admin, &db, "east", 2).await;
    let admin = kill(&mut atoll);
    expect_phase(&admin, &db, &format!("east=2=0 west=1=2 {by}"), "").await;
}
