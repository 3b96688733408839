//! Requests that take too long.

use std::time::{Duration, Instant};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Next, Setup, Watch};

use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

/// The request timeout in the first of these tests: long enough for other requests to be answered in time.
const TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn endless_request_times_out() {
    let atoll =
        Setup::new().flag("--controllers", false).flag("--request-timeout", TIMEOUT.as_secs()).start();
    let admin = atoll.admin();
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1")).await;
    let mut raw = Raw::open(&admin).await;
    let head = raw.head("POST", CONFIG_MAPS, "Content-Type: application/json\r\nContent-Length: 100\r\n");
    let started = Instant::now();
    raw.send(head).await.unwrap();
    let answer = raw.answer().await.unwrap();
    assert_eq!(answer.status, 504, "{}", answer.text);
    assert!(started.elapsed() >= TIMEOUT);
    // The rest of the body is never sent, so the connection cannot be used again.
    let body = String::from_utf8(raw.rest().await).unwrap();
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Timeout".into()), "{status}");

    // Watches last as long as requested. On a busy machine a write may time out as well, and be committed or
    // not.
    eventually("something is written", async || {
        let answer = admin.post(CONFIG_MAPS, config_map_with("a", "1")).await;
        matches!(answer.status, 201 | 409)
    })
    .await;
    assert_eq!(watch.event().await.name(), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_at_its_timeout() {
    let atoll = Atoll::start_bare();
    let started = Instant::now();
    let mut watch = Watch::open(&atoll.admin(), &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    assert!(matches!(watch.next().await, Next::End));
    assert!(started.elapsed() >= Duration::from_secs(1));
}
