//! SIGTERM: requests in flight finish, and then the server exits.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Next, RequestContent, Setup, Watch};
use http::Method;

use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Starts a create request. The server has asked for its body, most of which is still unsent.
async fn start_request(admin: &Client, body: &str) -> Raw {
    let mut raw = Raw::open(admin).await;
    let length = body.len();
    let lines =
        format!("Content-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n");
    let head = raw.head("POST", CONFIG_MAPS, &lines);
    raw.send(head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 100);
    raw.send(&body[..10]).await.unwrap();
    raw
}

/// Returns whether a load balancer would still send requests to this server.
async fn is_ready(admin: &Client) -> bool {
    let Ok(mut http) = admin.http1().await else { return false };
    http.request(Method::GET, "/readyz", RequestContent::None).await.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_requests_and_ends_watches() {
    let mut atoll = Setup::new().flag("--controllers", false).flag("--shutdown-timeout", 60).start();
    let admin = atoll.admin();
    let mut first = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1")).await;
    let mut multiplexed = admin.http2().await.unwrap();
    let mut second = Watch::on(&mut multiplexed, &format!("{CONFIG_MAPS}?watch=1")).await.unwrap();
    admin.post(CONFIG_MAPS, config_map_with("before", "1")).await.expect(201);
    assert_eq!(first.event().await.name(), "before");
    assert_eq!(second.event().await.name(), "before");
    // Idle connections must not delay the shutdown.
    let mut idle = admin.http1().await.unwrap();
    idle.request(Method::GET, "/readyz", RequestContent::None).await.unwrap();
    let body = config_map_with("during", "1").to_string();
    let mut creation = start_request(&admin, &body).await;
    assert!(is_ready(&admin).await);

    atoll.terminate();
    assert!(matches!(first.next().await, Next::End));
    assert!(matches!(second.next().await, Next::End));
    eventually("the server is no longer ready", async || !is_ready(&admin).await).await;
    creation.send(&body[10..]).await.unwrap();
    assert_eq!(creation.answer().await.unwrap().status, 201);
    drop(creation);
    let status = atoll.wait();
    assert_eq!(status.code(), Some(0), "{}", atoll.log());
    // The server did not wait for a client that was done.
    assert!(!atoll.log().contains("open requests were aborted"), "{}", atoll.log());

    atoll.restart();
    atoll.admin().get(&config_map("during")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_request_does_not_delay_shutdown_beyond_the_limit() {
    let mut atoll = Setup::new().flag("--controllers", false).flag("--shutdown-timeout", 1).start();
    let admin = atoll.admin();
    let mut creation = start_request(&admin, &config_map_with("never", "1").to_string()).await;
    atoll.terminate();
    let status = atoll.wait();
    assert_eq!(status.code(), Some(0), "{}", atoll.log());
    assert!(atoll.log().contains("open requests were aborted"), "{}", atoll.log());
    assert!(creation.answer().await.is_none_or(|head| head.status >= 500));
    atoll.restart();
    atoll.admin().get(&config_map("never")).await.expect_status(404, "NotFound");
}
