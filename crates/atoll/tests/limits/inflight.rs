//! More concurrent requests than the server permits.

use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Client, Setup, Watch};
use serde_json::json;

use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const USER: &str = "somebody";

/// Starts a server with one permit for reads and one for writes. Returns its administrator, who needs no
/// permit, and another user.
async fn with_one_permit_each() -> (Atoll, Client, Client) {
    let setup = Setup::new().flag("--controllers", false).flag("--max-requests-inflight", 1);
    let atoll = setup.flag("--max-mutating-requests-inflight", 1).start();
    let admin = atoll.admin();
    let binding = json!({
        "metadata": {"name": "somebody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    admin.post(BINDINGS, binding).await.expect(201);
    let user = admin.acting_as(USER, &[]);
    (atoll, admin, user)
}

/// Starts a request that holds its permit until its body is sent: the server has asked for the body.
async fn hold_permit(atoll: &Atoll, method: &str, path: &str, body: &str) -> Raw {
    let length = body.len();
    let lines = format!(
        "Impersonate-User: {USER}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Expect: 100-continue\r\n"
    );
    let waiting = Waiting::until("a permit is free");
    loop {
        let mut raw = Raw::open(&atoll.admin()).await;
        let head = raw.head(method, path, &lines);
        raw.send(head).await.unwrap();
        match raw.answer().await.unwrap().status {
            100 => return raw,
            // A response can arrive a moment before its request has returned its permit.
            429 => waiting.again().await,
            status => panic!("{method} {path} was answered with {status} before its body was sent"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_beyond_the_limit_get_429() {
    let (_atoll, admin, user) = with_one_permit_each().await;
    // The server waits a little for a future revision, and the request holds its permit meanwhile.
    let (holder, future) = (user.clone(), format!("{CONFIG_MAPS}?resourceVersion={}", u64::MAX / 4));
    let holding = tokio::spawn(async move {
        loop {
            holder.get(&future).await;
        }
    });
    let mut refused = None;
    eventually("the only permit is taken", async || {
        let answer = user.get(CONFIG_MAPS).await;
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

    // Writes and watches have their own permits. Probes need none, or a busy server would be restarted.
    user.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let mut watch = Watch::open(&user, &format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name=a")).await;
    assert_eq!(watch.event().await.name(), "a");
    for probe in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(user.get(probe).await.text(), "ok", "{probe}");
    }

    holding.abort();
    eventually("the permit is free again", async || user.get(CONFIG_MAPS).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_beyond_the_limit_get_429() {
    let (atoll, admin, user) = with_one_permit_each().await;
    let body = config_map_with("held", "1").to_string();
    let mut held = hold_permit(&atoll, "POST", CONFIG_MAPS, &body).await;
    let attempt = async || user.post(CONFIG_MAPS, config_map_with("other", "1")).await;
    let refused = attempt().await;
    refused.expect_status(429, "TooManyRequests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    user.get(CONFIG_MAPS).await.expect(200);
    admin.post(CONFIG_MAPS, config_map_with("urgent", "1")).await.expect(201);

    // A client that disconnects returns the permit, too.
    held.send(&body).await.unwrap();
    assert_eq!(held.answer().await.unwrap().status, 201);
    drop(hold_permit(&atoll, "POST", CONFIG_MAPS, &body).await);
    eventually("the permit is free again", async || attempt().await.status == 201).await;
}
