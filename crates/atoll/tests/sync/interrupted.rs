//! What happens when something breaks in between.

use serde_json::json;

use crate::{Fleet, Mode, becomes, create, goes, object};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_where_it_was_after_the_control_plane_was_killed() {
    let mut fleet = Fleet::start(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    let [east, west] = [0, 1].map(|position| fleet.clusters[position].admin());
    for name in ["stays", "goes", "moves"] {
        create(&above, CONFIG_MAPS, object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }))).await;
        fleet.place(&format!("configmaps/{name}"), "east");
        becomes("it arrives", &east, &format!("{CONFIG_MAPS}/{name}"), |_| true).await;
    }
    let before = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    fleet.atoll.kill();
    // Below, all goes on without it.
    for name in ["stays", "goes", "moves"] {
        east.get(&format!("{CONFIG_MAPS}/{name}")).await.expect(200);
    }
    fleet.atoll.restart();
    let above = fleet.admin();
    above.delete(&format!("{CONFIG_MAPS}/goes")).await.expect(200);
    fleet.place("configmaps/moves", "west");
    goes(&east, &format!("{CONFIG_MAPS}/goes")).await;
    goes(&above, &format!("{CONFIG_MAPS}/goes")).await;
    becomes("it moves", &west, &format!("{CONFIG_MAPS}/moves"), |_| true).await;
    goes(&east, &format!("{CONFIG_MAPS}/moves")).await;
    // What has not changed above was not touched below.
    let after = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_away_catches_up() {
    let mut fleet = Fleet::start(Mode::Push, &["east"]);
    let above = fleet.admin();
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "old", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/old", "east");
    let east = fleet.clusters[0].admin();
    becomes("it arrives", &east, &format!("{CONFIG_MAPS}/old"), |_| true).await;
    fleet.clusters[0].running = None;
    above.delete(&format!("{CONFIG_MAPS}/old")).await.expect(200);
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "new", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/new", "east");
    // It waits for the cluster to let go.
    let held = above.get(&format!("{CONFIG_MAPS}/old")).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let ready = |cluster: &serde_json::Value| {
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| {
            one["type"] == "Ready" && one["status"] == "False" && one["reason"] == "ConnectionRefused"
        })
    };
    becomes("that is noticed", &above, &format!("{CLUSTERS}/east"), ready).await;
    fleet.clusters[0].resume();
    let east = fleet.clusters[0].admin();
    becomes("it catches up", &east, &format!("{CONFIG_MAPS}/new"), |_| true).await;
    goes(&east, &format!("{CONFIG_MAPS}/old")).await;
    goes(&above, &format!("{CONFIG_MAPS}/old")).await;
}
