//! Whatever breaks on the way: afterwards above and below agree, and nothing was deleted that was not to be.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_fleet::view::{Line, State};
use atoll_testkit::wait::eventually;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::above::Above;
use crate::{Running, at, bare, client, map, map_line, transport};

/// A connection on which things go wrong, as a seed says, until it is mended.
struct Faulty {
    inner: Https,
    seed: AtomicU64,
    is_mended: AtomicBool,
    deletions: Mutex<Vec<String>>,
}

impl Faulty {
    /// The same for the same seed, if requests come in the same order.
    fn draw(&self) -> u64 {
        let mut drawn = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^ (drawn >> 31)
    }
}

impl Transport for Faulty {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            if request.method() == Method::DELETE {
                self.deletions.lock().unwrap().push(request.uri().path().to_string());
            }
            let fault = if self.is_mended.load(Ordering::SeqCst) { u64::MAX } else { self.draw() % 10 };
            match fault {
                // It never arrives.
                0 => Err("the connection broke".into()),
                // It arrives, and nobody hears of it.
                1 => {
                    self.inner.send(request).await?;
                    Err("the connection broke afterwards".into())
                }
                // It arrives twice.
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
async fn above_and_below_agree_in_the_end() {
    let atoll = bare();
    let plain = client(atoll.url(), &atoll.authority());
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("ATOLL_SEED={seed}");
    let faulty = Arc::new(Faulty {
        inner: transport(atoll.url(), &atoll.authority()),
        seed: AtomicU64::new(seed),
        is_mended: AtomicBool::new(false),
        deletions: Mutex::default(),
    });
    let name = |number: usize| format!("map-{number}");
    let lines = (0..30).map(|number| map_line(&name(number), 1, "one")).collect();
    let above = Above::saying("plane", lines);
    let running = Running::start(&above, &Client::new(faulty.clone()), |_| {});
    eventually("somebody listens", async || above.views() > 0).await;
    // While that is on its way: a third changes, a third goes, a third stays.
    for number in 0..10 {
        above.say(&map_line(&name(number), 2, "two"));
    }
    for number in 10..20 {
        above.hears(&name(number), State::Applied).await;
        above.say(&Line::Remove { target: map(&name(number)), since: 0 });
    }
    for number in 10..20 {
        above.hears(&name(number), State::Gone).await;
    }
    faulty.is_mended.store(true, Ordering::SeqCst);
    for (numbers, value, generation) in [(0..10, json!("two"), 2), (20..30, json!("one"), 1)] {
        for number in numbers {
            let name = name(number);
            eventually(&format!("{name} is as it should be"), async || {
                let is_there = plain.get(&at(&name)).await.is_ok_and(|map| map["data"]["key"] == value);
                let is_told = above.record(&name);
                is_there
                    && is_told.is_some_and(|record| {
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

/// Leads to one server, and then to another: when it is asked to, from the next look at which cluster it is.
struct Switch {
    first: Https,
    second: Https,
    is_asked: AtomicBool,
    is_switched: AtomicBool,
    writes: Mutex<Vec<String>>,
}

impl Transport for Switch {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        if self.is_asked.load(Ordering::SeqCst) && request.uri().path().ends_with("/kube-system") {
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
async fn another_cluster_behind_the_same_address_is_not_written_to() {
    let (mut one, other) = (bare(), bare());
    let switch = Arc::new(Switch {
        first: transport(one.url(), &one.authority()),
        second: transport(other.url(), &other.authority()),
        is_asked: AtomicBool::new(false),
        is_switched: AtomicBool::new(false),
        writes: Mutex::default(),
    });
    let above = Above::saying("plane", vec![map_line("settings", 1, "one")]);
    let running = Running::start(&above, &Client::new(switch.clone()), |_| {});
    above.hears("settings", State::Applied).await;
    switch.is_asked.store(true, Ordering::SeqCst);
    eventually("the address leads elsewhere", async || switch.is_switched.load(Ordering::SeqCst)).await;
    // Watches break, and begin again there.
    one.stop();
    eventually("the cluster is known to be another", async || {
        above.heartbeat()["reason"] == "AnotherCluster"
    })
    .await;
    above.say(&map_line("settings", 2, "two"));
    above.say(&map_line("more", 1, "one"));
    above.say(&Line::Remove { target: map("settings"), since: 0 });
    // Two more looks, so that whoever was about to do something has done it.
    for _ in 0..2 {
        let last = above.beats();
        eventually("the cluster is looked at again", async || above.beats() > last).await;
    }
    running.stop().await;
    assert_eq!(*switch.writes.lock().unwrap(), Vec::<String>::new());
    let there = client(other.url(), &other.authority());
    assert!(there.get("/api/v1/namespaces/shop").await.is_err());
    assert_eq!(
        above.record("settings").map(|record| record.state),
        Some(State::Applied),
        "nothing is said of it"
    );
    assert_ne!(above.heartbeat()["id"], Value::Null);
}
