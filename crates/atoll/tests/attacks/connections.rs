//! Clients that open connections and send no requests.

use atoll_testkit::wait::within;
use atoll_testkit::{Client, RequestContent, Setup, Watch};
use http::Method;
use serde_json::json;

use crate::support::raw::Raw;

/// Files that the server may open.
const OPEN_FILES: usize = 256;
/// The HTTP/2 preface with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn silent(client: &Client) -> Raw {
    let mut raw = Raw::open_with_protocol(client, "h2").await;
    raw.send(PREFACE).await.unwrap();
    raw
}

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
        held.push(silent(&anonymous).await);
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

    held.swap_remove(0).rest().await;
    let text = within("metrics are served", admin.get("/metrics")).await.text();
    let value = |name: &str| -> usize {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    assert!(value("atoll_closed_connections") >= OPEN_FILES, "{text}");
    assert_eq!(value("atoll_refused_connections"), 0);
    assert!(value("atoll_connections") <= OPEN_FILES / 8, "one address has half of the connections");
}
