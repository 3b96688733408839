//! The status of policies: the number of objects that they apply to, and that they have placed.

use std::sync::Arc;

use atoll_informer::{Key, Next, Queue};
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::Scheduler;
use crate::counts::Count;

/// The condition of a policy that applies to an object.
const MATCHED: &str = "Matched";

/// Statuses that are written at the same time. A workspace has at most half of them.
const WORKERS: usize = 8;

/// Writes the status of policies whose counts have changed, until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>) {
    let (queue, worker) = (Queue::new(), scheduler.clone());
    let adding = async {
        loop {
            for uid in scheduler.counts.next().await {
                if let Some(policy) = scheduler.policies.of_uid(&uid) {
                    queue.add(Key::of(&policy));
                }
            }
        }
    };
    let writing = queue.work("statuses of policies", WORKERS, move |key| {
        let scheduler = worker.clone();
        async move { write(&scheduler, &key).await }
    });
    tokio::join!(adding, writing);
}

async fn write(scheduler: &Scheduler, key: &Key) -> Result<Next, Status> {
    let policies = &scheduler.policies;
    let cache = if key.namespace.is_empty() { &policies.of_workspaces } else { &policies.of_namespaces };
    let Some(policy) = cache.get(key) else { return Ok(Next::Done) };
    let count = scheduler.counts.of(object::uid(&policy));
    let now = scheduler.writer.clock.now().to_time();
    let status = status(&policy, count, &now);
    if policy["status"] == status {
        return Ok(Next::Done);
    }
    let mut changed = policy.as_ref().clone();
    changed["status"] = status;
    match scheduler.api.update_status(&cache.resource, &changed).await {
        Ok(written) => {
            cache.wrote(&written);
            Ok(Next::Done)
        }
        // The workspace may be at its limit.
        Err(status) if matches!(status.code(), 403 | 404) => Ok(Next::Done),
        Err(status) => Err(status),
    }
}

fn status(policy: &Value, count: Count, now: &str) -> Value {
    let generation = object::generation(policy);
    let (status, reason, message) = match count.matched {
        0 => (
            "False",
            "NoObjects",
            "the policy applies to no object; compare spec.objects with the workloads".to_string(),
        ),
        1 => ("True", "Applies", "the policy applies to 1 object".to_string()),
        more => ("True", "Applies", format!("the policy applies to {more} objects")),
    };
    let known = condition(policy, MATCHED).filter(|known| known.status() == status);
    let since = known.and_then(|known| known.last_transition_time()).unwrap_or(now);
    let condition = json!({
        "type": MATCHED, "status": status, "reason": reason, "message": message,
        "observedGeneration": generation, "lastTransitionTime": since,
    });
    json!({
        "observedGeneration": generation, "matched": count.matched, "placed": count.placed,
        "conditions": [condition],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_that_matches_nothing_says_so() {
        let policy = json!({ "metadata": { "generation": 2 } });
        let empty = status(&policy, Count::default(), "now");
        assert_eq!((&empty["matched"], &empty["conditions"][0]["reason"]), (&json!(0), &json!("NoObjects")));
        let policy = json!({ "metadata": { "generation": 3 }, "status": empty });
        let used = status(&policy, Count { matched: 2, placed: 1 }, "later");
        assert_eq!((&used["placed"], &used["observedGeneration"]), (&json!(1), &json!(3)));
        assert_eq!(used["conditions"][0]["lastTransitionTime"], "later");
        let policy = json!({ "metadata": { "generation": 3 }, "status": used });
        let same = status(&policy, Count { matched: 3, placed: 1 }, "last");
        assert_eq!(
            same["conditions"][0]["lastTransitionTime"], "later",
            "the status of the condition is the same"
        );
    }
}
