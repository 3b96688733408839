//! Jobs.

use atoll_meta::views::text;
use serde_json::Value;

/// Failures that are allowed if the Job does not say how many.
const DEFAULT_BACKOFF_LIMIT: i64 = 6;

super::workload_view! {
    /// A Job.
    JobView
}

impl<'a> JobView<'a> {
    /// Returns how many pods may run at a time; the default is one.
    pub fn parallelism(self) -> i64 {
        self.spec()["parallelism"].as_i64().unwrap_or(1)
    }

    /// Returns how many pods must succeed; `None` if one success ends the Job.
    pub fn completions(self) -> Option<i64> {
        self.spec()["completions"].as_i64()
    }

    /// Returns the completion mode; the default is `NonIndexed`.
    pub fn completion_mode(self) -> &'a str {
        self.spec()["completionMode"].as_str().unwrap_or("NonIndexed")
    }

    /// Whether each pod has an index.
    pub fn is_indexed(self) -> bool {
        self.completion_mode() == "Indexed"
    }

    pub fn is_suspended(self) -> bool {
        self.spec()["suspend"] == true
    }

    /// Returns how many failures are allowed; the default is six.
    pub fn backoff_limit(self) -> i64 {
        self.spec()["backoffLimit"].as_i64().unwrap_or(DEFAULT_BACKOFF_LIMIT)
    }

    /// Returns how many failures of each index are allowed; `None` without a limit per index.
    pub fn backoff_limit_per_index(self) -> Option<i64> {
        self.spec()["backoffLimitPerIndex"].as_i64()
    }

    pub fn max_failed_indexes(self) -> Option<i64> {
        self.spec()["maxFailedIndexes"].as_i64()
    }

    pub fn active_deadline_seconds(self) -> Option<i64> {
        self.spec()["activeDeadlineSeconds"].as_i64()
    }

    /// Returns after how long the finished Job is deleted; `None` for never.
    pub fn ttl_seconds_after_finished(self) -> Option<i64> {
        self.spec()["ttlSecondsAfterFinished"].as_i64()
    }

    /// Returns the rules for failed pods; null without any.
    pub fn pod_failure_policy(self) -> &'a Value {
        &self.spec()["podFailurePolicy"]
    }

    /// Returns the rules for an early success; null without any.
    pub fn success_policy(self) -> &'a Value {
        &self.spec()["successPolicy"]
    }

    /// Whether a pod that is being deleted is replaced only after it has finished. With a pod failure policy,
    /// this is the only possibility.
    pub fn replaces_only_failed(self) -> bool {
        self.spec()["podReplacementPolicy"] == "Failed" || !self.pod_failure_policy().is_null()
    }

    /// Returns the controller that manages the Job; `None` for the built-in one.
    pub fn managed_by(self) -> Option<&'a str> {
        self.spec()["managedBy"].as_str()
    }

    pub fn start_time(self) -> Option<&'a str> {
        text(&self.status().json()["startTime"])
    }

    pub fn completion_time(self) -> Option<&'a str> {
        text(&self.status().json()["completionTime"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_the_defaults_of_kubernetes() {
        let empty = JobView::of(&Value::Null);
        assert_eq!((empty.parallelism(), empty.completions(), empty.backoff_limit()), (1, None, 6));
        assert_eq!((empty.completion_mode(), empty.is_indexed()), ("NonIndexed", false));
        assert_eq!((empty.backoff_limit_per_index(), empty.max_failed_indexes()), (None, None));
        assert_eq!((empty.active_deadline_seconds(), empty.ttl_seconds_after_finished()), (None, None));
        assert_eq!((empty.is_suspended(), empty.managed_by()), (false, None));
        assert!(empty.success_policy().is_null());
    }

    #[test]
    fn set_fields_are_read() {
        let job = json!({
            "spec": {
                "parallelism": 2, "completions": 3, "completionMode": "Indexed", "suspend": true, "backoffLimit": 0,
                "backoffLimitPerIndex": 1, "maxFailedIndexes": 4, "activeDeadlineSeconds": 5,
                "ttlSecondsAfterFinished": 6, "managedBy": "m", "successPolicy": {"rules": []},
            },
            "status": {"startTime": "s", "completionTime": "c"},
        });
        let view = JobView::of(&job);
        assert_eq!((view.parallelism(), view.completions(), view.backoff_limit()), (2, Some(3), 0));
        assert_eq!((view.is_indexed(), view.is_suspended(), view.managed_by()), (true, true, Some("m")));
        assert_eq!((view.backoff_limit_per_index(), view.max_failed_indexes()), (Some(1), Some(4)));
        assert_eq!((view.active_deadline_seconds(), view.ttl_seconds_after_finished()), (Some(5), Some(6)));
        assert_eq!((view.start_time(), view.completion_time()), (Some("s"), Some("c")));
        assert!(view.success_policy().is_object());
    }

    #[test]
    fn failure_policies_replace_only_failed_pods() {
        for (spec, expected) in [
            (json!({}), false),
            (json!({"podReplacementPolicy": "TerminatingOrFailed"}), false),
            (json!({"podReplacementPolicy": "Failed"}), true),
            (json!({"podFailurePolicy": {"rules": []}}), true),
        ] {
            let job = json!({ "spec": spec });
            assert_eq!(JobView::of(&job).replaces_only_failed(), expected, "{job}");
        }
    }
}
