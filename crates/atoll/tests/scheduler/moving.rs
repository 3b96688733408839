//! Moves: new replicas are ready before old ones are taken away, whatever happens meanwhile.

use atoll_fleet::Placement;
use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, has_event, path, report_all_pods,
    report_gone, report_pods, scale, set_ready, summary, wait_until, with_clusters,
};

/// Waits until an object is placed like this in a phase of a move, and returns it.
async fn expect_phase(admin: &Client, path: &str, expected: &str, phase: &str) -> Value {
    wait_until(admin, path, &format!("{path} is on {expected}, {phase:?}"), |object| {
        let placement = Placement::of(object);
        summary(object) == expected
            && placement.phase == phase
            && placement.target.is_empty() == phase.is_empty()
    })
    .await
}

/// A Deployment of three replicas that are available on east.
async fn on_east(admin: &Client) -> String {
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 3, 100), "east")).await.expect(201);
    expect_placed(admin, &web, "east=3 by annotation").await;
    report_all_pods(admin, &web, "east", 3).await;
    web
}

#[tokio::test(flavor = "multi_thread")]
async fn old_replicas_stay_until_new_ones_are_available() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = on_east(&admin).await;
    annotate(&admin, &web, Some("west")).await;
    let moving = expect_phase(&admin, &web, "east=3 west=3 by annotation", "adding").await;
    assert_eq!(Placement::of(&moving).target[0].name, "west");
    // Manifests that are applied again and a new number of replicas do not disturb it.
    let manifest = annotated(deployment("web", 3, 100), "west");
    admin.put(&web, manifest.clone()).await.expect(200);
    admin.apply(&format!("{web}?fieldManager=gitops&force=true"), manifest).await.expect(200);
    scale(&admin, &web, 4).await;
    expect_phase(&admin, &web, "east=3 west=4 by annotation", "adding").await;
    // As many leave as are available in addition.
    report_pods(&admin, &web, "west", 2).await;
    expect_phase(&admin, &web, "east=2 west=4 by annotation", "removing").await;
    report_pods(&admin, &web, "east", 2).await;
    report_pods(&admin, &web, "west", 4).await;
    let moved = expect_phase(&admin, &web, "west=4 by annotation", "").await;
    let placement = Placement::of(&moved);
    assert_eq!(placement.leaving[0].name, "east");
    let recorded: Vec<&str> = placement.decisions.iter().map(|decision| decision.reason.as_str()).collect();
    assert!(recorded.iter().any(|reason| reason.starts_with("adding")), "{recorded:?}");
    assert!(recorded.last().unwrap().starts_with("the move ended: "), "{recorded:?}");
    eventually("an event tells about the move", async || has_event(&admin, "web", "Moving").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_continue_after_a_kill_in_any_phase() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = on_east(&admin).await;
    annotate(&admin, &web, Some("west")).await;
    expect_phase(&admin, &web, "east=3 west=3 by annotation", "adding").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    expect_phase(&admin, &web, "east=3 west=3 by annotation", "adding").await;
    report_pods(&admin, &web, "west", 1).await;
    expect_phase(&admin, &web, "east=2 west=3 by annotation", "removing").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    report_pods(&admin, &web, "west", 3).await;
    expect_phase(&admin, &web, "west=3 by annotation", "").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    report_gone(&admin, &web, "east").await;
    wait_until(&admin, &web, "east has let go", |web| Placement::of(web).leaving.is_empty()).await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "west=3 by annotation");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_work_does_not_run_twice_after_a_kill_in_any_phase() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = annotated(deployment("db", 2, 100), "east");
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "db".into();
    admin.post(sets, set).await.expect(201);
    let db = format!("{sets}/db");
    expect_placed(&admin, &db, "east=2 by annotation").await;
    report_all_pods(&admin, &db, "east", 2).await;
    annotate(&admin, &db, Some("west")).await;
    expect_phase(&admin, &db, "nowhere", "stopping").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    // Another workload that is placed shows that the scheduler works again.
    admin.post(DEPLOYMENTS, deployment("other", 1, 100)).await.expect(201);
    wait_until(&admin, &path("other"), "it is placed", |other| summary(other) != "nowhere").await;
    let stopping = expect_phase(&admin, &db, "nowhere", "stopping").await;
    assert_eq!(Placement::of(&stopping).leaving[0].name, "east", "it may still run there");
    report_gone(&admin, &db, "east").await;
    expect_phase(&admin, &db, "west=2 by annotation", "").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
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
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    report_pods(&admin, &web, "west", 3).await;
    expect_phase(&admin, &web, "west=3 by default", "away").await;
    set_ready(&admin, "east", true, 3600).await;
    report_gone(&admin, &web, "east").await;
    expect_phase(&admin, &web, "east=3 west=3 by default", "adding").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    report_pods(&admin, &web, "east", 2).await;
    expect_phase(&admin, &web, "east=3 west=1 by default", "removing").await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    report_pods(&admin, &web, "east", 3).await;
    expect_phase(&admin, &web, "east=3 by default", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_without_room_are_blocked_and_say_so() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 2), ("north", 1)]).await;
    let large = path("large");
    admin.post(DEPLOYMENTS, annotated(deployment("large", 3, 1000), "east")).await.expect(201);
    expect_placed(&admin, &large, "east=3 by annotation").await;
    report_all_pods(&admin, &large, "east", 3).await;
    annotate(&admin, &large, Some("west")).await;
    eventually("an event says why", async || has_event(&admin, "large", "MoveBlocked").await).await;
    assert_eq!(summary(&admin.get(&large).await.expect(200)), "east=3 by annotation");
    // A move to clusters with enough room together begins at once, and takes room on both sides.
    annotate(&admin, &large, Some("west=2,north=1")).await;
    expect_phase(&admin, &large, "east=3 north=1 west=2 by annotation", "adding").await;
    admin.post(DEPLOYMENTS, annotated(deployment("late", 1, 500), "west,north")).await.expect(201);
    eventually("nothing else fits there", async || has_event(&admin, "late", "Unschedulable").await).await;
    report_pods(&admin, &large, "west", 2).await;
    report_pods(&admin, &large, "north", 1).await;
    expect_phase(&admin, &large, "north=1 west=2 by annotation", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_runs_once_stops_before_it_starts_elsewhere() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = annotated(deployment("db", 2, 100), "east");
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "db".into();
    admin.post(sets, set.clone()).await.expect(201);
    let db = format!("{sets}/db");
    expect_placed(&admin, &db, "east=2 by annotation").await;
    report_all_pods(&admin, &db, "east", 2).await;
    annotate(&admin, &db, Some("west")).await;
    let stopping = expect_phase(&admin, &db, "nowhere", "stopping").await;
    assert_eq!(Placement::of(&stopping).leaving[0].name, "east");
    report_gone(&admin, &db, "east").await;
    expect_phase(&admin, &db, "west=2 by annotation", "").await;
    // Data does not move along, so nothing moves without consent.
    set["metadata"]["name"] = "data".into();
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    admin.post(sets, set).await.expect(201);
    let data = format!("{sets}/data");
    expect_placed(&admin, &data, "east=2 by annotation").await;
    report_all_pods(&admin, &data, "east", 2).await;
    annotate(&admin, &data, Some("west")).await;
    eventually("an event says why", async || has_event(&admin, "data", "VolumesStay").await).await;
    assert_eq!(summary(&admin.get(&data).await.expect(200)), "east=2 by annotation");
    let consent = json!({ "metadata": { "annotations": { "atoll.dev/accept-empty-volumes": "true" } } });
    admin.merge(&data, consent).await.expect(200);
    expect_phase(&admin, &data, "nowhere", "stopping").await;
}
