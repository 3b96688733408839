//! Taints that follow from the conditions of a node.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

use atoll_meta::object;
use atoll_meta::views::NodeView;
use serde_json::Value;

use crate::nodes::{self, NO_EXECUTE, NO_SCHEDULE};

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, its status, and the taint for it.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Labels and their legacy names.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Returns the node's taints with the right NoSchedule taints; `None` if they are up to date.
pub fn no_schedule_taints(node: &Value, now: &str) -> Option<Vec<Value>> {
    let mut wanted = Vec::new();
    let view = NodeView::of(node);
    for condition in view.conditions() {
        let means = |(kind, status, _): &&(&str, &str, &str)| {
            condition.kind() == *kind && condition.status() == *status
        };
        wanted.extend(BY_CONDITION.iter().find(means).map(|(_, _, key)| *key));
    }
    if view.is_unschedulable() {
        wanted.push(UNSCHEDULABLE);
    }
    let managed = BY_CONDITION.iter().map(|(_, _, key)| *key).chain([UNSCHEDULABLE]);
    let add: Vec<_> = wanted.iter().map(|key| (*key, NO_SCHEDULE)).collect();
    let remove: Vec<_> = managed.filter(|key| !wanted.contains(key)).map(|key| (key, NO_SCHEDULE)).collect();
    nodes::with_taints_swapped(node, &add, &remove, now)
}

/// Returns legacy labels that must be added.
pub fn missing_labels(node: &Value) -> Vec<(&'static str, &str)> {
    let missing = |(label, older): &(&'static str, &'static str)| {
        let value = object::label(node, label)?;
        (object::label(node, older) != Some(value)).then_some((*older, value))
    };
    LABELS.iter().filter_map(missing).collect()
}

/// Returns the NoExecute taint for a Ready status, and the one that it replaces.
pub fn eviction_taint(ready: &str) -> Option<(&'static str, &'static str)> {
    match ready {
        "False" => Some((NOT_READY, UNREACHABLE)),
        "Unknown" => Some((UNREACHABLE, NOT_READY)),
        _ => None,
    }
}

/// Returns the node's taints without the NoExecute ones; `None` if it has none.
pub fn without_eviction_taints(node: &Value, now: &str) -> Option<Vec<Value>> {
    nodes::with_taints_swapped(node, &[], &[(UNREACHABLE, NO_EXECUTE), (NOT_READY, NO_EXECUTE)], now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(taints: Option<Vec<Value>>) -> Option<String> {
        let keys = |taint: &Value| {
            format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap())
        };
        taints.map(|taints| taints.iter().map(keys).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn conditions_become_taints() {
        let other = json!({"key": "mine", "effect": "NoSchedule"});
        let not_ready = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let emptied = json!({"key": NOT_READY, "effect": "NoExecute"});
        for (conditions, unschedulable, taints, expected) in [
            (json!([["Ready", "True"]]), false, json!([]), None),
            (
                json!([["Ready", "True"]]),
                true,
                json!([]),
                Some("node.kubernetes.io/unschedulable:NoSchedule"),
            ),
            (json!([["Ready", "True"]]), false, json!([other, not_ready]), Some("mine:NoSchedule")),
            (json!([["Ready", "False"]]), false, json!([not_ready, emptied]), None),
            (
                json!([["Ready", "Unknown"], ["MemoryPressure", "True"]]),
                false,
                json!([not_ready, emptied]),
                Some(
                    "node.kubernetes.io/not-ready:NoExecute node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/memory-pressure:NoSchedule",
                ),
            ),
            (json!([["PIDPressure", "Unknown"], ["Other", "True"]]), false, json!([]), None),
        ] {
            let list = conditions.as_array().unwrap().iter();
            let list: Vec<Value> = list.map(|pair| json!({"type": pair[0], "status": pair[1]})).collect();
            let node = json!({
                "spec": {"unschedulable": unschedulable, "taints": taints},
                "status": {"conditions": list},
            });
            assert_eq!(keys(no_schedule_taints(&node, "now")).as_deref(), expected, "{node}");
        }
    }

    #[test]
    fn legacy_labels_follow_current_ones() {
        let node = json!({"metadata": {"labels": {
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64",
        }}});
        assert_eq!(
            missing_labels(&node),
            [("beta.kubernetes.io/os", "linux"), ("beta.kubernetes.io/arch", "arm64")]
        );
        assert!(missing_labels(&json!({"metadata": {}})).is_empty());
    }
}
