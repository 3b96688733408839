//! Computes how long a pod tolerates the taints of its node.

// upstream: pkg/controller/tainteviction/taint_eviction.go

use std::time::Duration;

use atoll_meta::views::{TaintView, TolerationIndex, TolerationView};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toleration {
    None,
    For(Duration),
    Unlimited,
}

/// The longest limited toleration: a time that far in the future can be represented.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

pub fn tolerated_for<'a>(
    taints: &[TaintView<'_>],
    tolerations: impl Iterator<Item = TolerationView<'a>>,
) -> Toleration {
    let tolerations = TolerationIndex::new(tolerations);
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.first(*taint) else {
            return Toleration::None;
        };
        if let Some(seconds) = used.seconds() {
            shortest = Some(shortest.map_or(seconds, |other| other.min(seconds)));
        }
    }
    match shortest {
        None => Toleration::Unlimited,
        Some(seconds) if seconds <= 0 => Toleration::For(Duration::ZERO),
        Some(seconds) => Toleration::For(Duration::from_secs(seconds.unsigned_abs()).min(LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use atoll_meta::views::PodSpecView;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_shortest_toleration_counts() {
        let taint = |key: &str| json!({"key": key, "value": "v", "effect": "NoExecute"});
        let (a, b) = (taint("a"), taint("b"));
        let toleration = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let minute = Duration::from_secs(60);
        for (case, taints, tolerations, expected) in [
            ("no taints", vec![], json!([]), Toleration::Unlimited),
            ("no tolerations", vec![&a], json!([]), Toleration::None),
            ("for ever", vec![&a], json!([toleration("a", Value::Null)]), Toleration::Unlimited),
            ("for a while", vec![&a], json!([toleration("a", json!(60))]), Toleration::For(minute)),
            ("not at all", vec![&a], json!([toleration("a", json!(0))]), Toleration::For(Duration::ZERO)),
            (
                "less than nothing",
                vec![&a],
                json!([toleration("a", json!(-5))]),
                Toleration::For(Duration::ZERO),
            ),
            (
                "longer than can be represented",
                vec![&a],
                json!([toleration("a", json!(i64::MAX))]),
                Toleration::For(LONGEST),
            ),
            (
                "the shortest",
                vec![&a, &b],
                json!([toleration("a", json!(60)), toleration("b", json!(90))]),
                Toleration::For(minute),
            ),
            (
                "one for ever",
                vec![&a, &b],
                json!([toleration("a", json!(60)), toleration("b", Value::Null)]),
                Toleration::For(minute),
            ),
            ("one not", vec![&a, &b], json!([toleration("a", json!(60))]), Toleration::None),
            ("everything", vec![&a, &b], json!([{"operator": "Exists"}]), Toleration::Unlimited),
            ("by value", vec![&a], json!([{"key": "a", "value": "v"}]), Toleration::Unlimited),
            ("another value", vec![&a], json!([{"key": "a", "value": "w"}]), Toleration::None),
            (
                "another effect",
                vec![&a],
                json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
                Toleration::None,
            ),
        ] {
            let taints: Vec<_> = taints.into_iter().map(TaintView::of).collect();
            let spec = json!({ "tolerations": tolerations });
            assert_eq!(tolerated_for(&taints, PodSpecView::of(&spec).tolerations()), expected, "{case}");
        }
    }
}
