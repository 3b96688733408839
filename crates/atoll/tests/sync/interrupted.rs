//! Interruptions of the control plane and of clusters.

use serde_json::json;

use crate::{Fleet, Mode, create, object, wait_for, wait_until_deleted};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

#[tokio::test(flavor = "multi_thread")]
async fn syncing_continues_after_the_control_plane_is_killed() {
    let mut fleet = Fleet::start(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    let [east, west] = [0, 1].map(|position| fleet.clusters[position].admin());
    for name in ["stays", "goes", "moves"] {
        create(&above, CONFIG_MAPS, object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }))).await;
        fleet.place(&format!("configmaps/{name}"), "east");
        wait_for("the object exists below", &east, &format!("{CONFIG_MAPS}/{name}"), |_| true).await;
    }
    let before = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    fleet.atoll.kill();
    // Objects below are unchanged without it.
    for name in ["stays", "goes", "moves"] {
        east.get(&format!("{CONFIG_MAPS}/{name}")).await.expect(200);
    }
    fleet.atoll.restart();
    let above = fleet.admin();
    above.delete(&format!("{CONFIG_MAPS}/goes")).await.expect(200);
    fleet.place("configmaps/moves", "west");
    wait_until_deleted(&east, &format!("{CONFIG_MAPS}/goes")).await;
    wait_until_deleted(&above, &format!("{CONFIG_MAPS}/goes")).await;
    wait_for("the object is moved", &west, &format!("{CONFIG_MAPS}/moves"), |_| true).await;
    wait_until_deleted(&east, &format!("{CONFIG_MAPS}/moves")).await;
    // Objects that did not change above were not written below.
    let after = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_cluster_catches_up() {
    let mut fleet = Fleet::start(Mode::Push, &["east"]);
    let above = fleet.admin();
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "old", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/old", "east");
    let east = fleet.clusters[0].admin();
    wait_for("the object exists below", &east, &format!("{CONFIG_MAPS}/old"), |_| true).await;
    fleet.clusters[0].kill();
    above.delete(&format!("{CONFIG_MAPS}/old")).await.expect(200);
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "new", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/new", "east");
    // The deletion waits for the cluster.
    let held = above.get(&format!("{CONFIG_MAPS}/old")).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let ready = |cluster: &serde_json::Value| {
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| {
            one["type"] == "Ready" && one["status"] == "False" && one["reason"] == "ConnectionRefused"
        })
    };
    wait_for("the cluster is reported as not ready", &above, &format!("{CLUSTERS}/east"), ready).await;
    fleet.clusters[0].restart();
    let east = fleet.clusters[0].admin();
    wait_for("the new object exists below", &east, &format!("{CONFIG_MAPS}/new"), |_| true).await;
    wait_until_deleted(&east, &format!("{CONFIG_MAPS}/old")).await;
    wait_until_deleted(&above, &format!("{CONFIG_MAPS}/old")).await;
}
