//! Fields that several kinds of workloads have.

use atoll_meta::views::PodSpecView;
use serde_json::{Map, Value};

use super::WorkloadStatusView;

/// Old revisions that are kept if the workload does not say how many.
const DEFAULT_REVISION_HISTORY: i64 = 10;

atoll_meta::view! {
    /// A Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet or Job.
    WorkloadView
}

impl<'a> WorkloadView<'a> {
    pub(super) fn spec(self) -> &'a Value {
        &self.json()["spec"]
    }

    /// Returns the selector; a plain label map in a ReplicationController.
    pub fn selector(self) -> &'a Value {
        &self.spec()["selector"]
    }

    /// Returns the labels that the selector requires, without its expressions.
    pub fn selector_labels(self) -> Option<&'a Map<String, Value>> {
        self.selector()["matchLabels"].as_object()
    }

    /// Returns the template of the pods.
    pub fn template(self) -> &'a Value {
        &self.spec()["template"]
    }

    pub fn template_labels(self) -> Option<&'a Map<String, Value>> {
        self.template()["metadata"]["labels"].as_object()
    }

    pub fn pod_spec(self) -> PodSpecView<'a> {
        PodSpecView::of(&self.template()["spec"])
    }

    /// Returns the number of desired pods; the default is one.
    pub fn replicas(self) -> i64 {
        self.spec()["replicas"].as_i64().unwrap_or(1)
    }

    /// Returns for how long a pod must be ready to be available; the default is zero.
    pub fn min_ready_seconds(self) -> i64 {
        self.spec()["minReadySeconds"].as_i64().unwrap_or(0)
    }

    /// Returns the number of old revisions to keep, as it was set.
    pub fn own_revision_history_limit(self) -> Option<i64> {
        self.spec()["revisionHistoryLimit"].as_i64()
    }

    /// Returns the number of old revisions to keep; the default is ten.
    pub fn revision_history_limit(self) -> i64 {
        self.own_revision_history_limit().unwrap_or(DEFAULT_REVISION_HISTORY)
    }

    pub fn status(self) -> WorkloadStatusView<'a> {
        WorkloadStatusView::of(&self.json()["status"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_the_defaults_of_kubernetes() {
        // Spec; replicas, minimum of ready seconds, history limits.
        for (spec, expected) in [
            (json!(null), (1, 0, None, 10)),
            (
                json!({"replicas": null, "minReadySeconds": null, "revisionHistoryLimit": null}),
                (1, 0, None, 10),
            ),
            (json!({"replicas": 0, "minReadySeconds": 5, "revisionHistoryLimit": 0}), (0, 5, Some(0), 0)),
            (json!({"replicas": 3, "revisionHistoryLimit": 2}), (3, 0, Some(2), 2)),
        ] {
            let object = json!({ "spec": spec });
            let view = WorkloadView::of(&object);
            let found = (
                view.replicas(),
                view.min_ready_seconds(),
                view.own_revision_history_limit(),
                view.revision_history_limit(),
            );
            assert_eq!(found, expected, "{object}");
        }
    }

    #[test]
    fn templates_and_selectors_are_borrowed() {
        let object = json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {"nodeName": "n"}},
        }});
        let view = WorkloadView::of(&object);
        assert_eq!(view.selector(), &json!({"matchLabels": {"a": "b"}}));
        assert_eq!(view.selector_labels().map(Map::len), Some(1));
        assert_eq!(view.template_labels().map(Map::len), Some(2));
        assert_eq!(view.pod_spec().node_name(), Some("n"));
        let empty = WorkloadView::of(&Value::Null);
        assert!(empty.template().is_null() && empty.selector().is_null());
        assert_eq!((empty.selector_labels(), empty.template_labels()), (None, None));
    }
}
