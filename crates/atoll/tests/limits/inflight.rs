//! More requests at once than the server takes.

use crate::support::process::{Atoll, Setup};
use crate::support::raw::Raw;
use crate::support::watching::Watch;
use crate::support::{CONFIG_MAPS, config_map_with, eventually};

fn one_at_a_time() -> Atoll {
    let setup = Setup::new().flag("--max-requests-inflight", 1);
    setup.flag("--max-mutating-requests-inflight", 1).start()
}

/// A request that stays under way until its body is sent.
async fn hold(atoll: &Atoll, method: &str, path: &str, body: &str) -> Raw {
    let mut raw = Raw::open(&atoll.admin()).await;
    let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let head = raw.head(method, path, &lines);
    raw.send(head).await.unwrap();
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_beyond_the_limit_are_asked_to_come_back() {
    let atoll = one_at_a_time();
    let admin = atoll.admin();
    let mut held = hold(&atoll, "GET", CONFIG_MAPS, "{}").await;
    eventually("the one place is taken", async || admin.get(CONFIG_MAPS).await.status == 429).await;
    let refused = admin.get(CONFIG_MAPS).await;
    let message = refused.expect_status(429, "TooManyRequests");
    assert_eq!(message, "Too many requests, please try again later.");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["details"]["retryAfterSeconds"], 1);

    // Writers and watchers have places of their own; probes need none, or a busy server would be restarted.
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.event().await.name(), "a");
    for probe in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(admin.get(probe).await.text(), "ok", "{probe}");
    }

    held.send("{}").await.unwrap();
    assert_eq!(held.answer().await.unwrap().status, 200);
    eventually("the place is free again", async || admin.get(CONFIG_MAPS).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_beyond_the_limit_are_asked_to_come_back() {
    let atoll = one_at_a_time();
    let admin = atoll.admin();
    let body = config_map_with("held", "1").to_string();
    let mut held = hold(&atoll, "POST", CONFIG_MAPS, &body).await;
    let attempt = async || admin.post(CONFIG_MAPS, config_map_with("other", "1")).await;
    let mut refused = None;
    eventually("the one place is taken", async || {
        let answer = attempt().await;
        let taken = answer.status == 429;
        refused = Some(answer);
        taken
    })
    .await;
    assert_eq!(refused.unwrap().header("retry-after"), Some("1"));
    admin.get(CONFIG_MAPS).await.expect(200);

    // Whoever goes away gives the place back, too.
    held.send(&body).await.unwrap();
    assert_eq!(held.answer().await.unwrap().status, 201);
    drop(hold(&atoll, "POST", CONFIG_MAPS, &body).await);
    eventually("the place is free again", async || attempt().await.status == 409).await;
}
