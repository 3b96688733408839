//! The request budget that all clusters share.

use std::sync::Arc;

use atoll_fleet::view::State;
use atoll_testkit::wait::eventually;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, at, client, map_line, start_without_controllers};

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_budget_does_not_stop_heartbeats() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let above = FakeControlPlane::with_lines("plane", vec![map_line("first", 1, "one")]);
    let budget = Arc::new(Semaphore::new(1));
    let shared = budget.clone();
    let running = RunningSyncer::start(&above, &below, move |settings| settings.budget = Some(shared));
    above.wait_for_record("first", State::Applied).await;
    // The whole budget is in use elsewhere.
    let permit = budget.acquire().await.unwrap();
    above.send_line(&map_line("second", 1, "one"));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";
    for _ in 0..3 {
        let (heartbeats, renewed) =
            (above.heartbeats(), below.get(lease).await.unwrap()["spec"]["renewTime"].clone());
        eventually("another heartbeat arrives", async || above.heartbeats() > heartbeats).await;
        eventually("the syncer's lease is renewed", async || {
            below.get(lease).await.unwrap()["spec"]["renewTime"] != renewed
        })
        .await;
        assert_eq!(above.heartbeat()["reason"], Value::Null);
    }
    assert!(below.get(&at("second")).await.is_err(), "the second object must wait for the budget");
    drop(permit);
    above.wait_for_record("second", State::Applied).await;
    running.stop().await;
}
