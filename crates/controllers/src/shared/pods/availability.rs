//! States of pods.

// upstream: pkg/api/v1/pod/util.go
// upstream: pkg/controller/controller_utils.go

use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::PodView;
use serde_json::Value;

pub fn phase(pod: &Value) -> &str {
    PodView::of(pod).phase()
}

/// Whether the pod has finished.
pub fn is_terminal(pod: &Value) -> bool {
    PodView::of(pod).is_finished()
}

/// Whether the pod is neither finished nor being deleted.
pub fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !object::is_being_deleted(pod)
}

/// Whether the pod is being deleted and not finished.
pub fn is_terminating(pod: &Value) -> bool {
    !is_terminal(pod) && object::is_being_deleted(pod)
}

pub fn is_ready(pod: &Value) -> bool {
    PodView::of(pod).is_ready()
}

/// Returns since when a pod is ready.
pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    let condition = PodView::of(pod).condition("Ready").filter(|condition| condition.is_true())?;
    let since = time::parse(condition.last_transition_time()?).ok()?;
    (!since.is_zero()).then_some(since)
}

/// Whether a pod is ready for at least `min_ready_seconds`.
pub fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds == 0
            || ready_since(pod).is_some_and(|since| later(since, min_ready_seconds) <= now))
}

/// Returns the time until a ready pod becomes available. `None` if time alone changes nothing.
pub fn available_after(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let due = later(ready_since(pod)?, min_ready_seconds);
    let nanos = (i128::from(due.seconds) - i128::from(now.seconds)) * 1_000_000_000 + i128::from(due.nanos)
        - i128::from(now.nanos);
    u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos)
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::new(time.seconds.saturating_add(seconds), time.nanos)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &str, since: Value) -> Value {
        json!({"status": {"conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": status, "lastTransitionTime": since},
        ]}})
    }

    #[test]
    fn pods_are_available_after_min_ready_seconds() {
        let now = time::parse("2026-11-15T08:00:10Z").unwrap();
        let cases = [
            (pod("True", json!("2026-11-15T08:00:00Z")), 0, true, None),
            (pod("True", json!("2026-11-15T08:00:00Z")), 10, true, None),
            (pod("True", json!("2026-11-15T08:00:00Z")), 11, false, Some(1)),
            (pod("True", json!("2026-11-15T08:00:10Z")), 30, false, Some(30)),
            (pod("True", Value::Null), 0, true, None),
            (pod("True", Value::Null), 1, false, None),
            (pod("False", json!("2026-11-15T08:00:00Z")), 0, false, None),
            (pod("False", json!("2026-11-15T08:00:00Z")), 30, false, None),
            (json!({}), 0, false, None),
        ];
        for (pod, seconds, available, after) in cases {
            assert_eq!(is_available(&pod, seconds, now), available, "{pod} {seconds}");
            let after = after.map(Duration::from_secs);
            assert_eq!(available_after(&pod, seconds, now), after, "{pod} {seconds}");
        }
    }

    #[test]
    fn terminating_and_finished_pods_are_not_active() {
        let cases = [
            (json!({"status": {"phase": "Running"}}), true, false),
            (json!({"status": {"phase": "Pending"}}), true, false),
            (json!({}), true, false),
            (json!({"status": {"phase": "Succeeded"}}), false, false),
            (json!({"status": {"phase": "Failed"}}), false, false),
            (json!({"metadata": {"deletionTimestamp": "2026-11-15T08:00:00Z"}}), false, true),
            (
                json!({"metadata": {"deletionTimestamp": "2026-11-15T08:00:00Z"}, "status": {"phase": "Failed"}}),
                false,
                false,
            ),
        ];
        for (pod, active, terminating) in cases {
            assert_eq!((is_active(&pod), is_terminating(&pod)), (active, terminating), "{pod}");
        }
    }
}
