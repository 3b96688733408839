//! `evictAfter` of kcp clusters: from that time on, the cluster is cordoned and has a taint, so that the scheduler
//! moves its workloads elsewhere. All other objects are removed from it.

use std::time::Duration;

use atoll_meta::{Status, object, time};
use serde_json::{Value, json};

use super::controller::{KcpCluster, KcpController, RETRY_INTERVAL};
use crate::placed;

/// Interval between checks, because the clock may be set and new objects may have been placed since.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Taint of a cluster that its workloads leave.
const TAINT: &str = "workload.kcp.dev/evict";

/// The taints that a cluster should have; `None` if it has them.
fn taints(cluster: &Value, is_over: bool) -> Option<Vec<Value>> {
    let now = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let has = now.iter().any(|taint| taint["key"] == TAINT);
    if has == is_over {
        return None;
    }
    let mut next: Vec<Value> = now.into_iter().filter(|taint| taint["key"] != TAINT).collect();
    if is_over {
        next.push(json!({ "key": TAINT, "effect": "NoExecute" }));
    }
    Some(next)
}

/// Time left until the eviction, if the object has an `evictAfter`.
pub fn time_left(object: &Value, now: i64) -> Option<Duration> {
    let at = time::parse(object["spec"]["evictAfter"].as_str()?).ok()?;
    Some(Duration::from_secs(at.seconds.saturating_sub(now).max(0).unsigned_abs()))
}

impl KcpController {
    /// Gives the Atoll Cluster its taint, or takes it away.
    pub(super) async fn sync_taint(
        &self,
        subject: &KcpCluster<'_>,
        cluster: &Value,
        is_over: bool,
    ) -> Result<(), Status> {
        let Some(taints) = taints(cluster, is_over) else { return Ok(()) };
        let patch = json!({
            "metadata": { "resourceVersion": object::resource_version(cluster) }, "spec": { "taints": taints },
        });
        self.api().patch(&self.clusters.resource, &subject.at, "", &patch).await.map(drop)
    }

    /// Removes the placements that the scheduler does not make, if it is time. Returns when to check again.
    pub(super) async fn evict(
        &self,
        subject: &KcpCluster<'_>,
        cluster: &Value,
        left: Duration,
    ) -> Result<Duration, Status> {
        if !left.is_zero() {
            return Ok(left.min(CHECK_INTERVAL));
        }
        placed::remove_all(self.api(), &subject.at, object::uid(cluster)).await?;
        // Some placements may be paused, or new.
        let left = placed::list(self.api(), &subject.at).await?;
        Ok(if left.is_empty() { CHECK_INTERVAL } else { RETRY_INTERVAL })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_taint_comes_and_goes_and_others_stay() {
        let with = |taints: Value| json!({ "spec": { "taints": taints } });
        let (own, other) = (json!({ "key": TAINT, "effect": "NoExecute" }), json!({ "key": "gpu" }));
        for (cluster, is_over, expected) in [
            (json!({}), false, None),
            (json!({}), true, Some(vec![own.clone()])),
            (with(json!([other])), true, Some(vec![other.clone(), own.clone()])),
            (with(json!([other, own])), true, None),
            (with(json!([own, other])), false, Some(vec![other.clone()])),
        ] {
            assert_eq!(taints(&cluster, is_over), expected, "{cluster} {is_over}");
        }
    }

    #[test]
    fn time_left_is_computed_from_evict_after() {
        let at = |text: Value| json!({ "spec": { "evictAfter": text } });
        let noon = time::parse("2022-05-01T12:00:00Z").unwrap().seconds;
        for (object, now, expected) in [
            (json!({}), noon, None),
            (at(Value::Null), noon, None),
            (at("soon".into()), noon, None),
            (at("2022-05-01T12:00:00Z".into()), noon - 7, Some(7)),
            (at("2022-05-01T14:00:00+02:00".into()), noon - 7, Some(7)),
            (at("2022-05-01T12:00:00Z".into()), noon, Some(0)),
            (at("2022-05-01T12:00:00Z".into()), noon + 100, Some(0)),
        ] {
            assert_eq!(time_left(&object, now).map(|left| left.as_secs()), expected, "{object}");
        }
    }
}
