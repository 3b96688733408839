//! Workloads that were released, or placed on no cluster, before releases were recorded as an intent.

use atoll_meta::object;
use atoll_meta::time::parse;
use atoll_meta::views;
use serde_json::Value;

use super::{CONDITION, NOT_PLACED, NOWHERE};
use crate::placement::Placement;
use crate::scheduled::CLUSTERS;

/// Seconds after the creation of an object within which its first condition is written.
const FIRST: i64 = 30;

/// Whether an object was on clusters and was released without a record: where no scheduler ran, its condition turned false
/// long after it was created. Objects that nothing was ever done with have the condition from the start.
pub fn was_released(object: &Value) -> bool {
    if object::annotation(object, CLUSTERS).is_some() || !Placement::of(object).is_empty() {
        return false;
    }
    let Some(condition) = views::condition(object, CONDITION) else { return false };
    let has_advice = condition.message().strip_prefix(NOWHERE).is_some_and(|rest| rest.starts_with("; "));
    let seconds = |time: Option<&str>| Some(parse(time.unwrap_or_default()).ok()?.seconds);
    let (created, since) = (
        seconds(object["metadata"]["creationTimestamp"].as_str()),
        seconds(condition.last_transition_time()),
    );
    let is_later = created.zip(since).is_some_and(|(created, since)| since - created > FIRST);
    condition.status() == "False" && condition.reason() == NOT_PLACED && has_advice && is_later
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_were_on_clusters_are_distinguished() {
        let advice = "the object is placed on no cluster, so nothing runs; place it with: atoll place deploy/web --on east";
        let of_scheduler =
            "the object stays in the control plane, so nothing runs: a policy places it nowhere";
        for (annotations, status, since, message, expected) in [
            (json!({}), "False", "10:05:00", advice, true),
            (json!({}), "False", "10:00:05", advice, false),
            (json!({}), "True", "10:05:00", advice, false),
            (json!({}), "False", "10:05:00", "the object is placed on no cluster, so nothing runs", false),
            (json!({}), "False", "10:05:00", of_scheduler, false),
            (json!({ "atoll.dev/clusters": "east" }), "False", "10:05:00", advice, false),
            (json!({ "atoll.dev/placement": r#"{"leaving":["east"]}"# }), "False", "10:05:00", advice, false),
        ] {
            let condition = json!({
                "type": "Placed", "status": status, "reason": "NotPlaced", "message": message,
                "lastTransitionTime": format!("2026-01-01T{since}Z"),
            });
            let object = json!({
                "metadata": { "creationTimestamp": "2026-01-01T10:00:00Z", "annotations": annotations },
                "status": { "conditions": [condition] },
            });
            assert_eq!(was_released(&object), expected, "{annotations} {status} {since} {message}");
        }
        assert!(!was_released(&json!({ "metadata": {} })));
    }
}
