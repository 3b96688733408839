//! What is to be known of a Pod.

use atoll_meta::object;
use serde_json::Value;

/// Whether a condition of an object is true.
pub fn is_true(object: &Value, condition: &str) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

pub fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Whether it counts: it neither has ended nor is it on its way out.
pub fn is_active(pod: &Value) -> bool {
    !has_ended(pod) && !object::is_being_deleted(pod)
}

/// Whether it can be counted on.
pub fn is_available(pod: &Value) -> bool {
    is_active(pod) && is_true(pod, "Ready")
}

/// Whether it is labelled as this application's.
pub fn is_of(pod: &Value, app: &str) -> bool {
    object::label(pod, "app") == Some(app)
}
