//! The next status of an object, given the previous one.
//!
//! API servers validate status transitions: counts must not decrease, and a finished Job stays finished.
//! Aggregates of changing clusters may violate that.

use serde_json::{Map, Value};

/// Conditions of a Job and the condition that must precede each.
const FINISH_CONDITIONS: &[(&str, &str)] = &[("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")];

/// Returns the status to write after `before`, for an object of a resource (group and name) with the
/// aggregate `status`.
pub fn next_status(resource: (&str, &str), before: &Value, status: Value) -> Value {
    let (Some(old), Value::Object(mut new)) = (before.as_object(), status.clone()) else { return status };
    match resource {
        ("apps", _) => keep_greatest(&mut new, old, "collisionCount"),
        ("batch", "jobs") if FINISH_CONDITIONS.iter().any(|(end, _)| holds(old, end)) => {
            return before.clone();
        }
        ("batch", "jobs") => job(&mut new, old),
        _ => {}
    }
    Value::Object(new)
}

fn job(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    keep_greatest(new, old, "succeeded");
    keep_greatest(new, old, "failed");
    let rests = holds(old, "Suspended") || holds(new, "Suspended");
    if let (Some(start), false) = (old.get("startTime"), rests) {
        new.insert("startTime".to_owned(), start.clone());
    }
    // The predicted end of a Job never changes.
    for (index, (_, settled)) in FINISH_CONDITIONS.iter().enumerate() {
        if let Some(condition) = condition(old, settled).filter(|_| holds(old, settled)).cloned() {
            let (end, other) = FINISH_CONDITIONS[1 - index];
            remove(new, end);
            remove(new, other);
            if !holds(new, settled) {
                remove(new, settled);
                push(new, condition);
            }
        }
    }
    if !holds(new, "Complete") {
        new.remove("completionTime");
    }
    // Older clusters do not set it.
    for (end, settled) in FINISH_CONDITIONS {
        if let Some(mut condition) = condition(new, end).filter(|_| holds(new, end)).cloned()
            && !holds(new, settled)
        {
            remove(new, settled);
            condition["type"] = (*settled).into();
            push(new, condition);
        }
    }
}

fn keep_greatest(new: &mut Map<String, Value>, old: &Map<String, Value>, name: &str) {
    if let Some(before) = old.get(name).and_then(Value::as_i64)
        && new.get(name).and_then(Value::as_i64).is_none_or(|now| now < before)
    {
        new.insert(name.to_owned(), before.into());
    }
}

fn condition<'a>(status: &'a Map<String, Value>, kind: &str) -> Option<&'a Value> {
    status.get("conditions")?.as_array()?.iter().find(|one| one["type"] == kind)
}

fn holds(status: &Map<String, Value>, kind: &str) -> bool {
    condition(status, kind).is_some_and(|one| one["status"] == "True")
}

fn remove(status: &mut Map<String, Value>, kind: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|one| one["type"] != kind);
    }
}

fn push(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.push(condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conditions(kinds: &[&str]) -> Value {
        kinds
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True", "reason": "R" }))
            .collect::<Vec<_>>()
            .into()
    }

    #[test]
    fn job_status_never_goes_back() {
        let of = |kinds: &[&str]| json!({ "conditions": conditions(kinds) });
        let cases = [
            (json!({}), json!({ "active": 1 }), json!({ "active": 1 })),
            (json!(null), json!({ "active": 1 }), json!({ "active": 1 })),
            (
                json!({ "failed": 3, "succeeded": 2 }),
                json!({ "failed": 1 }),
                json!({ "failed": 3, "succeeded": 2 }),
            ),
            (
                json!({ "failed": 1 }),
                json!({ "failed": 2, "active": 0 }),
                json!({ "failed": 2, "active": 0 }),
            ),
            (json!({ "startTime": "b" }), json!({ "startTime": "a" }), json!({ "startTime": "b" })),
            (json!({ "startTime": "b" }), json!({}), json!({ "startTime": "b" })),
            (
                json!({ "startTime": "b", "conditions": conditions(&["Suspended"]) }),
                json!({ "startTime": "a" }),
                json!({ "startTime": "a" }),
            ),
            (json!({ "startTime": "b" }), of(&["Suspended"]), of(&["Suspended"])),
            // A finished Job stays finished.
            (
                of(&["SuccessCriteriaMet", "Complete"]),
                json!({ "active": 1 }),
                of(&["SuccessCriteriaMet", "Complete"]),
            ),
            (of(&["FailureTarget", "Failed"]), of(&["Complete"]), of(&["FailureTarget", "Failed"])),
            // A predicted end stays.
            (of(&["FailureTarget"]), of(&[]), of(&["FailureTarget"])),
            (
                of(&["FailureTarget"]),
                json!({ "active": 1 }),
                json!({ "active": 1, "conditions": conditions(&["FailureTarget"]) }),
            ),
            (
                of(&["FailureTarget"]),
                json!({ "completionTime": "c", "conditions": conditions(&["SuccessCriteriaMet", "Complete"]) }),
                of(&["FailureTarget"]),
            ),
            (of(&["FailureTarget"]), of(&["FailureTarget", "Failed"]), of(&["FailureTarget", "Failed"])),
            (of(&["SuccessCriteriaMet"]), of(&["FailureTarget", "Failed"]), of(&["SuccessCriteriaMet"])),
            // Older clusters omit the preceding condition.
            (
                json!({}),
                json!({ "completionTime": "c", "conditions": conditions(&["Complete"]) }),
                json!({ "completionTime": "c", "conditions": conditions(&["Complete", "SuccessCriteriaMet"]) }),
            ),
            (json!({}), of(&["Failed"]), of(&["Failed", "FailureTarget"])),
        ];
        for (before, status, expected) in cases {
            let next = next_status(("batch", "jobs"), &before, status.clone());
            assert_eq!(next, expected, "{status} after {before}");
            assert_eq!(next_status(("batch", "jobs"), &next, status), next, "the result is stable");
        }
    }

    #[test]
    fn collision_count_never_decreases() {
        let cases = [
            (
                ("apps", "deployments"),
                json!({ "collisionCount": 2 }),
                json!({}),
                json!({ "collisionCount": 2 }),
            ),
            (
                ("apps", "daemonsets"),
                json!({ "collisionCount": 2 }),
                json!({ "collisionCount": 1 }),
                json!({ "collisionCount": 2 }),
            ),
            (
                ("apps", "deployments"),
                json!({}),
                json!({ "collisionCount": 1 }),
                json!({ "collisionCount": 1 }),
            ),
            (("", "services"), json!({ "collisionCount": 2 }), json!({}), json!({})),
        ];
        for (resource, before, status, expected) in cases {
            assert_eq!(next_status(resource, &before, status), expected);
        }
    }
}
