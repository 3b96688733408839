//! CronJobs.

use atoll_meta::views::{items, text};
use serde_json::Value;

atoll_meta::view! {
    /// A CronJob.
    CronJobView
}

atoll_meta::view! {
    /// The status of a CronJob, stored or newly computed.
    CronJobStatusView
}

impl<'a> CronJobView<'a> {
    fn spec(self) -> &'a Value {
        &self.json()["spec"]
    }

    pub fn schedule(self) -> &'a str {
        self.spec()["schedule"].as_str().unwrap_or_default()
    }

    /// Returns the time zone of the schedule; `None` for that of the controller, which is UTC.
    pub fn time_zone(self) -> Option<&'a str> {
        self.spec()["timeZone"].as_str()
    }

    pub fn is_suspended(self) -> bool {
        self.spec()["suspend"] == true
    }

    /// Returns how late a job may start; `None` for any time.
    pub fn starting_deadline_seconds(self) -> Option<i64> {
        self.spec()["startingDeadlineSeconds"].as_i64()
    }

    /// Returns the concurrency policy; the default is `Allow`.
    pub fn concurrency_policy(self) -> &'a str {
        text(&self.spec()["concurrencyPolicy"]).unwrap_or("Allow")
    }

    /// Returns how many successful jobs are kept; `None` for all.
    pub fn successful_jobs_history_limit(self) -> Option<i64> {
        self.spec()["successfulJobsHistoryLimit"].as_i64()
    }

    /// Returns how many failed jobs are kept; `None` for all.
    pub fn failed_jobs_history_limit(self) -> Option<i64> {
        self.spec()["failedJobsHistoryLimit"].as_i64()
    }

    pub fn job_template(self) -> &'a Value {
        &self.spec()["jobTemplate"]
    }

    pub fn status(self) -> CronJobStatusView<'a> {
        CronJobStatusView::of(&self.json()["status"])
    }
}

impl<'a> CronJobStatusView<'a> {
    /// Returns references to the running jobs.
    pub fn active(self) -> &'a [Value] {
        items(&self.json()["active"])
    }

    pub fn last_schedule_time(self) -> Option<&'a str> {
        text(&self.json()["lastScheduleTime"])
    }

    pub fn last_successful_time(self) -> Option<&'a str> {
        text(&self.json()["lastSuccessfulTime"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_the_defaults_of_kubernetes() {
        let empty = CronJobView::of(&Value::Null);
        assert_eq!((empty.schedule(), empty.time_zone(), empty.concurrency_policy()), ("", None, "Allow"));
        assert_eq!((empty.is_suspended(), empty.starting_deadline_seconds()), (false, None));
        assert_eq!((empty.successful_jobs_history_limit(), empty.failed_jobs_history_limit()), (None, None));
        assert!(empty.job_template().is_null() && empty.status().active().is_empty());
        assert_eq!(empty.status().last_schedule_time(), None);
    }

    #[test]
    fn set_fields_are_read() {
        let cron = json!({
            "spec": {
                "schedule": "* * * * *", "timeZone": "Etc/UTC", "suspend": true, "startingDeadlineSeconds": 1,
                "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 3,
                "jobTemplate": {"spec": {}},
            },
            "status": {"active": [{}], "lastScheduleTime": "s", "lastSuccessfulTime": "e"},
        });
        let (view, status) = (CronJobView::of(&cron), CronJobView::of(&cron).status());
        assert_eq!((view.schedule(), view.time_zone()), ("* * * * *", Some("Etc/UTC")));
        assert_eq!((view.is_suspended(), view.concurrency_policy()), (true, "Forbid"));
        assert_eq!(view.starting_deadline_seconds(), Some(1));
        assert_eq!(
            (view.successful_jobs_history_limit(), view.failed_jobs_history_limit()),
            (Some(2), Some(3))
        );
        assert_eq!((status.active().len(), status.last_schedule_time()), (1, Some("s")));
        assert_eq!(status.last_successful_time(), Some("e"));
        assert!(view.job_template().is_object());
    }
}
