//! Controllers of nodes, and what they share: pods by node, and taints.

// upstream: pkg/controller/util/node/controller_utils.go

pub mod node_lifecycle;
pub mod taint_eviction;

use atoll_informer::Key;
use atoll_meta::object;
use atoll_meta::views::{NodeView, PodView, TaintView};
use serde_json::{Value, json};

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";

/// Index of pods by node.
pub fn by_node(pod: &Value) -> Vec<String> {
    let node = PodView::of(pod).node_name();
    node.map(|node| Key::of(pod).in_workspace(node).to_string()).into_iter().collect()
}

pub fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    NodeView::of(node).taints().any(|taint| taint.key() == key && taint.effect() == effect)
}

/// Taints by key and effect.
pub type TaintKeys<'a> = &'a [(&'a str, &'a str)];

/// Returns the node's taints with some added and others removed; `None` if nothing changes.
pub fn with_taints_swapped(
    node: &Value,
    add: TaintKeys<'_>,
    remove: TaintKeys<'_>,
    now: &str,
) -> Option<Vec<Value>> {
    let is_removed = |taint: TaintView<'_>| {
        remove.iter().any(|(key, effect)| taint.key() == *key && taint.effect() == *effect)
    };
    let taints = NodeView::of(node).taints();
    let missing: Vec<Value> = add
        .iter()
        .filter(|(key, effect)| !has_taint(node, key, effect))
        .map(|(key, effect)| json!({"key": key, "effect": effect, "timeAdded": now}))
        .collect();
    if missing.is_empty() && !taints.clone().any(is_removed) {
        return None;
    }
    let kept = taints.filter(|taint| !is_removed(*taint)).map(|taint| taint.json().clone());
    Some(kept.chain(missing).collect())
}

/// Returns a patch of taints and labels that applies only to this resource version.
pub fn patch(node: &Value, taints: Option<Vec<Value>>, labels: &[(&str, &str)]) -> Value {
    let mut patch = json!({"metadata": {"resourceVersion": object::resource_version(node)}});
    for (label, value) in labels {
        patch["metadata"]["labels"][*label] = (*value).into();
    }
    if let Some(taints) = taints {
        patch["spec"] = json!({"taints": if taints.is_empty() { Value::Null } else { taints.into() }});
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_taints_are_not_written() {
        let node = json!({"spec": {"taints": [
            {"key": "a", "effect": NO_EXECUTE, "timeAdded": "1"},
            {"key": "mine", "effect": NO_SCHEDULE},
        ]}});
        let keys = |taints: Option<Vec<Value>>| {
            taints.map(|taints| {
                taints.iter().map(|taint| taint["key"].as_str().unwrap().to_string()).collect::<Vec<_>>()
            })
        };
        let a = [("a", NO_EXECUTE)];
        let b = [("b", NO_EXECUTE)];
        assert_eq!(keys(with_taints_swapped(&node, &b, &a, "2")).unwrap(), ["mine", "b"]);
        assert_eq!(keys(with_taints_swapped(&node, &a, &b, "2")), None);
        assert_eq!(keys(with_taints_swapped(&node, &[], &[("a", NO_SCHEDULE)], "2")), None, "another effect");
        assert_eq!(keys(with_taints_swapped(&node, &[], &a, "2")).unwrap(), ["mine"]);
    }
}
