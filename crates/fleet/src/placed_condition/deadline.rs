//! The time until which an object that waits for a cluster counts as progressing.

use atoll_meta::time;
use atoll_meta::views::condition;
use serde_json::Value;

use super::{CONDITION, ConditionValue, NOT_PLACED, PlacedObject, UNPLACED};

/// The default of `spec.progressDeadlineSeconds`.
const DEFAULT_SECONDS: i64 = 600;
/// The value that means that there is no deadline, and any above it.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// Returns when a Deployment that waits for a cluster stops progressing, in seconds since 1970. `None` if it
/// does not wait, or has no deadline.
pub fn deadline(object: &Value) -> Option<i64> {
    let placed = condition(object, CONDITION).filter(|placed| is_pending(placed.reason()))?;
    let since = time::parse(placed.last_transition_time()?).ok()?;
    limit(object).map(|limit| since.seconds.saturating_add(limit))
}

fn limit(object: &Value) -> Option<i64> {
    let limit = object["spec"]["progressDeadlineSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    (limit < NO_DEADLINE).then_some(limit)
}

/// Whether an object with this reason may be placed without a change of it: it does not stay above on purpose.
fn is_pending(reason: &str) -> bool {
    UNPLACED.contains(&reason) && reason != NOT_PLACED
}

impl PlacedObject<'_> {
    /// Whether the object waits for a cluster, and its deadline has not passed.
    pub(super) fn is_waiting(&self, verdict: &ConditionValue, now: &str) -> bool {
        if self.resource != ("apps", "deployments") || !is_pending(verdict.reason) {
            return false;
        }
        match (deadline(self.object), time::parse(now)) {
            (Some(deadline), Ok(now)) => now.seconds < deadline,
            _ => true,
        }
    }
}
