//! Conditions of a Deployment.

// upstream: pkg/controller/deployment/util/deployment_util.go

use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::ConditionView;
use serde_json::{Value, json};

use crate::shared::views::WorkloadStatusView;

pub const PROGRESSING: &str = "Progressing";
pub const AVAILABLE: &str = "Available";
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The conditions of a status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions(pub Vec<Value>);

impl Conditions {
    pub fn of(status: WorkloadStatusView<'_>) -> Conditions {
        Conditions(status.conditions().to_vec())
    }

    pub fn get(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|condition| ConditionView::of(condition).kind() == kind)
    }

    pub fn has_reason(&self, kind: &str, reason: &str) -> bool {
        self.get(kind).is_some_and(|condition| ConditionView::of(condition).reason() == reason)
    }

    pub fn remove(&mut self, kind: &str) {
        self.0.retain(|condition| ConditionView::of(condition).kind() != kind);
    }

    /// Sets a condition. One with the same status and reason stays unchanged.
    pub fn set(&mut self, mut condition: Value) {
        let kind = condition["type"].as_str().unwrap_or_default().to_string();
        if let Some(current) = self.get(&kind)
            && current["status"] == condition["status"]
        {
            if current["reason"] == condition["reason"] {
                return;
            }
            condition["lastTransitionTime"] = current["lastTransitionTime"].clone();
        }
        self.remove(&kind);
        self.0.push(condition);
    }

    /// Returns the last update time of a condition.
    pub fn updated(&self, kind: &str) -> Option<Timestamp> {
        time::parse(ConditionView::of(self.get(kind)?).last_update_time()?).ok()
    }
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": kind,
        "status": status,
        "lastUpdateTime": now.to_time(),
        "lastTransitionTime": now.to_time(),
        "reason": reason,
        "message": message,
    })
}
