//! Deployments.

use serde_json::Value;

super::workload_view! {
    /// A Deployment.
    DeploymentView
}

impl<'a> DeploymentView<'a> {
    /// Whether old pods are replaced step by step, instead of all being deleted first.
    pub fn is_rolling(self) -> bool {
        self.spec()["strategy"]["type"] == "RollingUpdate"
    }

    pub fn is_paused(self) -> bool {
        self.spec()["paused"] == true
    }

    /// Returns how many pods may exist beyond the desired ones: a number or a percentage.
    pub fn max_surge(self) -> &'a Value {
        &self.rolling_update()["maxSurge"]
    }

    /// Returns how many of the desired pods may be unavailable: a number or a percentage.
    pub fn max_unavailable(self) -> &'a Value {
        &self.rolling_update()["maxUnavailable"]
    }

    pub fn progress_deadline_seconds(self) -> Option<i64> {
        self.spec()["progressDeadlineSeconds"].as_i64()
    }

    fn rolling_update(self) -> &'a Value {
        &self.spec()["strategy"]["rollingUpdate"]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strategies_and_pauses_are_read() {
        // Spec; rolling, paused, deadline.
        for (spec, expected) in [
            (json!(null), (false, false, None)),
            (json!({"strategy": {"type": "Recreate"}, "paused": true}), (false, true, None)),
            (
                json!({"strategy": {"type": "RollingUpdate"}, "paused": false, "progressDeadlineSeconds": 600}),
                (true, false, Some(600)),
            ),
        ] {
            let object = json!({ "spec": spec });
            let view = DeploymentView::of(&object);
            let found = (view.is_rolling(), view.is_paused(), view.progress_deadline_seconds());
            assert_eq!(found, expected, "{object}");
            assert!(view.max_surge().is_null() && view.max_unavailable().is_null());
        }
        let rolling = json!({"maxSurge": "25%", "maxUnavailable": 1});
        let object = json!({"spec": {"replicas": 2, "strategy": {"rollingUpdate": rolling}}});
        let view = DeploymentView::of(&object);
        assert_eq!((view.max_surge(), view.max_unavailable()), (&json!("25%"), &json!(1)));
        assert_eq!(view.replicas(), 2, "the fields of all workloads are available");
    }
}
