//! `evictAfter` of kcp clusters: from that time on, the cluster is cordoned and its placements are removed.

use std::time::Duration;

use atoll_meta::{Status, object, time};
use serde_json::Value;

use super::controller::{KcpCluster, KcpController, RETRY_INTERVAL};
use crate::placed;

/// Interval between checks, because the clock may be set and new objects may have been placed since.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Time left until the eviction, if the object has an `evictAfter`.
pub fn time_left(object: &Value, now: i64) -> Option<Duration> {
    let at = time::parse(object["spec"]["evictAfter"].as_str()?).ok()?;
    Some(Duration::from_secs(at.seconds.saturating_sub(now).max(0).unsigned_abs()))
}

impl KcpController {
    /// Removes all placements if it is time. Returns when to check again.
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
    use serde_json::json;

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
