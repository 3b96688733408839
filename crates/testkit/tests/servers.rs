//! The servers that other tests rely on start, respond, and keep their data across restarts.

use atoll_testkit::{Atoll, RequestContent, Upstream, Watch};
use http::Method;
use serde_json::json;

#[tokio::test]
async fn atoll_keeps_its_data_and_address_across_restarts() {
    let mut atoll = Atoll::start();
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kept" } });
    let client = atoll.admin().keep_alive();
    client.post(path, &object).await.expect(201);
    let event = Watch::open(&client, &format!("{path}?watch=1")).await.event().await;
    assert_eq!((event.kind.as_str(), event.name()), ("ADDED", "kept"));

    let address = atoll.address;
    atoll.kill();
    assert!(client.try_request(Method::GET, path, RequestContent::None).await.is_err());
    atoll.restart();
    assert_eq!(atoll.address, address);
    client.get(&format!("{path}/kept")).await.expect(200);
    assert!(atoll.kubeconfig().exists());
    assert!(atoll.stop().success());
}

#[tokio::test]
async fn upstream_serves_the_same_client() {
    let Some(upstream) = Upstream::shared() else { return };
    let version = upstream.admin().get("/version").await.json();
    assert_eq!(version["gitVersion"], "v1.36.4");
}
