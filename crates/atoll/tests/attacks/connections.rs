//! Clients that open connections and send no requests.

use atoll_testkit::wait::{eventually, within};
use atoll_testkit::{RequestContent, Setup, Watch};
use http::Method;
use serde_json::json;

/// Files that the server may open.
const OPEN_FILES: usize = 256;

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_lock_out_others() {
    let atoll = Setup::new().idle().open_files(OPEN_FILES).start();
    let admin = atoll.admin();
    let mut kept = admin.http2().await.unwrap();
    let namespaces = "/api/v1/namespaces";
    let answer = kept.request(Method::GET, namespaces, RequestContent::None).await.unwrap();
    assert_eq!(answer.status, 200);
    let mut watch = Watch::open(&admin, &format!("{namespaces}?watch=1")).await;

    let anonymous = admin.anonymous();
    let mut held = Vec::new();
    for _ in 0..OPEN_FILES + 50 {
        // It sends no request, and answers pings.
        let silent = within("the server accepts a connection", anonymous.http2()).await;
        held.push(silent.unwrap());
    }
    for number in 0..3 {
        let name = format!("new-{number}");
        let created = admin.post(namespaces, json!({ "metadata": { "name": name } })).await;
        assert_eq!(created.status, 201);
        // The watch is in use, and was not closed.
        while watch.event().await.object["metadata"]["name"] != name.as_str() {}
    }
    // Connections of authenticated clients are closed last.
    let answer = kept.request(Method::GET, namespaces, RequestContent::None).await.unwrap();
    assert_eq!(answer.status, 200);

    eventually("the oldest silent connection is closed", async || {
        held[0].request(Method::GET, "/readyz", RequestContent::None).await.is_err()
    })
    .await;
    let text = within("metrics are served", admin.get("/metrics")).await.text();
    let value = |name: &str| -> usize {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    assert!(value("atoll_closed_connections") >= OPEN_FILES, "{text}");
    assert_eq!(value("atoll_refused_connections"), 0);
    assert!(value("atoll_connections") <= OPEN_FILES / 8, "one address has half of the connections");
}
