//! Reads limits from the spec of a Deployment.

// upstream: pkg/controller/deployment/util/deployment_util.go

use atoll_meta::object;
use serde_json::Value;

use crate::shared::views::status::{AVAILABLE_REPLICAS, REPLICAS, UPDATED_REPLICAS};
use crate::shared::views::{DeploymentView, WorkloadStatusView};

/// Value that means no limit.
const UNLIMITED: i64 = i32::MAX as i64;

/// Returns how many pods may exist beyond the desired ones.
pub fn max_surge(deployment: &Value) -> i64 {
    let view = DeploymentView::of(deployment);
    if view.is_rolling() { resolve_fenceposts(view).0 } else { 0 }
}

/// Returns how many of the desired pods may be unavailable.
pub fn max_unavailable(deployment: &Value) -> i64 {
    let view = DeploymentView::of(deployment);
    match view.is_rolling() && view.replicas() > 0 {
        true => resolve_fenceposts(view).1.min(view.replicas()),
        false => 0,
    }
}

pub fn progress_deadline(deployment: &Value) -> Option<i64> {
    DeploymentView::of(deployment).progress_deadline_seconds().filter(|seconds| *seconds != UNLIMITED)
}

pub fn history_limit(deployment: &Value) -> Option<usize> {
    let limit = DeploymentView::of(deployment).own_revision_history_limit();
    usize::try_from(limit.filter(|limit| *limit != UNLIMITED)?).ok()
}

/// Returns maxSurge and maxUnavailable. Both may round to zero, which would block a rollout, so then one pod
/// may be unavailable.
fn resolve_fenceposts(deployment: DeploymentView<'_>) -> (i64, i64) {
    let wanted = deployment.replicas();
    let surge = scaled_value(deployment.max_surge(), wanted, true);
    let unavailable = scaled_value(deployment.max_unavailable(), wanted, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Returns a number, or a percentage of `total`.
fn scaled_value(value: &Value, total: i64, up: bool) -> i64 {
    if let Some(count) = value.as_i64() {
        return count;
    }
    let percent: Option<i64> = value.as_str().and_then(|text| text.strip_suffix('%')?.parse().ok());
    let whole = percent.unwrap_or(0).saturating_mul(total);
    if up { whole.div_euclid(100) + i64::from(whole.rem_euclid(100) > 0) } else { whole.div_euclid(100) }
}

/// Whether a Deployment with this status is completely rolled out.
pub fn is_complete(deployment: &Value, status: WorkloadStatusView<'_>) -> bool {
    let wanted = DeploymentView::of(deployment).replicas();
    [UPDATED_REPLICAS, REPLICAS, AVAILABLE_REPLICAS].into_iter().all(|field| status.count(field) == wanted)
        && status.observed_generation() >= object::generation(deployment)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fenceposts_are_numbers_or_percentages() {
        // Replicas, surge, unavailable; expected result.
        for (replicas, surge, unavailable, wanted) in [
            (2, json!("0%"), json!("1%"), (0, 1)),
            (1, json!("0%"), json!("1%"), (0, 1)),
            (2, json!("1%"), json!("25%"), (1, 0)),
            (1, json!("1%"), json!("25%"), (1, 0)),
            (2, json!("1%"), json!("0%"), (1, 0)),
            (10, json!("25%"), json!("25%"), (3, 2)),
            (4, json!("25%"), json!("25%"), (1, 1)),
            (10, json!(3), json!(2), (3, 2)),
            (3, json!("100%"), json!(7), (3, 3)),
            (0, json!(1), json!(1), (1, 0)),
            (5, Value::Null, Value::Null, (0, 1)),
        ] {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let mut deployment = json!({"spec": {
                "replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            }});
            assert_eq!((max_surge(&deployment), max_unavailable(&deployment)), wanted, "{deployment}");
            deployment["spec"]["strategy"] = json!({"type": "Recreate"});
            assert_eq!((max_surge(&deployment), max_unavailable(&deployment)), (0, 0));
        }
    }

    #[test]
    fn max_int32_means_no_limit() {
        for (value, deadline, history) in
            [(json!(600), Some(600), Some(600)), (json!(0), Some(0), Some(0)), (json!(i32::MAX), None, None)]
        {
            let deployment =
                json!({"spec": {"progressDeadlineSeconds": value, "revisionHistoryLimit": value}});
            assert_eq!(progress_deadline(&deployment), deadline);
            assert_eq!(history_limit(&deployment), history);
        }
        assert_eq!((progress_deadline(&json!({})), history_limit(&json!({}))), (None, None));
    }
}
