//! The status of a Job.

// upstream: pkg/controller/job/job_controller.go
// upstream: pkg/controller/job/util/utils.go

use atoll_meta::time::Timestamp;
use atoll_meta::views::{self, ConditionView};
use serde_json::{Value, json};

use crate::shared::views::JobView;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    pub conditions: Vec<Value>,
    pub start_time: Option<String>,
    pub completion_time: Option<String>,
    pub active: i64,
    pub ready: Option<i64>,
    pub terminating: Option<i64>,
    pub succeeded: i64,
    pub failed: i64,
    pub completed_indexes: String,
    pub failed_indexes: Option<String>,
    /// Uids of finished pods that still have the tracking finalizer.
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
}

/// A condition of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub reason: String,
    pub message: String,
}

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const SUSPENDED: &str = "Suspended";

impl Condition {
    pub fn new(kind: &'static str, reason: &str, message: impl Into<String>) -> Condition {
        Condition { kind, reason: reason.into(), message: message.into() }
    }

    /// Returns the condition with another type.
    pub fn as_kind(&self, kind: &'static str) -> Condition {
        Condition { kind, ..self.clone() }
    }

    fn to_value(&self, status: &str, now: Timestamp) -> Value {
        json!({
            "type": self.kind,
            "status": status,
            "lastProbeTime": now.to_time(),
            "lastTransitionTime": now.to_time(),
            "reason": self.reason,
            "message": self.message,
        })
    }
}

impl JobStatus {
    pub fn of(job: &Value) -> JobStatus {
        let view = JobView::of(job);
        let status = view.status().json();
        let text = |field: &str| status[field].as_str().map(String::from);
        let count = |field: &str| status[field].as_i64();
        let uids = |field: &str| {
            let list = status["uncountedTerminatedPods"][field].as_array().into_iter().flatten();
            list.filter_map(|uid| uid.as_str().map(String::from)).collect()
        };
        JobStatus {
            conditions: view.status().conditions().to_vec(),
            start_time: view.start_time().map(String::from),
            completion_time: view.completion_time().map(String::from),
            active: count("active").unwrap_or(0),
            ready: count("ready"),
            terminating: count("terminating"),
            succeeded: count("succeeded").unwrap_or(0),
            failed: count("failed").unwrap_or(0),
            completed_indexes: text("completedIndexes").unwrap_or_default(),
            failed_indexes: text("failedIndexes"),
            uncounted_succeeded: uids("succeeded"),
            uncounted_failed: uids("failed"),
        }
    }

    /// Serializes the status. Some fields are written only if not zero.
    pub fn to_value(&self) -> Value {
        let mut uncounted = json!({});
        for (field, uids) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !uids.is_empty() {
                uncounted[field] = json!(uids);
            }
        }
        let mut status = json!({"uncountedTerminatedPods": uncounted});
        if !self.conditions.is_empty() {
            status["conditions"] = json!(self.conditions);
        }
        let texts = [
            ("startTime", self.start_time.as_deref()),
            ("completionTime", self.completion_time.as_deref()),
            ("completedIndexes", Some(self.completed_indexes.as_str()).filter(|text| !text.is_empty())),
            ("failedIndexes", self.failed_indexes.as_deref()),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                status[field] = text.into();
            }
        }
        let counts = [
            ("active", Some(self.active).filter(|count| *count != 0)),
            ("ready", self.ready),
            ("terminating", self.terminating),
            ("succeeded", Some(self.succeeded).filter(|count| *count != 0)),
            ("failed", Some(self.failed).filter(|count| *count != 0)),
        ];
        for (field, count) in counts {
            if let Some(count) = count {
                status[field] = count.into();
            }
        }
        status
    }

    pub fn condition(&self, kind: &'static str) -> Option<Condition> {
        let mut conditions = self.conditions.iter().map(ConditionView::of);
        let found = conditions.find(|condition| condition.kind() == kind && condition.is_true())?;
        Some(Condition::new(kind, found.reason(), found.message()))
    }

    pub fn add(&mut self, condition: &Condition, now: Timestamp) {
        self.conditions.push(condition.to_value("True", now));
    }

    /// Sets a condition true or false. A missing condition is not added as false. Returns whether anything
    /// changed.
    pub fn ensure(&mut self, condition: &Condition, is_true: bool, now: Timestamp) -> bool {
        let status = if is_true { "True" } else { "False" };
        let is_kind = |known: &&mut Value| ConditionView::of(known).kind() == condition.kind;
        let Some(known) = self.conditions.iter_mut().find(is_kind) else {
            if is_true {
                self.add(condition, now);
            }
            return is_true;
        };
        let view = ConditionView::of(known);
        let is_changed = (view.status(), view.reason(), view.message())
            != (status, condition.reason.as_str(), condition.message.as_str());
        if is_changed {
            *known = condition.to_value(status, now);
        }
        is_changed
    }
}

/// Returns the condition `Complete` or `Failed` of a finished Job.
pub fn finished(job: &Value) -> Option<ConditionView<'_>> {
    views::conditions(job).find(|end| matches!(end.kind(), COMPLETE | FAILED) && end.is_true())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip() {
        let full = json!({
            "conditions": [{"type": "Suspended", "status": "True"}],
            "startTime": "2026-11-15T08:00:00Z",
            "active": 1, "ready": 0, "terminating": 0, "succeeded": 2, "failed": 3,
            "completedIndexes": "0,1", "failedIndexes": "",
            "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b", "c"]},
        });
        assert_eq!(JobStatus::of(&json!({"status": full})).to_value(), full);
        assert_eq!(JobStatus::default().to_value(), json!({"uncountedTerminatedPods": {}}));
    }

    #[test]
    fn ensure_reports_changes() {
        let now = Timestamp::new(1_800_000_000, 0);
        let mut status = JobStatus::default();
        let suspended = Condition::new(SUSPENDED, "JobSuspended", "Job suspended");
        let resumed = Condition::new(SUSPENDED, "JobResumed", "Job resumed");
        assert!(!status.ensure(&resumed, false, now), "a missing condition stays missing");
        assert!(status.conditions.is_empty());
        assert!(status.ensure(&suspended, true, now));
        assert!(!status.ensure(&suspended, true, now));
        assert!(status.ensure(&resumed, false, now));
        assert_eq!(status.conditions.len(), 1);
        assert_eq!(status.condition(SUSPENDED), None);
    }
}
