//! Creating objects, and waiting for their state.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

pub async fn create(client: &Client, path: &str, object: Value) -> Value {
    client.post(path, object).await.expect(201)
}

/// Waits until the object at `path` exists and `is` holds for it.
pub async fn wait_for(what: &str, client: &Client, path: &str, is: impl Fn(&Value) -> bool) {
    eventually(what, async || {
        let answer = client.get(path).await;
        answer.status == 200 && is(&answer.json())
    })
    .await;
}

pub async fn wait_until_deleted(client: &Client, path: &str) {
    eventually(&format!("{path} is gone"), async || client.get(path).await.status == 404).await;
}

pub fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}
