//! Lists of clusters with large objects.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use http::Method;
use serde_json::{Value, json};

use crate::fake_cluster::{FakeCluster, FakeResponse, condition};

async fn wait_until_ready(above: &Client) {
    eventually("the cluster is ready", async || condition(above, "large", "Ready").await[0] == "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_large_objects_are_read_in_smaller_pages() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    // Thirty nodes of 1.4 MiB, the largest size that etcd stores.
    let cluster = FakeCluster::with("large", |method, target| {
        let is_list =
            *method == Method::GET && target.starts_with("/api/v1/nodes?") && !target.contains("watch=true");
        is_list.then(|| {
            let number = |name: &str| {
                let text = target.split(&format!("{name}=")).nth(1).unwrap_or_default();
                text.split('&').next().unwrap_or_default().parse::<usize>().unwrap_or(0)
            };
            let (first, end) = (number("continue"), (number("continue") + number("limit")).min(30));
            let node = |at: usize| {
                json!({
                    "metadata": { "name": format!("n{at}"), "uid": at.to_string(), "annotations": { "a": "x".repeat(1_400_000) } },
                    "status": { "capacity": { "cpu": "1" } },
                })
            };
            let next = if end < 30 { end.to_string() } else { String::new() };
            let items: Vec<Value> = (first..end).map(node).collect();
            FakeResponse::Json(200, json!({ "metadata": { "resourceVersion": "1", "continue": next }, "items": items }))
        })
    });
    let cluster = cluster.await;
    cluster.register(&above, "large").await;
    wait_until_ready(&above).await;
    eventually("all nodes are counted", async || {
        let found = above.get("/apis/atoll.dev/v1alpha1/clusters/large").await.expect(200);
        found["status"]["nodes"]["total"] == 30
    })
    .await;
    wait_until_ready(&above).await;
}
