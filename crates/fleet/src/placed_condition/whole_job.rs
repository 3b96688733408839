//! A Job on several clusters is complete once all of its parts are.

use std::collections::HashMap;

use serde_json::Value;

use crate::placement::Placement;
use crate::view::Record;

/// Conditions that say that all of a Job has succeeded.
const SUCCESS: [&str; 2] = ["Complete", "SuccessCriteriaMet"];

/// Whether the reports cover all of a Job: each cluster of its placement has reported, and the divided
/// completions add up.
pub(super) fn is_whole(job: &Value, records: &HashMap<&str, &Record>) -> bool {
    let placement = Placement::of(job);
    let has_reported = |name: &str| records.get(name).is_some_and(|record| record.status.is_object());
    if !placement.clusters.iter().all(|share| has_reported(&share.name)) {
        return false;
    }
    let parts: Vec<i64> = placement.clusters.iter().filter_map(|share| share.completions).collect();
    let Some(whole) = job["spec"]["completions"].as_i64().filter(|_| !parts.is_empty()) else { return true };
    let succeeded = |record: &&Record| record.status["succeeded"].as_i64().unwrap_or(0).max(0);
    let (planned, done): (i64, i64) = (parts.iter().sum(), records.values().map(succeeded).sum());
    planned.max(done) >= whole
}

/// Removes what says that a Job has succeeded.
pub(super) fn reopen(status: &mut Value) {
    let Some(fields) = status.as_object_mut() else { return };
    fields.remove("completionTime");
    if let Some(conditions) = fields.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|one| !SUCCESS.iter().any(|kind| one["type"] == *kind));
    }
}
