//! Objects that several suites use, and raw bytes on a connection. Everything else is in `atoll_testkit`.
#![allow(dead_code, reason = "every suite uses a part of this")]

pub mod raw;

/// Returns the path of a `ConfigMap` in the namespace `default`.
pub fn config_map(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns a `ConfigMap` with one value.
pub fn config_map_with(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value },
    })
}

/// Returns the value of a placement annotation without the uids of its clusters.
pub fn without_uids(placement: &str) -> String {
    let Some(mut placement) = atoll_fleet::Placement::parse(placement) else { return placement.to_string() };
    placement.clusters.iter_mut().for_each(|share| share.uid.clear());
    placement.leaving.iter_mut().for_each(|one| one.uid.clear());
    placement.text().unwrap_or_default()
}

/// Returns the clusters of a Placement without their uids.
pub fn shares(placement: &serde_json::Value) -> serde_json::Value {
    let mut shares = placement["spec"]["clusters"].clone();
    for share in shares.as_array_mut().into_iter().flatten() {
        share.as_object_mut().and_then(|share| share.remove("uid"));
    }
    shares
}
