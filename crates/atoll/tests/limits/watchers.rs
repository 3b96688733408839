//! A thousand watchers of one resource, half of whom never look.

use http::Method;

use crate::support::access::{Access, Body, Http, revision};
use crate::support::process::Atoll;
use crate::support::watching::Watch;
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};

const WATCHERS: usize = 1000;
/// Streams that share a connection; the server takes 250.
const SHARED: usize = 100;
const EVENTS: usize = 300;
const SIZE: usize = 2000;

/// What each idle watcher may cost: buffers of its connection, not the events that it leaves unread.
const EACH: u64 = 192 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn all_see_every_event_in_order_and_sleepers_cost_little() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    admin.post(CONFIG_MAPS, config_map_with("watched", "start")).await.expect(201);
    let start = revision(&admin.get(CONFIG_MAPS).await.expect(200));
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");

    // Half of them look: many to a connection, as controllers do, and some on their own, as kubectl does.
    let mut readers: Vec<Watch> = Vec::new();
    let mut connections: Vec<Http> = Vec::new();
    for _ in 0..(WATCHERS / 2 - SHARED) / SHARED {
        let mut http = admin.http2().await.unwrap();
        for _ in 0..SHARED {
            readers.push(Watch::on(&mut http, &path).await.unwrap());
        }
        connections.push(http);
    }
    for _ in 0..SHARED {
        readers.push(Watch::open(&admin, &path).await);
    }
    let before = atoll.resident();
    // The others have asked and fallen asleep.
    let mut sleepers: Vec<Watch> = Vec::new();
    for _ in 0..WATCHERS / 2 {
        sleepers.push(Watch::open(&admin, &path).await);
    }
    assert_eq!(readers.len() + sleepers.len(), WATCHERS);
    // The server itself watches a few things, too.
    eventually("the server counts them all", async || counted(&admin).await >= WATCHERS).await;

    let ticks = atoll.processor_ticks();
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut watch| {
            tokio::spawn(async move {
                let mut revisions = Vec::with_capacity(EVENTS);
                for number in 0..EVENTS {
                    let event = watch.event().await;
                    assert_eq!(event.kind, "MODIFIED");
                    let (count, _) = event.value().split_once(' ').unwrap();
                    assert_eq!(count, number.to_string());
                    revisions.push(event.revision());
                }
                revisions
            })
        })
        .collect();
    let mut http = admin.http1().await.unwrap();
    let mut written = Vec::new();
    for number in 0..EVENTS {
        let object = config_map_with("watched", &format!("{number} {}", "x".repeat(SIZE)));
        let answer = http.request(Method::PUT, &config_map("watched"), Body::Json(object)).await.unwrap();
        written.push(revision(&answer.expect(200)));
    }
    for revisions in reading {
        assert_eq!(revisions.await.unwrap(), written);
    }
    let spent = atoll.processor_ticks() - ticks;
    let grown = atoll.resident().saturating_sub(before);
    println!("{EVENTS} events to {WATCHERS} watchers: {spent} ticks, {} KiB more", grown >> 10);
    assert!(
        grown < EACH * WATCHERS as u64 / 2,
        "sleepers cost {} KiB each",
        (grown >> 10) / (WATCHERS as u64 / 2)
    );

    // Those who wake up find everything that they have slept through.
    for mut watch in sleepers.drain(..).take(10) {
        for revision in &written {
            assert_eq!(watch.event().await.revision(), *revision);
        }
    }
    drop(connections);
    eventually("the server has forgotten those who left", async || counted(&admin).await < SHARED).await;
}

/// Watches under way, as the server counts them.
async fn counted(admin: &Access) -> usize {
    let metrics = admin.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("apiserver_longrunning_requests "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {metrics}"))
}
