//! Aggregated ClusterRoles.

// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go

use serde_json::Value;

use crate::object;
use crate::selector::LabelSelector;

/// Returns the rules that `role` aggregates, or `None` if it is not an aggregated role. The rules of each
/// selector's roles are in the order of the role names, without duplicates. An invalid selector is an error.
pub fn aggregate_rules(role: &Value, all: &[Value]) -> Result<Option<Vec<Value>>, String> {
    if !role["aggregationRule"].is_object() {
        return Ok(None);
    }
    let mut aggregated_rules: Vec<Value> = Vec::new();
    for selector in list(&role["aggregationRule"]["clusterRoleSelectors"]) {
        let selector = LabelSelector::from_object(selector)?;
        let chosen = all.iter().filter(|other| selector.matches_labels(&object::label_map(other)));
        let mut chosen: Vec<&Value> =
            chosen.filter(|other| object::name(other) != object::name(role)).collect();
        chosen.sort_by_key(|other| object::name(other));
        for rule in chosen.into_iter().flat_map(|other| list(&other["rules"])) {
            if !aggregated_rules.contains(rule) {
                aggregated_rules.push(rule.clone());
            }
        }
    }
    Ok(Some(aggregated_rules))
}

/// Whether the rules of `role` differ from the aggregated ones.
pub fn differs(role: &Value, aggregated_rules: &[Value]) -> bool {
    list(&role["rules"]) != aggregated_rules
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_aggregated_by_selector_and_name() {
        let role = |name: &str, labels: Value, rules: Value| json!({ "metadata": { "name": name, "labels": labels }, "rules": rules });
        let rule = |verb: &str| json!({ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] });
        let mut whole = role("whole", json!({ "to": "whole" }), Value::Null);
        whole["aggregationRule"] = json!({ "clusterRoleSelectors": [
            { "matchLabels": { "to": "whole" } },
            { "matchExpressions": [{ "key": "also", "operator": "Exists" }] },
        ]});
        let all = [
            whole.clone(),
            role("c", json!({ "also": "" }), json!([rule("get"), rule("watch")])),
            role("b", json!({ "to": "whole" }), json!([rule("list")])),
            role("a", json!({ "to": "whole" }), json!([rule("get"), rule("list")])),
            role("d", json!({ "to": "other" }), json!([rule("delete")])),
        ];
        let aggregated_rules = aggregate_rules(&whole, &all).unwrap().unwrap();
        assert_eq!(aggregated_rules, [rule("get"), rule("list"), rule("watch")]);
        assert!(differs(&whole, &aggregated_rules));
        whole["rules"] = json!(aggregated_rules);
        assert!(!differs(&whole, &aggregated_rules));
        assert_eq!(aggregate_rules(&all[1], &all), Ok(None));
        assert_eq!(aggregate_rules(&json!({ "aggregationRule": {} }), &all), Ok(Some(Vec::new())));
    }
}
