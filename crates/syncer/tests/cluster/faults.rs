//! After faults of the connection, above and below agree, and nothing was deleted without a request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_fleet::view::{State, SyncLine};
use atoll_testkit::wait::eventually;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, at, client, map, map_line, start_without_controllers, transport};

/// A connection with random faults from a seed, until it is repaired.
struct FaultyTransport {
    inner: Https,
    seed: AtomicU64,
    is_repaired: AtomicBool,
    deletions: Mutex<Vec<String>>,
}

impl FaultyTransport {
    /// Returns the same number for the same seed, if requests come in the same order.
    fn next_random(&self) -> u64 {
        let mut random = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ (random >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        random ^ (random >> 31)
    }
}

impl Transport for FaultyTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            if request.method() == Method::DELETE {
                self.deletions.lock().unwrap().push(request.uri().path().to_string());
            }
            let fault =
                if self.is_repaired.load(Ordering::SeqCst) { u64::MAX } else { self.next_random() % 10 };
            match fault {
                // The request is lost.
                0 => Err("the connection broke".into()),
                // The request arrives, and its response is lost.
                1 => {
                    self.inner.send(request).await?;
                    Err("the connection broke afterwards".into())
                }
                // The request arrives twice.
                2 => {
                    let (parts, body) = request.into_parts();
                    let again = Request::from_parts(parts.clone(), body.clone());
                    self.inner.send(Request::from_parts(parts, body)).await?;
                    self.inner.send(again).await
                }
                3 => {
                    let status = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError"});
                    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
                    Ok(Response::builder().status(500).body(body.boxed_unsync())?)
                }
                _ => self.inner.send(request).await,
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn above_and_below_agree_after_faults() {
    let atoll = start_without_controllers();
    let plain = client(&atoll.admin());
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("ATOLL_SEED={seed}");
    let faulty = Arc::new(FaultyTransport {
        inner: transport(&atoll.admin()),
        seed: AtomicU64::new(seed),
        is_repaired: AtomicBool::new(false),
        deletions: Mutex::default(),
    });
    let name = |number: usize| format!("map-{number}");
    let lines = (0..30).map(|number| map_line(&name(number), 1, "one")).collect();
    let above = FakeControlPlane::with_lines("plane", lines);
    let running = RunningSyncer::start(&above, &Client::new(faulty.clone()), |_| {});
    eventually("the syncer has opened a view", async || above.views() > 0).await;
    // While these are applied: a third changes, a third is removed, a third stays.
    for number in 0..10 {
        above.send_line(&map_line(&name(number), 2, "two"));
    }
    for number in 10..20 {
        above.wait_for_record(&name(number), State::Applied).await;
        above.send_line(&SyncLine::Remove { target: map(&name(number)), since: 0 });
    }
    for number in 10..20 {
        above.wait_for_record(&name(number), State::Gone).await;
    }
    faulty.is_repaired.store(true, Ordering::SeqCst);
    for (numbers, value, generation) in [(0..10, json!("two"), 2), (20..30, json!("one"), 1)] {
        for number in numbers {
            let name = name(number);
            eventually(&format!("{name} is applied and reported"), async || {
                let is_there = plain.get(&at(&name)).await.is_ok_and(|map| map["data"]["key"] == value);
                let record = above.record(&name);
                is_there
                    && record.is_some_and(|record| {
                        record.generation == generation && record.state == State::Applied
                    })
            })
            .await;
        }
    }
    for number in 10..20 {
        assert_eq!(plain.get(&at(&name(number))).await.unwrap_err().code(), 404);
    }
    running.stop().await;
    let asked: Vec<String> = (10..20).map(|number| at(&name(number))).collect();
    let deletions = faulty.deletions.lock().unwrap();
    assert!(deletions.iter().all(|path| asked.contains(path)), "{deletions:?}");
}

/// A connection to one server that switches to another: after the request to switch, at the next read of the
/// cluster's identity.
struct SwitchingTransport {
    first: Https,
    second: Https,
    is_switch_requested: AtomicBool,
    is_switched: AtomicBool,
    writes: Mutex<Vec<String>>,
}

impl Transport for SwitchingTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        if self.is_switch_requested.load(Ordering::SeqCst) && request.uri().path().ends_with("/kube-system") {
            self.is_switched.store(true, Ordering::SeqCst);
        }
        if !self.is_switched.load(Ordering::SeqCst) {
            return self.first.send(request);
        }
        if request.method() != Method::GET {
            self.writes.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
        }
        self.second.send(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn different_cluster_at_the_same_address_is_not_written() {
    let (mut one, other) = (start_without_controllers(), start_without_controllers());
    let switch = Arc::new(SwitchingTransport {
        first: transport(&one.admin()),
        second: transport(&other.admin()),
        is_switch_requested: AtomicBool::new(false),
        is_switched: AtomicBool::new(false),
        writes: Mutex::default(),
    });
    let above = FakeControlPlane::with_lines("plane", vec![map_line("settings", 1, "one")]);
    let running = RunningSyncer::start(&above, &Client::new(switch.clone()), |_| {});
    above.wait_for_record("settings", State::Applied).await;
    switch.is_switch_requested.store(true, Ordering::SeqCst);
    eventually("the connection has switched", async || switch.is_switched.load(Ordering::SeqCst)).await;
    // Watches break, and reconnect to the other server.
    one.stop();
    eventually("the syncer has detected the other cluster", async || {
        above.heartbeat()["reason"] == "AnotherCluster"
    })
    .await;
    above.send_line(&map_line("settings", 2, "two"));
    above.send_line(&map_line("more", 1, "one"));
    above.send_line(&SyncLine::Remove { target: map("settings"), since: 0 });
    // Two more heartbeats, so that pending writes are done.
    for _ in 0..2 {
        let last = above.heartbeats();
        eventually("another heartbeat arrives", async || above.heartbeats() > last).await;
    }
    running.stop().await;
    assert_eq!(*switch.writes.lock().unwrap(), Vec::<String>::new());
    let there = client(&other.admin());
    assert!(there.get("/api/v1/namespaces/shop").await.is_err());
    assert_eq!(
        above.record("settings").map(|record| record.state),
        Some(State::Applied),
        "no removal must be reported"
    );
    assert_ne!(above.heartbeat()["id"], Value::Null);
}
