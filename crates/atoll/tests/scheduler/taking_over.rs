//! Placements that were made by hand before a scheduler ran.

use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::fleet::{
    CONTROLLERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, join, path, summary,
    wait_until,
};

async fn place_by_hand(admin: &Client, path: &str, clusters: Value) {
    let placement = json!({ "spec": { "clusters": clusters } });
    admin.merge(&format!("{path}/placement"), placement).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn placements_by_hand_become_intents_and_nothing_moves() {
    let atoll = Setup::new().flag("--controllers", "objectstatus,workspace,namespace").start();
    let admin = atoll.admin();
    for name in ["east", "west"] {
        join(&admin, name, 8).await;
    }
    for (name, clusters) in [
        ("divided", json!([{ "name": "east", "replicas": 2 }, { "name": "west", "replicas": 1 }])),
        ("whole", json!([{ "name": "west" }])),
        ("both", json!([{ "name": "east" }, { "name": "west" }])),
    ] {
        admin.post(DEPLOYMENTS, deployment(name, 3, 100)).await.expect(201);
        place_by_hand(&admin, &path(name), clusters).await;
    }
    // The release of this one was interrupted.
    admin.post(DEPLOYMENTS, annotated(deployment("released", 1, 100), "none")).await.expect(201);
    place_by_hand(&admin, &path("released"), json!([{ "name": "east" }])).await;
    let mut atoll = atoll;
    atoll.stop();
    let atoll = Setup::new().directory(&atoll.directory).flag("--controllers", CONTROLLERS).start();
    let admin = atoll.admin();
    for (name, placement, intent) in [
        ("divided", "east=2 west=1 by annotation", "east==2,west==1"),
        ("whole", "west=3 by annotation", "west"),
        ("both", "east=3 west=3 by annotation", "east,west"),
    ] {
        let taken = expect_placed(&admin, &path(name), placement).await;
        assert_eq!(taken["metadata"]["annotations"]["atoll.dev/clusters"], intent, "{name}");
    }
    // A manifest that is replaced again and again does not have the annotation, which stays all the same.
    let manifest = deployment("divided", 3, 100);
    let replaced = admin.put(&path("divided"), manifest).await.expect(200);
    assert_eq!(replaced["metadata"]["annotations"]["atoll.dev/clusters"], "east==2,west==1");
    wait_until(&admin, &path("divided"), "nothing is leaving", |web| {
        atoll_fleet::Placement::of(web).leaving.is_empty()
    })
    .await;
    assert_eq!(summary(&admin.get(&path("released")).await.expect(200)), "east by hand");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_released_without_a_scheduler_stay_unplaced() {
    let without = CONTROLLERS.replace("placementscheduler,", "");
    let mut before = Setup::new().flag("--controllers", without).start();
    let admin = before.admin();
    join(&admin, "east", 8).await;
    for name in ["released", "waiting"] {
        admin.post(DEPLOYMENTS, deployment(name, 2, 100)).await.expect(201);
        wait_until(&admin, &path(name), "it is placed nowhere", |object| {
            condition(object, "Placed").2.contains("so nothing runs; ")
        })
        .await;
    }
    // One was on a cluster until an hour after its creation.
    let object = admin.get(&path("released")).await.expect(200);
    let mut conditions = object["status"]["conditions"].clone();
    let created = atoll_meta::time::parse(object["metadata"]["creationTimestamp"].as_str().unwrap());
    let created = created.unwrap().seconds;
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastTransitionTime"] = atoll_meta::time::format(created + 3600).into();
    }
    let status = json!({ "status": { "conditions": conditions } });
    admin.merge(&format!("{}/status", path("released")), status).await.expect(200);
    before.stop();
    let atoll = Setup::new().directory(&before.directory).flag("--controllers", CONTROLLERS).start();
    let admin = atoll.admin();
    expect_placed(&admin, &path("waiting"), "east=2 by default").await;
    wait_until(&admin, &path("released"), "it has the intent for no cluster", |object| {
        object["metadata"]["annotations"]["atoll.dev/clusters"] == "none"
    })
    .await;
    wait_until(&admin, &path("released"), "it is told", |object| {
        condition(object, "Placed").2.contains("its annotation atoll.dev/clusters is none")
    })
    .await;
    assert_eq!(summary(&admin.get(&path("released")).await.expect(200)), "nowhere");
}
