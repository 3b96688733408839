//! A real server in a process of its own, and ways to talk to it.
#![allow(dead_code, reason = "every suite uses a part of this")]

pub mod access;
pub mod process;
pub mod programs;
pub mod raw;
pub mod watching;

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Generous: machines under test are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds; fails the test, saying `what` was awaited, if it never does.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What `future` yields, or a failed test that says what was awaited.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain until {what}"),
    }
}

/// Where a `ConfigMap` of the namespace `default` is.
pub fn config_map(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A `ConfigMap` with one datum.
pub fn config_map_with(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value },
    })
}
