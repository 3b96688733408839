//! Backoff after pod failures: ten seconds, doubled each time.

// upstream: pkg/controller/job/backoff_utils.go

use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::PodView;
use serde_json::Value;

const INITIAL_SECONDS: i64 = 10;
const MAX_SECONDS: i64 = 600;

/// Number of failures since the last success, and the time of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub count: i64,
    pub last: Option<Timestamp>,
}

impl Failures {
    /// Adds newly finished pods.
    pub fn and<'a>(
        self,
        succeeded: impl Iterator<Item = &'a Value>,
        failed: impl Iterator<Item = &'a Value>,
    ) -> Failures {
        let succeeded = succeeded.map(finished).max();
        let mut failed: Vec<Timestamp> = failed.map(finished).collect();
        failed.sort_unstable();
        let Some(succeeded) = succeeded else {
            return match failed.last() {
                None => self,
                Some(last) => Failures { count: self.count + failed.len() as i64, last: Some(*last) },
            };
        };
        failed.retain(|time| *time > succeeded);
        Failures { count: failed.len() as i64, last: failed.last().copied() }
    }

    /// Returns the time until a pod may be created.
    pub fn remaining(self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.count > 0) else { return Duration::ZERO };
        let doublings = u32::try_from(self.count - 1).unwrap_or(u32::MAX).min(16);
        let wait = INITIAL_SECONDS.saturating_mul(1 << doublings).min(MAX_SECONDS);
        until(Timestamp::new(last.seconds.saturating_add(wait), last.nanos), now)
    }
}

/// Returns the time until `due`.
pub fn until(due: Timestamp, now: Timestamp) -> Duration {
    let nanos = (i128::from(due.seconds) - i128::from(now.seconds)) * 1_000_000_000 + i128::from(due.nanos)
        - i128::from(now.nanos);
    u64::try_from(nanos).map_or(Duration::ZERO, Duration::from_nanos)
}

/// Returns when a pod finished: the end of its last container, else when it became unready, was deleted, or
/// was created.
pub fn finished(pod: &Value) -> Timestamp {
    let created = || parsed(object::creation_timestamp(pod)?);
    with_containers(PodView::of(pod))
        .or_else(|| unready(PodView::of(pod)))
        .or_else(|| deleted(pod))
        .or_else(created)
        .unwrap_or(Timestamp::new(0, 0))
}

fn parsed(text: &str) -> Option<Timestamp> {
    time::parse(text).ok().filter(|time| !time.is_zero())
}

fn with_containers(pod: PodView<'_>) -> Option<Timestamp> {
    let mut last = None;
    for container in pod.container_statuses().chain(pod.sidecar_statuses()) {
        // A container that is still running: the end is unknown.
        last = last.max(Some(parsed(container.finished_at()?)?));
    }
    last
}

fn unready(pod: PodView<'_>) -> Option<Timestamp> {
    let ready = pod.condition("Ready").filter(|ready| ready.is_false())?;
    parsed(ready.last_transition_time()?)
}

fn deleted(pod: &Value) -> Option<Timestamp> {
    let end = time::parse(object::deletion_timestamp(pod)?).ok()?;
    let grace = object::deletion_grace_period_seconds(pod).unwrap_or(0);
    Some(Timestamp::new(end.seconds - grace, end.nanos))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(NOW + seconds, 0)
    }

    fn ended(seconds: i64) -> Value {
        json!({"status": {"containerStatuses": [{"state": {"terminated": {"finishedAt": at(seconds).to_time()}}}]}})
    }

    #[test]
    fn failures_are_counted_since_the_last_success() {
        let before = Failures { count: 2, last: Some(at(-50)) };
        for (succeeded, failed, count, last) in [
            (&[][..], &[][..], 2, Some(-50)),
            (&[], &[-10, -20], 4, Some(-10)),
            (&[-5], &[], 0, None),
            (&[-5], &[-10, -20], 0, None),
            (&[-15, -30], &[-10, -20], 1, Some(-10)),
        ] {
            let pods = |times: &[i64]| times.iter().map(|time| ended(*time)).collect::<Vec<_>>();
            let after = before.and(pods(succeeded).iter(), pods(failed).iter());
            assert_eq!(after, Failures { count, last: last.map(at) }, "{succeeded:?} {failed:?}");
        }
    }

    #[test]
    fn delays_double() {
        for (count, expected) in [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (100, 600)] {
            let failures = Failures { count, last: Some(at(0)) };
            assert_eq!(failures.remaining(at(0)), Duration::from_secs(expected), "{count}");
        }
        let failures = Failures { count: 2, last: Some(at(0)) };
        assert_eq!(failures.remaining(at(15)), Duration::from_secs(5));
        assert_eq!(failures.remaining(at(21)), Duration::ZERO);
    }

    #[test]
    fn finish_time_falls_back_to_readiness_deletion_and_creation() {
        let mut running = ended(-3);
        running["status"]["containerStatuses"] = json!([
            {"state": {"terminated": {"finishedAt": at(-3).to_time()}}}, {"state": {"running": {}}},
        ]);
        let conditions =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(-7).to_time()}]);
        running["status"]["conditions"] = conditions;
        let mut sidecar = ended(-3);
        sidecar["spec"]["initContainers"] = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]);
        sidecar["status"]["initContainerStatuses"] = json!([
            {"name": "s", "state": {"terminated": {"finishedAt": at(-1).to_time()}}},
            {"name": "i", "state": {}},
        ]);
        let deleted = json!({"metadata": {
            "deletionTimestamp": at(20).to_time(), "deletionGracePeriodSeconds": 30,
            "creationTimestamp": at(-99).to_time(),
        }});
        let created = json!({"metadata": {"creationTimestamp": at(-99).to_time()}});
        for (pod, expected) in [(ended(-3), -3), (running, -7), (sidecar, -1), (deleted, -10), (created, -99)]
        {
            assert_eq!(finished(&pod), at(expected), "{pod}");
        }
    }
}
