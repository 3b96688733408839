//! Nodes.

use serde_json::Value;

use super::{ConditionView, TaintView, condition, conditions, items};

crate::view! {
    /// A Node.
    NodeView
}

impl<'a> NodeView<'a> {
    pub fn is_unschedulable(self) -> bool {
        self.0["spec"]["unschedulable"] == true
    }

    pub fn taints(self) -> impl Iterator<Item = TaintView<'a>> + Clone {
        items(&self.0["spec"]["taints"]).iter().map(TaintView::of)
    }

    pub fn conditions(self) -> impl Iterator<Item = ConditionView<'a>> {
        conditions(self.0)
    }

    pub fn condition(self, kind: &str) -> Option<ConditionView<'a>> {
        condition(self.0, kind)
    }

    pub fn is_ready(self) -> bool {
        self.condition("Ready").is_some_and(ConditionView::is_true)
    }

    /// Returns the amounts that Pods can use.
    pub fn allocatable(self) -> &'a Value {
        &self.0["status"]["allocatable"]
    }

    pub fn capacity(self) -> &'a Value {
        &self.0["status"]["capacity"]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_their_defaults() {
        // Spec and status; unschedulable, ready, effects of taints.
        for (spec, status, expected) in [
            (json!(null), json!(null), (false, false, vec![])),
            (
                json!({"unschedulable": false, "taints": null}),
                json!({"conditions": []}),
                (false, false, vec![]),
            ),
            (
                json!({"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}, {"key": "l"}]}),
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
                (true, true, vec!["NoExecute", ""]),
            ),
            (
                json!({}),
                json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}),
                (false, false, vec![]),
            ),
        ] {
            let object = json!({"spec": spec, "status": status});
            let node = NodeView::of(&object);
            let effects: Vec<&str> = node.taints().map(TaintView::effect).collect();
            assert_eq!((node.is_unschedulable(), node.is_ready(), effects), expected, "{object}");
        }
    }

    #[test]
    fn amounts_are_not_parsed() {
        let object = json!({"status": {"allocatable": {"cpu": "1"}, "capacity": {"cpu": "2"}}});
        let node = NodeView::of(&object);
        assert_eq!((node.allocatable(), node.capacity()), (&json!({"cpu": "1"}), &json!({"cpu": "2"})));
        assert!(NodeView::of(&json!({})).allocatable().is_null());
    }
}
