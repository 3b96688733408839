//! The servers that other tests rely on start, respond, and keep their data across restarts.

use atoll_testkit::{Atoll, ClientError, Upstream};
use serde_json::json;

#[tokio::test]
async fn atoll_keeps_its_data_and_address_across_restarts() {
    let mut atoll = Atoll::start();
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kept" } });
    let client = atoll.client();
    assert_eq!(client.post(path, &object).await.unwrap().status, 201);
    let mut watch = client.watch(&format!("{path}?watch=1")).await.unwrap();
    let event = watch.next().await.unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("kept")));

    let url = atoll.url().to_string();
    atoll.kill9();
    assert!(matches!(client.get(path).await, Err(ClientError::Unreachable(_) | ClientError::Interrupted(_))));
    atoll.restart();
    assert_eq!(atoll.url(), url);
    assert_eq!(client.get(&format!("{path}/kept")).await.unwrap().status, 200);
    assert!(atoll.kubeconfig().exists());
    assert!(atoll.stop().success());
}

#[tokio::test]
async fn upstream_serves_the_same_client() {
    let Some(upstream) = Upstream::shared() else { return };
    let version = upstream.client().get("/version").await.unwrap().json();
    assert_eq!(version["gitVersion"], "v1.36.4");
}
