//! Predicates for Pods.

use atoll_meta::object;
use serde_json::Value;

/// Returns whether a condition of an object is true.
pub fn is_true(object: &Value, condition: &str) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

pub fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns whether a Pod neither has ended nor is being deleted.
pub fn is_active(pod: &Value) -> bool {
    !has_ended(pod) && !object::is_being_deleted(pod)
}

/// Returns whether a Pod is active and ready.
pub fn is_available(pod: &Value) -> bool {
    is_active(pod) && is_true(pod, "Ready")
}

/// Returns whether a Pod has the label of this application.
pub fn is_of(pod: &Value, app: &str) -> bool {
    object::label(pod, "app") == Some(app)
}
