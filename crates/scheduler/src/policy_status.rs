//! The status of policies: how many objects they apply to, and how many of these they have placed.

use std::sync::Arc;

use atoll_informer::Cache;
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::Scheduler;
use crate::counts::Count;

/// The condition of a policy that applies to an object.
const MATCHED: &str = "Matched";

/// Writes the status of policies whose counts have changed, for as long as it is polled.
pub async fn run(scheduler: &Scheduler) {
    loop {
        let changed = scheduler.counts.next().await;
        for cache in [&scheduler.policies.of_namespaces, &scheduler.policies.of_workspaces] {
            for policy in cache.all().into_iter().filter(|policy| changed.contains(object::uid(policy))) {
                if let Err(status) = write(scheduler, cache, &policy).await {
                    tracing::debug!(%status, policy = object::name(&policy), "the status of a policy cannot be written");
                    scheduler.counts.policy_changed(object::uid(&policy));
                }
            }
        }
    }
}

async fn write(scheduler: &Scheduler, cache: &Cache, policy: &Arc<Value>) -> Result<(), Status> {
    let count = scheduler.counts.of(object::uid(policy));
    let now = scheduler.writer.clock.now().to_time();
    let status = status(policy, count, &now);
    if policy["status"] == status {
        return Ok(());
    }
    let mut changed = policy.as_ref().clone();
    changed["status"] = status;
    match scheduler.api.update_status(&cache.resource, &changed).await {
        Ok(written) => {
            cache.wrote(&written);
            Ok(())
        }
        // The workspace may be at its limit.
        Err(status) if matches!(status.code(), 403 | 404) => Ok(()),
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
