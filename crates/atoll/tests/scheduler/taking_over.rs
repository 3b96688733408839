//! Placements that were made by hand before a scheduler ran.

use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::fleet::{
    CONTROLLERS, DEPLOYMENTS, annotated, deployment, expect_placed, join, path, summary, wait_until,
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
