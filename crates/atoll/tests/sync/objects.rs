//! Creating objects, and waiting for their state.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::eventually;

pub async fn create(access: &Access, path: &str, object: Value) -> Value {
    access.post(path, object).await.expect(201)
}

/// Waits until the object at `path` exists and `is` holds for it.
pub async fn wait_for(what: &str, access: &Access, path: &str, is: impl Fn(&Value) -> bool) {
    eventually(what, async || {
        let answer = access.get(path).await;
        answer.status == 200 && is(&answer.json())
    })
    .await;
}

pub async fn wait_until_deleted(access: &Access, path: &str) {
    eventually(&format!("{path} is gone"), async || access.get(path).await.status == 404).await;
}

pub fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}
