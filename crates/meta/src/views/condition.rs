//! Conditions in the status of an object.

use serde_json::Value;

use super::{items, text};

crate::view! {
    /// A condition.
    ConditionView
}

impl<'a> ConditionView<'a> {
    pub fn kind(self) -> &'a str {
        self.text("type")
    }

    /// Returns `True`, `False` or `Unknown`.
    pub fn status(self) -> &'a str {
        self.text("status")
    }

    pub fn is_true(self) -> bool {
        self.status() == "True"
    }

    pub fn is_false(self) -> bool {
        self.status() == "False"
    }

    pub fn reason(self) -> &'a str {
        self.text("reason")
    }

    pub fn message(self) -> &'a str {
        self.text("message")
    }

    pub fn last_transition_time(self) -> Option<&'a str> {
        text(&self.0["lastTransitionTime"])
    }

    /// Returns the last update time, which only conditions of Deployments have.
    pub fn last_update_time(self) -> Option<&'a str> {
        text(&self.0["lastUpdateTime"])
    }

    /// Returns the last heartbeat time, which only conditions of nodes have.
    pub fn last_heartbeat_time(self) -> Option<&'a str> {
        text(&self.0["lastHeartbeatTime"])
    }

    fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }
}

/// Returns the conditions of an object of any kind.
pub fn conditions(object: &Value) -> impl DoubleEndedIterator<Item = ConditionView<'_>> + Clone {
    items(&object["status"]["conditions"]).iter().map(ConditionView::of)
}

/// Returns the condition of a type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<ConditionView<'a>> {
    conditions(object).find(|condition| condition.kind() == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_are_found_by_type() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t"},
            {"type": "Other", "status": "Unknown", "lastUpdateTime": "u", "lastHeartbeatTime": "h"},
            {"type": "Ready", "status": "False"},
        ]}});
        let ready = condition(&object, "Ready").expect("the first of its type");
        assert_eq!((ready.kind(), ready.status(), ready.is_true()), ("Ready", "True", true));
        assert_eq!((ready.reason(), ready.message(), ready.last_transition_time()), ("R", "m", Some("t")));
        let other = condition(&object, "Other").expect("a condition");
        assert_eq!((other.is_true(), other.is_false(), other.reason()), (false, false, ""));
        assert_eq!(other.last_transition_time(), None);
        assert_eq!((other.last_update_time(), other.last_heartbeat_time()), (Some("u"), Some("h")));
        assert_eq!(conditions(&object).count(), 3);
        for object in [json!({}), json!({"status": null}), json!({"status": {"conditions": {}}})] {
            assert_eq!(condition(&object, "Ready"), None, "{object}");
        }
    }
}
