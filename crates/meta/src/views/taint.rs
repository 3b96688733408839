//! Taints, and the tolerations of Pods.

// upstream: staging/src/k8s.io/api/core/v1/toleration.go

crate::view! {
    /// A taint of a node, or of a cluster.
    TaintView
}

crate::view! {
    /// A toleration of a Pod.
    TolerationView
}

impl<'a> TaintView<'a> {
    pub fn key(self) -> &'a str {
        self.text("key")
    }

    pub fn value(self) -> &'a str {
        self.text("value")
    }

    pub fn effect(self) -> &'a str {
        self.text("effect")
    }

    fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }
}

impl<'a> TolerationView<'a> {
    /// Returns the key; empty for all keys.
    pub fn key(self) -> &'a str {
        self.text("key")
    }

    /// Returns the operator; the default is `Equal`.
    pub fn operator(self) -> &'a str {
        match self.text("operator") {
            "" => "Equal",
            operator => operator,
        }
    }

    pub fn value(self) -> &'a str {
        self.text("value")
    }

    /// Returns the effect; empty for all effects.
    pub fn effect(self) -> &'a str {
        self.text("effect")
    }

    /// Returns for how long a NoExecute taint is tolerated; `None` without a limit.
    pub fn seconds(self) -> Option<i64> {
        self.0["tolerationSeconds"].as_i64()
    }

    pub fn tolerates(self, taint: TaintView<'_>) -> bool {
        let is_about = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        is_about(self.effect(), taint.effect())
            && is_about(self.key(), taint.key())
            && match self.operator() {
                "Exists" => true,
                "Equal" => self.value() == taint.value(),
                _ => false,
            }
    }

    fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taints_have_texts() {
        let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        let view = TaintView::of(&taint);
        assert_eq!((view.key(), view.value(), view.effect()), ("k", "v", "NoSchedule"));
        assert_eq!(view.json(), &taint);
        assert_eq!(TaintView::of(&json!({})).value(), "");
    }

    #[test]
    fn tolerations_match_taints() {
        let taint = json!({"key": "k", "value": "v", "effect": "NoExecute"});
        for (toleration, expected) in [
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
            (json!({"key": "k"}), false),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "l", "operator": "Exists"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Gt", "value": "v"}), false),
        ] {
            let view = TolerationView::of(&toleration);
            assert_eq!(view.tolerates(TaintView::of(&taint)), expected, "{toleration}");
            assert_eq!(view.seconds(), None);
        }
        assert_eq!(TolerationView::of(&json!({"tolerationSeconds": 5})).seconds(), Some(5));
    }
}
