//! Sync views of a tenant's cluster do not keep the server from others.

use atoll_testkit::wait::within;
use atoll_testkit::{Client, RequestContent, Setup, Watch};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::definitions::tenant;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const VIEWS: usize = 8;
const OBJECTS: usize = 300;
/// Number of small requests that must be answered while the views work.
const SMALL_REQUESTS: usize = 40;

/// Reads a view until it shows a ConfigMap.
async fn read_until(view: &mut Watch, name: &str) {
    while view.line().await["name"] != name {}
}

async fn place(tenant: &Client, name: &str) {
    tenant.post(CONFIG_MAPS, config_map_with(name, &"x".repeat(1000))).await.expect(201);
    let placement = json!({ "spec": { "clusters": [{ "name": "east" }] } });
    tenant.put(&format!("{}/placement", config_map(name)), placement).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_shapes_do_not_delay_others() {
    let atoll = Setup::new().flag("--controllers", false).variable("TOKIO_WORKER_THREADS", 1).start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    tenant.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
    for number in 0..OBJECTS {
        place(&tenant, &format!("m{number:04}")).await;
    }
    let mut views = Vec::new();
    for _ in 0..VIEWS {
        views.push(Watch::open(&tenant, "/services/sync/east").await);
    }
    for view in &mut views {
        while view.line().await["type"] != "Synced" {}
    }
    // The shapes of all objects are computed again. None of them changes.
    tenant.post("/api/v1/namespaces", json!({ "metadata": { "name": "atoll-system" } })).await;
    let marker = |name: &str| json!({ "metadata": { "name": "atoll-dialects" }, "data": { name: "" } });
    let markers = "/api/v1/namespaces/atoll-system/configmaps";
    tenant.post(markers, marker("unknown")).await.expect(201);
    let reading = tokio::spawn(async move {
        place(&tenant, "sentinel").await;
        join_all(views.iter_mut().map(|view| read_until(view, "sentinel"))).await;
    });
    let mut other = atoll.admin().http1().await.unwrap();
    let mut answered = 0;
    within("all views show the last object", async {
        while !reading.is_finished() {
            let small = other.request(Method::GET, "/api/v1/namespaces/default", RequestContent::None).await;
            let _: Value = small.unwrap().expect(200);
            answered += 1;
        }
    })
    .await;
    reading.await.unwrap();
    assert!(answered >= SMALL_REQUESTS, "{answered} small requests were answered while the views worked");
}
