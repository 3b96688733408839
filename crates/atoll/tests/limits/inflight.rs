//! More requests at once than the server takes.

use atoll_testkit::wait::Waiting;
use serde_json::json;

use crate::support::access::Access;
use crate::support::process::{Atoll, Setup};
use crate::support::raw::Raw;
use crate::support::watching::Watch;
use crate::support::{CONFIG_MAPS, config_map_with, eventually};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SOMEBODY: &str = "somebody";

/// A server with one place for readers and one for writers; its administrator, who needs none; and somebody else.
async fn one_at_a_time() -> (Atoll, Access, Access) {
    let setup = Setup::new().flag("--controllers", false).flag("--max-requests-inflight", 1);
    let atoll = setup.flag("--max-mutating-requests-inflight", 1).start();
    let admin = atoll.admin();
    let binding = json!({
        "metadata": {"name": "somebody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SOMEBODY}],
    });
    admin.post(BINDINGS, binding).await.expect(201);
    let somebody = admin.acting_as(SOMEBODY, &[]);
    (atoll, admin, somebody)
}

/// A request that has its place, since the server has asked for its body, and stays under way until that is sent.
async fn hold(atoll: &Atoll, method: &str, path: &str, body: &str) -> Raw {
    let length = body.len();
    let lines = format!(
        "Impersonate-User: {SOMEBODY}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Expect: 100-continue\r\n"
    );
    let waiting = Waiting::until("there is a place");
    loop {
        let mut raw = Raw::open(&atoll.admin()).await;
        let head = raw.head(method, path, &lines);
        raw.send(head).await.unwrap();
        match raw.answer().await.unwrap().status {
            100 => return raw,
            // An answer can be here a moment before its request has left its place.
            429 => waiting.again().await,
            status => panic!("{method} {path} is answered with {status} before its body is there"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_beyond_the_limit_are_asked_to_come_back() {
    let (_atoll, admin, somebody) = one_at_a_time().await;
    // The server waits a little for a revision that is still to come, and the request keeps its place meanwhile.
    let (holder, future) = (somebody.clone(), format!("{CONFIG_MAPS}?resourceVersion={}", u64::MAX / 4));
    let holding = tokio::spawn(async move {
        loop {
            holder.get(&future).await;
        }
    });
    let mut refused = None;
    eventually("the only place is taken", async || {
        let answer = somebody.get(CONFIG_MAPS).await;
        let is_refused = answer.status == 429;
        refused = Some(answer);
        is_refused
    })
    .await;
    let refused = refused.unwrap();
    let message = refused.expect_status(429, "TooManyRequests");
    assert_eq!(message, "Too many requests, please try again later.");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["details"]["retryAfterSeconds"], 1);
    admin.get(CONFIG_MAPS).await.expect(200);

    // Writers and watchers have places of their own; probes need none, or a busy server would be restarted.
    somebody.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let mut watch =
        Watch::open(&somebody, &format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name=a")).await;
    assert_eq!(watch.event().await.name(), "a");
    for probe in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(somebody.get(probe).await.text(), "ok", "{probe}");
    }

    holding.abort();
    eventually("the place is free again", async || somebody.get(CONFIG_MAPS).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_beyond_the_limit_are_asked_to_come_back() {
    let (atoll, admin, somebody) = one_at_a_time().await;
    let body = config_map_with("held", "1").to_string();
    let mut held = hold(&atoll, "POST", CONFIG_MAPS, &body).await;
    let attempt = async || somebody.post(CONFIG_MAPS, config_map_with("other", "1")).await;
    let refused = attempt().await;
    refused.expect_status(429, "TooManyRequests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    somebody.get(CONFIG_MAPS).await.expect(200);
    admin.post(CONFIG_MAPS, config_map_with("urgent", "1")).await.expect(201);

    // Whoever goes away gives the place back, too.
    held.send(&body).await.unwrap();
    assert_eq!(held.answer().await.unwrap().status, 201);
    drop(hold(&atoll, "POST", CONFIG_MAPS, &body).await);
    eventually("the place is free again", async || attempt().await.status == 201).await;
}
