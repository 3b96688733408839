//! PodDisruptionBudget.

// upstream: pkg/apis/policy/v1/conversion.go

use serde_json::Value;

use crate::object::{ObjectMap, child_mut};

/// Removes the requirement that represents the empty selector of v1beta1, unless it is the only one.
pub fn disruption_budget(spec: &mut ObjectMap) {
    const LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let Some(selector) = child_mut(spec, "selector") else { return };
    let has_labels =
        selector.get("matchLabels").and_then(Value::as_object).is_some_and(|labels| !labels.is_empty());
    let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") else { return };
    let is_legacy = |expression: &Value| expression["key"] == LABEL;
    let matches_none = !has_labels
        && expressions.len() == 1
        && is_legacy(&expressions[0])
        && expressions[0]["operator"] == "Exists"
        && expressions[0].get("values").is_none_or(Value::is_null);
    if !matches_none {
        expressions.retain(|expression| !is_legacy(expression));
        if expressions.is_empty() {
            selector.remove("matchExpressions");
        }
    }
}
