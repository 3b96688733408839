//! What a ClusterRole gathers from others.

use serde_json::Value;

use crate::object;
use crate::selector::LabelSelector;

/// The rules that `role` is to have, `None` if it does not gather any. Those of each selector's roles in the order of their
/// names, each rule once; a selector that cannot be read is an error.
pub fn aggregated(role: &Value, all: &[Value]) -> Result<Option<Vec<Value>>, String> {
    if !role["aggregationRule"].is_object() {
        return Ok(None);
    }
    let mut gathered: Vec<Value> = Vec::new();
    for selector in list(&role["aggregationRule"]["clusterRoleSelectors"]) {
        let selector = LabelSelector::from_object(selector)?;
        let chosen = all.iter().filter(|other| selector.matches(|key| object::label(other, key)));
        let mut chosen: Vec<&Value> =
            chosen.filter(|other| object::name(other) != object::name(role)).collect();
        chosen.sort_by_key(|other| object::name(other));
        for rule in chosen.into_iter().flat_map(|other| list(&other["rules"])) {
            if !gathered.contains(rule) {
                gathered.push(rule.clone());
            }
        }
    }
    Ok(Some(gathered))
}

/// Whether `role` lacks what it is to gather, or has more.
pub fn differs(role: &Value, gathered: &[Value]) -> bool {
    list(&role["rules"]) != gathered
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_gathered_by_selector_and_name() {
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
        let gathered = aggregated(&whole, &all).unwrap().unwrap();
        assert_eq!(gathered, [rule("get"), rule("list"), rule("watch")]);
        assert!(differs(&whole, &gathered));
        whole["rules"] = json!(gathered);
        assert!(!differs(&whole, &gathered));
        assert_eq!(aggregated(&all[1], &all), Ok(None));
        assert_eq!(aggregated(&json!({ "aggregationRule": {} }), &all), Ok(Some(Vec::new())));
    }
}
