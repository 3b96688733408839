//! A thousand watchers of one resource, half of which never read.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, KeptConnection, RequestContent, Watch, revision};
use http::Method;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const WATCHERS: usize = 1000;
/// Streams that share a connection. The server allows 250.
const SHARED: usize = 100;
const EVENTS: usize = 300;
const SIZE: usize = 2000;

/// Memory that each idle watcher may use: buffers of its connection, not its unread events.
const MEMORY_PER_IDLE_WATCHER: u64 = 192 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_get_all_events_in_order_and_idle_ones_use_little_memory() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    admin.post(CONFIG_MAPS, config_map_with("watched", "start")).await.expect(201);
    let start = revision(&admin.get(CONFIG_MAPS).await.expect(200));
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");

    // Half of them read: many on one connection, as controllers do, and some on their own, as kubectl does.
    let mut readers: Vec<Watch> = Vec::new();
    let mut connections: Vec<KeptConnection> = Vec::new();
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
    // The others have opened their watch and do not read.
    let mut idle: Vec<Watch> = Vec::new();
    for _ in 0..WATCHERS / 2 {
        idle.push(Watch::open(&admin, &path).await);
    }
    assert_eq!(readers.len() + idle.len(), WATCHERS);
    // The server itself watches some resources, too.
    eventually("the server has opened all watches", async || open_watches(&admin).await >= WATCHERS).await;

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
        let answer =
            http.request(Method::PUT, &config_map("watched"), RequestContent::Json(object)).await.unwrap();
        written.push(revision(&answer.expect(200)));
    }
    for revisions in reading {
        assert_eq!(revisions.await.unwrap(), written);
    }
    let spent = atoll.processor_ticks() - ticks;
    let grown = atoll.resident().saturating_sub(before);
    println!("{EVENTS} events to {WATCHERS} watchers: {spent} ticks, {} KiB more", grown >> 10);
    assert!(
        grown < MEMORY_PER_IDLE_WATCHER * WATCHERS as u64 / 2,
        "idle watchers use {} KiB each",
        (grown >> 10) / (WATCHERS as u64 / 2)
    );

    // Idle watchers that start to read get all events.
    for mut watch in idle.drain(..).take(10) {
        for revision in &written {
            assert_eq!(watch.event().await.revision(), *revision);
        }
    }
    drop(connections);
    eventually("the server has closed the abandoned watches", async || open_watches(&admin).await < SHARED)
        .await;
}

/// Returns the number of open watches in the server's metrics.
async fn open_watches(admin: &Client) -> usize {
    let metrics = admin.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("apiserver_longrunning_requests "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {metrics}"))
}
