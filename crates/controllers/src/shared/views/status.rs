//! The status of workloads, and the names of its fields for the controllers that write it.

use atoll_meta::views::{ConditionView, items};
use serde_json::Value;

pub const AVAILABLE_REPLICAS: &str = "availableReplicas";
pub const COLLISION_COUNT: &str = "collisionCount";
pub const CONDITIONS: &str = "conditions";
pub const CURRENT_REPLICAS: &str = "currentReplicas";
pub const CURRENT_REVISION: &str = "currentRevision";
pub const FULLY_LABELED_REPLICAS: &str = "fullyLabeledReplicas";
pub const OBSERVED_GENERATION: &str = "observedGeneration";
pub const READY_REPLICAS: &str = "readyReplicas";
pub const REPLICAS: &str = "replicas";
pub const TERMINATING_REPLICAS: &str = "terminatingReplicas";
pub const UNAVAILABLE_REPLICAS: &str = "unavailableReplicas";
pub const UPDATED_REPLICAS: &str = "updatedReplicas";
pub const UPDATE_REVISION: &str = "updateRevision";

pub const CURRENT_NUMBER_SCHEDULED: &str = "currentNumberScheduled";
pub const DESIRED_NUMBER_SCHEDULED: &str = "desiredNumberScheduled";
pub const NUMBER_AVAILABLE: &str = "numberAvailable";
pub const NUMBER_MISSCHEDULED: &str = "numberMisscheduled";
pub const NUMBER_READY: &str = "numberReady";
pub const NUMBER_UNAVAILABLE: &str = "numberUnavailable";
pub const UPDATED_NUMBER_SCHEDULED: &str = "updatedNumberScheduled";

atoll_meta::view! {
    /// The status of a workload, stored or newly computed.
    WorkloadStatusView
}

impl<'a> WorkloadStatusView<'a> {
    /// Returns a count. Counts of zero may be omitted.
    pub fn count(self, field: &str) -> i64 {
        self.reported(field).unwrap_or(0)
    }

    /// Returns a count; `None` if it is omitted.
    pub fn reported(self, field: &str) -> Option<i64> {
        self.json()[field].as_i64()
    }

    pub fn observed_generation(self) -> i64 {
        self.count(OBSERVED_GENERATION)
    }

    /// Returns how often the name of a revision was taken; `None` if it never was.
    pub fn collision_count(self) -> Option<i64> {
        self.reported(COLLISION_COUNT)
    }

    /// Returns the name of the revision that most pods of a StatefulSet have; empty before there is one.
    pub fn current_revision(self) -> &'a str {
        self.text(CURRENT_REVISION)
    }

    /// Returns the name of the revision that the pods of a StatefulSet are updated to.
    pub fn update_revision(self) -> &'a str {
        self.text(UPDATE_REVISION)
    }

    pub fn conditions(self) -> &'a [Value] {
        items(&self.json()[CONDITIONS])
    }

    pub fn condition(self, kind: &str) -> Option<ConditionView<'a>> {
        self.conditions().iter().map(ConditionView::of).find(|condition| condition.kind() == kind)
    }

    fn text(self, field: &str) -> &'a str {
        self.json()[field].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_counts_are_zero() {
        for (status, replicas, ready, collisions, generation) in [
            (json!(null), 0, None, None, 0),
            (json!({"replicas": 2, "observedGeneration": 4}), 2, None, None, 4),
            (json!({"replicas": 2, "readyReplicas": 0, "collisionCount": 1}), 2, Some(0), Some(1), 0),
        ] {
            let view = WorkloadStatusView::of(&status);
            assert_eq!((view.count(REPLICAS), view.reported(READY_REPLICAS)), (replicas, ready), "{status}");
            let found = (view.collision_count(), view.observed_generation());
            assert_eq!(found, (collisions, generation), "{status}");
        }
    }

    #[test]
    fn revisions_and_conditions_may_be_unset() {
        let status = json!({"currentRevision": "a", "updateRevision": "b", "conditions": [{"type": "A"}]});
        let view = WorkloadStatusView::of(&status);
        assert_eq!((view.current_revision(), view.update_revision()), ("a", "b"));
        assert!(view.condition("A").is_some() && view.condition("B").is_none());
        let empty = WorkloadStatusView::of(&Value::Null);
        assert_eq!((empty.current_revision(), empty.conditions().len()), ("", 0));
    }
}
