mod allow;
mod parse;
mod select;

use serde_json::{Value, json};

use super::Policy;

/// Returns the JSON of a PlacementPolicy in the namespace `shop`.
fn of_namespace(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": { "name": name, "namespace": "shop", "creationTimestamp": "2026-11-16T12:00:00Z" },
        "spec": spec,
    })
}

/// Returns the JSON of a ClusterPlacementPolicy.
fn of_workspace(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy",
        "metadata": { "name": name, "creationTimestamp": "2026-11-16T12:00:00Z" },
        "spec": spec,
    })
}

fn parsed(policy: &Value) -> Policy {
    Policy::parse(policy).unwrap_or_else(|errors| panic!("{policy}: {errors:?}"))
}

fn cluster(name: &str, labels: Value, status: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels }, "status": status })
}
