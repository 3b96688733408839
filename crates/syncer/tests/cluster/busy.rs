//! What all clusters together are busy with.

use std::sync::Arc;

use atoll_fleet::view::State;
use atoll_testkit::wait::eventually;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::above::Above;
use crate::{Running, at, bare, client, map_line};

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_fleet_does_not_make_a_cluster_look_dead() {
    let atoll = bare();
    let below = client(atoll.url(), &atoll.authority());
    let above = Above::saying("plane", vec![map_line("first", 1, "one")]);
    let budget = Arc::new(Semaphore::new(1));
    let shared = budget.clone();
    let running = Running::start(&above, &below, move |settings| settings.budget = Some(shared));
    above.hears("first", State::Applied).await;
    // All that may be done at once is being done elsewhere.
    let turn = budget.acquire().await.unwrap();
    above.say(&map_line("second", 1, "one"));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";
    for _ in 0..3 {
        let (beats, renewed) = (above.beats(), below.get(lease).await.unwrap()["spec"]["renewTime"].clone());
        eventually("it is heard of", async || above.beats() > beats).await;
        eventually("its lease is renewed", async || {
            below.get(lease).await.unwrap()["spec"]["renewTime"] != renewed
        })
        .await;
        assert_eq!(above.heartbeat()["reason"], Value::Null);
    }
    assert!(below.get(&at("second")).await.is_err(), "that has to wait");
    drop(turn);
    above.hears("second", State::Applied).await;
    running.stop().await;
}
