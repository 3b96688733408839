//! Conditions in a status: one per type, with the time of the last transition.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/conditions.go

pub use atoll_meta::views::condition as find;
use serde_json::Value;

/// Replaces the condition of the same type and keeps the transition time if the status is unchanged. Returns
/// whether anything changed.
pub fn set(conditions: &mut Vec<Value>, mut condition: Value, now: &str) -> bool {
    let position = conditions.iter().position(|old| old["type"] == condition["type"]);
    let old = position.map(|position| &conditions[position]);
    condition["lastTransitionTime"] = match old {
        Some(old) if old["status"] == condition["status"] && old["lastTransitionTime"].is_string() => {
            old["lastTransitionTime"].clone()
        }
        _ => now.into(),
    };
    match position {
        Some(position) if conditions[position] == condition => return false,
        Some(position) => conditions[position] = condition,
        None => conditions.push(condition),
    }
    true
}

/// Sets a condition in the status of an object.
pub fn set_in(object: &mut Value, condition: Value, now: &str) -> bool {
    let mut conditions = match object["status"]["conditions"].take() {
        Value::Array(conditions) => conditions,
        _ => Vec::new(),
    };
    let changed = set(&mut conditions, condition, now);
    object["status"]["conditions"] = conditions.into();
    changed
}

/// Removes a condition from the status of an object. Returns whether it existed.
pub fn remove_from(object: &mut Value, r#type: &str) -> bool {
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return false };
    let before = conditions.len();
    conditions.retain(|condition| condition["type"] != r#type);
    conditions.len() < before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn transition_time_changes_with_the_status() {
        let condition = |status: &str, reason: &str| json!({"type": "A", "status": status, "reason": reason});
        let mut object = json!({"status": {}});
        for (status, reason, now, changed, since) in [
            ("True", "x", "1", true, "1"),
            ("True", "x", "2", false, "1"),
            ("True", "y", "3", true, "1"),
            ("False", "y", "4", true, "4"),
        ] {
            assert_eq!(set_in(&mut object, condition(status, reason), now), changed, "{now}");
            let found = find(&object, "A").unwrap();
            assert_eq!((found.last_transition_time(), found.reason()), (Some(since), reason));
        }
        assert!(remove_from(&mut object, "A") && find(&object, "A").is_none());
        assert!(!remove_from(&mut object, "A") && !remove_from(&mut json!({}), "A"));
    }
}
