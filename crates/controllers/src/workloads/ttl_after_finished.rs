//! Deletes finished Jobs after their `ttlSecondsAfterFinished`.

// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, DeleteOptions, Key, Next, Queue, resources};
use atoll_meta::time::{self, Timestamp};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::Context;
use crate::shared::enqueue;
use crate::shared::views::JobView;
use crate::workloads::job::finished;

const WORKERS: usize = 8;

#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// The Job stays until it changes.
    Never,
    After(Duration),
    Now,
}

pub async fn run(context: Context) {
    let jobs = context.informers.of(&resources::JOBS);
    let queue = Queue::new();
    enqueue::changed_objects(&jobs, &queue);
    jobs.synced().await;
    queue
        .work("finished jobs", WORKERS, move |key| {
            let (context, jobs) = (context.clone(), jobs.clone());
            async move { sync(&context, &jobs, key).await }
        })
        .await;
}

async fn sync(context: &Context, jobs: &Arc<Cache>, key: Key) -> Result<Next, Status> {
    let Some(job) = jobs.get(&key).filter(|job| context.manages(job)) else { return Ok(Next::Done) };
    match due(&job, context.clock.now())? {
        Due::Never => return Ok(Next::Done),
        Due::After(delay) => return Ok(Next::After(delay)),
        Due::Now => {}
    }
    // Read the Job again before deleting it, because the cache may be stale.
    let fresh = match context.api().get(&resources::JOBS, &key).await {
        Err(status) if status.reason() == "NotFound" => return Ok(Next::Done),
        fresh => fresh?,
    };
    match due(&fresh, context.clock.now())? {
        Due::Never => Ok(Next::Done),
        Due::After(delay) => Ok(Next::After(delay)),
        Due::Now => {
            let uid = object::uid(&fresh);
            let options =
                DeleteOptions { propagation: Some("Foreground"), uid: Some(uid), ..DeleteOptions::default() };
            match context.api().delete(&resources::JOBS, &key, options).await {
                Err(status) if status.reason() != "NotFound" => return Err(status),
                _ => jobs.deleting(&key, uid),
            }
            Ok(Next::Done)
        }
    }
}

fn due(job: &Value, now: Timestamp) -> Result<Due, Status> {
    let (Some(ttl), Some(end)) = (JobView::of(job).ttl_seconds_after_finished(), finished(job)) else {
        return Ok(Due::Never);
    };
    if object::is_being_deleted(job) {
        return Ok(Due::Never);
    }
    let ended = end.last_transition_time().and_then(|text| time::parse(text).ok());
    let Some(ended) = ended.filter(|ended| !ended.is_zero()) else {
        let (namespace, name) = (object::namespace(job), object::name(job));
        let message = format!("unable to find the time when the Job {namespace}/{name} finished");
        return Err(Status::plain_internal(message));
    };
    let left = i128::from(ended.seconds.saturating_add(ttl)) - i128::from(now.seconds);
    let nanos = left * 1_000_000_000 + i128::from(ended.nanos) - i128::from(now.nanos);
    Ok(match u64::try_from(nanos) {
        Ok(0) | Err(_) => Due::Now,
        Ok(nanos) => Due::After(Duration::from_nanos(nanos)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_are_deleted_after_their_ttl() {
        let now = time::parse("2026-11-15T08:00:10Z").unwrap();
        let ended = |kind: &str, status: &str, at: &str| json!([{"type": kind, "status": status, "lastTransitionTime": at}]);
        let complete = ended("Complete", "True", "2026-11-15T08:00:00Z");
        for (ttl, conditions, expected) in [
            (json!(null), complete.clone(), Due::Never),
            (json!(0), complete.clone(), Due::Now),
            (json!(10), complete.clone(), Due::Now),
            (json!(15), complete.clone(), Due::After(Duration::from_secs(5))),
            (json!(10), ended("Failed", "True", "2026-11-15T08:00:00Z"), Due::Now),
            (json!(10), ended("Complete", "False", "2026-11-15T08:00:00Z"), Due::Never),
            (json!(10), ended("SuccessCriteriaMet", "True", "2026-11-15T08:00:00Z"), Due::Never),
            (json!(10), json!([]), Due::Never),
            (
                json!(10),
                ended("Complete", "True", "2026-11-15T08:00:30Z"),
                Due::After(Duration::from_secs(30)),
            ),
        ] {
            let job = json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": conditions}});
            assert_eq!(due(&job, now).unwrap(), expected, "{job}");
        }
        let mut terminating =
            json!({"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": complete}});
        object::set_deletion_timestamp(&mut terminating, "2026-11-15T08:00:00Z");
        assert_eq!(due(&terminating, now).unwrap(), Due::Never);
        let timeless = json!({"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": [
            {"type": "Complete", "status": "True"},
        ]}});
        assert!(due(&timeless, now).is_err());
    }
}
