//! Moves: new replicas are ready before old ones are taken away, whatever happens meanwhile.

use atoll_fleet::Placement;
use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::json;

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, condition, deployment, expect_phase, expect_placed, has_event, path,
    report_all_pods, report_gone, report_pods, scale, summary, wait_until, with_clusters,
};

/// A Deployment of three replicas that are available on east.
pub async fn on_east(admin: &Client) -> String {
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
async fn moves_without_room_are_blocked_and_say_so() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 2), ("north", 1)]).await;
    let large = path("large");
    admin.post(DEPLOYMENTS, annotated(deployment("large", 3, 1000), "east")).await.expect(201);
    expect_placed(&admin, &large, "east=3 by annotation").await;
    report_all_pods(&admin, &large, "east", 3).await;
    annotate(&admin, &large, Some("west")).await;
    eventually("an event says why", async || has_event(&admin, "large", "MoveBlocked").await).await;
    let blocked = wait_until(&admin, &large, "its condition says so", |large| {
        condition(large, "Placed").1 == "MoveBlocked"
    })
    .await;
    let (status, _, message) = condition(&blocked, "Placed");
    assert_eq!(status, "False");
    assert!(message.ends_with("see: atoll explain deployment/large"), "{message}");
    assert_eq!(
        (Placement::of(&blocked).blocked.as_str(), Placement::of(&blocked).missing),
        ("MoveBlocked", 0)
    );
    assert_eq!(summary(&admin.get(&large).await.expect(200)), "east=3 by annotation");
    // A move to clusters with enough room together begins at once, and takes room on both sides.
    annotate(&admin, &large, Some("west=2,north=1")).await;
    expect_phase(&admin, &large, "east=3 north=1 west=2 by annotation", "adding").await;
    admin.post(DEPLOYMENTS, annotated(deployment("late", 1, 500), "west,north")).await.expect(201);
    eventually("nothing else fits there", async || has_event(&admin, "late", "Unschedulable").await).await;
    report_pods(&admin, &large, "west", 2).await;
    report_pods(&admin, &large, "north", 1).await;
    let moved = expect_phase(&admin, &large, "north=1 west=2 by annotation", "").await;
    assert_eq!(Placement::of(&moved).blocked, "");
    wait_until(&admin, &large, "it is where it belongs", |large| condition(large, "Placed").0 == "True")
        .await;
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
