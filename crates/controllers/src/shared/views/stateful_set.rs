//! StatefulSets.

use atoll_meta::views::{items, text};
use serde_json::Value;

super::workload_view! {
    /// A StatefulSet.
    StatefulSetView
}

impl<'a> StatefulSetView<'a> {
    /// Returns the ordinal of the first pod; the default is zero.
    pub fn first_ordinal(self) -> i64 {
        self.spec()["ordinals"]["start"].as_i64().unwrap_or(0)
    }

    pub fn claim_templates(self) -> impl Iterator<Item = &'a Value> {
        items(&self.spec()["volumeClaimTemplates"]).iter()
    }

    /// Returns the Service whose subdomain the pods are in.
    pub fn service_name(self) -> Option<&'a str> {
        text(&self.spec()["serviceName"])
    }

    /// Whether pods are created and deleted without waiting for each other.
    pub fn is_parallel(self) -> bool {
        self.spec()["podManagementPolicy"] == "Parallel"
    }

    /// Whether outdated pods are replaced by the controller.
    pub fn is_rolling(self) -> bool {
        self.spec()["updateStrategy"]["type"] == "RollingUpdate"
    }

    /// Whether outdated pods are replaced only when they are deleted.
    pub fn updates_on_delete(self) -> bool {
        self.spec()["updateStrategy"]["type"] == "OnDelete"
    }

    pub fn has_rolling_update(self) -> bool {
        !self.rolling_update().is_null()
    }

    /// Returns the number of pods that keep the current revision; the default is zero.
    pub fn partition(self) -> i64 {
        self.rolling_update()["partition"].as_i64().unwrap_or(0)
    }

    /// Whether volume claims are deleted with the set; the default is no.
    pub fn deletes_claims_with_set(self) -> bool {
        self.retention_policy()["whenDeleted"] == "Delete"
    }

    /// Whether volume claims are deleted when the set is scaled down; the default is no.
    pub fn deletes_claims_when_scaled(self) -> bool {
        self.retention_policy()["whenScaled"] == "Delete"
    }

    fn rolling_update(self) -> &'a Value {
        &self.spec()["updateStrategy"]["rollingUpdate"]
    }

    fn retention_policy(self) -> &'a Value {
        &self.spec()["persistentVolumeClaimRetentionPolicy"]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_the_defaults_of_kubernetes() {
        let empty = StatefulSetView::of(&Value::Null);
        assert_eq!((empty.first_ordinal(), empty.partition(), empty.service_name()), (0, 0, None));
        assert_eq!(empty.claim_templates().count(), 0);
        assert!(!empty.is_parallel() && !empty.has_rolling_update());
        let set = json!({"spec": {
            "ordinals": {"start": 3}, "serviceName": "s", "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": [{}, {}],
        }});
        let view = StatefulSetView::of(&set);
        assert_eq!((view.first_ordinal(), view.service_name(), view.is_parallel()), (3, Some("s"), true));
        assert_eq!(view.claim_templates().count(), 2);
    }

    #[test]
    fn update_strategies_are_read() {
        // Strategy; rolling, on delete, with limits, partition.
        for (strategy, expected) in [
            (json!(null), (false, false, false, 0)),
            (json!({"type": "OnDelete"}), (false, true, false, 0)),
            (json!({"type": "RollingUpdate"}), (true, false, false, 0)),
            (json!({"type": "RollingUpdate", "rollingUpdate": {}}), (true, false, true, 0)),
            (json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}), (true, false, true, 2)),
        ] {
            let object = json!({"spec": {"updateStrategy": strategy}});
            let view = StatefulSetView::of(&object);
            let found =
                (view.is_rolling(), view.updates_on_delete(), view.has_rolling_update(), view.partition());
            assert_eq!(found, expected, "{object}");
        }
    }

    #[test]
    fn claims_are_kept_by_default() {
        for (policy, expected) in [
            (json!(null), (false, false)),
            (json!({"whenDeleted": "Retain", "whenScaled": "Delete"}), (false, true)),
            (json!({"whenDeleted": "Delete"}), (true, false)),
        ] {
            let object = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
            let view = StatefulSetView::of(&object);
            let found = (view.deletes_claims_with_set(), view.deletes_claims_when_scaled());
            assert_eq!(found, expected, "{object}");
        }
    }
}
