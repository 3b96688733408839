//! The control plane may prescribe the name of a namespace below, for which a dialect asks.

use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::{State, SyncLine};
use serde_json::json;

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, client, map_line, start_without_controllers};

fn namespace_line(below: &str) -> SyncLine {
    SyncLine::Namespace {
        workspace: "w".into(),
        namespace: "shop".into(),
        labels: Labels::fallback(true),
        below: Some(below.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prescribed_name_is_used_and_kept() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let lines = vec![namespace_line("tenant-shop"), map_line("a", 1, "one")];
    let above = FakeControlPlane::with_lines("plane", lines);
    let running = RunningSyncer::start(&above, &below, |_| {});
    above.wait_for_record("a", State::Applied).await;
    below.get("/api/v1/namespaces/tenant-shop/configmaps/a").await.unwrap();
    assert_eq!(below.get("/api/v1/namespaces/shop").await.unwrap_err().code(), 404);
    running.stop().await;

    // The mapping stays, whatever is prescribed later.
    let lines = vec![namespace_line("other"), map_line("a", 1, "one"), map_line("b", 1, "one")];
    let above = FakeControlPlane::with_lines("plane", lines);
    let running = RunningSyncer::start(&above, &below, |_| {});
    above.wait_for_record("b", State::Applied).await;
    below.get("/api/v1/namespaces/tenant-shop/configmaps/b").await.unwrap();
    assert_eq!(below.get("/api/v1/namespaces/other").await.unwrap_err().code(), 404);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_of_another_owner_is_not_used() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "taken" } });
    below.create("/api/v1/namespaces", &namespace).await.unwrap();
    let lines = vec![namespace_line("taken"), map_line("a", 1, "one")];
    let above = FakeControlPlane::with_lines("plane", lines);
    let running = RunningSyncer::start(&above, &below, |_| {});
    let record = above.wait_for_record("a", State::Conflict).await;
    assert!(record.message.contains("\"taken\" exists in the cluster"), "{}", record.message);
    running.stop().await;
    // A reserved name is ignored.
    let lines = vec![namespace_line("kube-public"), map_line("a", 1, "one")];
    let above = FakeControlPlane::with_lines("plane", lines);
    let running = RunningSyncer::start(&above, &below, |_| {});
    above.wait_for_record("a", State::Applied).await;
    below.get("/api/v1/namespaces/shop/configmaps/a").await.unwrap();
    running.stop().await;
}
