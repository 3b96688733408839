//! Computes how long a pod tolerates the taints of its node.

use std::time::Duration;

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bears {
    Not,
    For(Duration),
    Always,
}

pub fn bears(taints: &[&Value], tolerations: &Value) -> Bears {
    let tolerations = tolerations.as_array().map_or(&[][..], Vec::as_slice);
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Bears::Not;
        };
        if let Some(seconds) = used["tolerationSeconds"].as_i64() {
            shortest = Some(shortest.map_or(seconds, |other| other.min(seconds)));
        }
    }
    match shortest {
        None => Bears::Always,
        Some(seconds) if seconds <= 0 => Bears::For(Duration::ZERO),
        Some(seconds) => Bears::For(Duration::from_secs(seconds.unsigned_abs())),
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let any_or_same = |field: &str| {
        let wanted = text(&toleration[field]);
        wanted.is_empty() || wanted == text(&taint[field])
    };
    any_or_same("effect")
        && any_or_same("key")
        && match text(&toleration["operator"]).as_str() {
            "" | "Equal" => text(&toleration["value"]) == text(&taint["value"]),
            "Exists" => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shortest_toleration_counts() {
        let taint = |key: &str| json!({"key": key, "value": "v", "effect": "NoExecute"});
        let (a, b) = (taint("a"), taint("b"));
        let bears_it = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let minute = Duration::from_secs(60);
        for (case, taints, tolerations, expected) in [
            ("no taints", vec![], json!([]), Bears::Always),
            ("no tolerations", vec![&a], json!([]), Bears::Not),
            ("for ever", vec![&a], json!([bears_it("a", Value::Null)]), Bears::Always),
            ("for a while", vec![&a], json!([bears_it("a", json!(60))]), Bears::For(minute)),
            ("not at all", vec![&a], json!([bears_it("a", json!(0))]), Bears::For(Duration::ZERO)),
            ("less than nothing", vec![&a], json!([bears_it("a", json!(-5))]), Bears::For(Duration::ZERO)),
            (
                "the shortest",
                vec![&a, &b],
                json!([bears_it("a", json!(60)), bears_it("b", json!(90))]),
                Bears::For(minute),
            ),
            (
                "one for ever",
                vec![&a, &b],
                json!([bears_it("a", json!(60)), bears_it("b", Value::Null)]),
                Bears::For(minute),
            ),
            ("one not", vec![&a, &b], json!([bears_it("a", json!(60))]), Bears::Not),
            ("everything", vec![&a, &b], json!([{"operator": "Exists"}]), Bears::Always),
            ("by value", vec![&a], json!([{"key": "a", "value": "v"}]), Bears::Always),
            ("another value", vec![&a], json!([{"key": "a", "value": "w"}]), Bears::Not),
            (
                "another effect",
                vec![&a],
                json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
                Bears::Not,
            ),
        ] {
            assert_eq!(bears(&taints, &tolerations), expected, "{case}");
        }
    }
}
