//! Taints, and the tolerations of Pods.

// upstream: staging/src/k8s.io/api/core/v1/toleration.go

use std::collections::HashMap;

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

/// The tolerations of a Pod by key: comparing each of thousands of taints with each of thousands of tolerations
/// would take seconds.
#[derive(Clone, Debug)]
pub struct TolerationIndex<'a> {
    /// With their positions in the Pod, because the first one that matches counts.
    by_key: HashMap<&'a str, Vec<(usize, TolerationView<'a>)>>,
    /// Those of all keys; of those for the same effect, the first one.
    of_all_keys: Vec<(usize, TolerationView<'a>)>,
}

impl<'a> TolerationIndex<'a> {
    pub fn new(tolerations: impl Iterator<Item = TolerationView<'a>>) -> TolerationIndex<'a> {
        let mut index = TolerationIndex { by_key: HashMap::new(), of_all_keys: Vec::new() };
        for (position, toleration) in tolerations.enumerate() {
            let is_same = |other: &TolerationView<'_>| {
                (other.effect(), other.operator(), other.value())
                    == (toleration.effect(), toleration.operator(), toleration.value())
            };
            match toleration.key() {
                "" if index.of_all_keys.iter().any(|(_, other)| is_same(other)) => {}
                "" => index.of_all_keys.push((position, toleration)),
                key => index.by_key.entry(key).or_default().push((position, toleration)),
            }
        }
        index
    }

    /// Returns the first toleration that tolerates a taint.
    pub fn first(&self, taint: TaintView<'_>) -> Option<TolerationView<'a>> {
        let first = |mut found: std::slice::Iter<'_, (usize, TolerationView<'a>)>| {
            found.find(|(_, toleration)| toleration.tolerates(taint)).copied()
        };
        let of_key = self.by_key.get(taint.key()).and_then(|found| first(found.iter()));
        let of_all = first(self.of_all_keys.iter());
        [of_key, of_all].into_iter().flatten().min_by_key(|(position, _)| *position).map(|(_, found)| found)
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

    #[test]
    fn the_first_toleration_is_found_by_key() {
        let tolerations = [
            json!({"key": "a", "value": "w"}),
            json!({"operator": "Exists", "effect": "NoSchedule"}),
            json!({"key": "a", "operator": "Exists", "tolerationSeconds": 1}),
            json!({"key": "a", "operator": "Exists", "tolerationSeconds": 2}),
            json!({"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}),
            json!({"operator": "Exists", "tolerationSeconds": 4}),
        ];
        let index = TolerationIndex::new(tolerations.iter().map(TolerationView::of));
        for (key, value, effect) in [
            ("a", "w", "NoExecute"),
            ("a", "v", "NoExecute"),
            ("a", "v", "NoSchedule"),
            ("b", "v", "NoSchedule"),
            ("b", "v", "NoExecute"),
        ] {
            let taint = json!({"key": key, "value": value, "effect": effect});
            let taint = TaintView::of(&taint);
            let expected = tolerations.iter().find(|one| TolerationView::of(one).tolerates(taint));
            assert_eq!(index.first(taint).map(TolerationView::json), expected, "{key} {value} {effect}");
        }
        assert!(TolerationIndex::new([].into_iter()).first(TaintView::of(&json!({"key": "a"}))).is_none());
    }
}
