//! Merges `matchLabelKeys` and `mismatchLabelKeys` into label selectors, with the label values of the Pod.

// upstream: pkg/registry/core/pod/strategy.go

use serde_json::{Map, Value, json};

pub fn merge_label_keys(pod: &mut Value) {
    let Some(labels) = pod["metadata"].get("labels").and_then(Value::as_object).cloned() else { return };
    let Some(spec) = pod.get_mut("spec") else { return };
    if let Some(affinity) = spec.get_mut("affinity") {
        for side in ["podAffinity", "podAntiAffinity"] {
            let Some(side) = affinity.get_mut(side) else { continue };
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            items(side, required).for_each(|term| merge_into(term, &labels));
            items(side, preferred)
                .filter_map(|weighted| weighted.get_mut("podAffinityTerm"))
                .for_each(|term| merge_into(term, &labels));
        }
    }
    items(spec, "topologySpreadConstraints").for_each(|constraint| merge_into(constraint, &labels));
}

fn items<'o>(holder: &'o mut Value, list: &str) -> impl Iterator<Item = &'o mut Value> {
    holder.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_into(term: &mut Value, labels: &Map<String, Value>) {
    // A missing selector matches nothing and stays missing.
    if !term.get("labelSelector").is_some_and(Value::is_object) {
        return;
    }
    let mut more = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(list).and_then(Value::as_array).into_iter().flatten() {
            if let Some(value) = key.as_str().and_then(|key| labels.get(key)) {
                more.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if more.is_empty() {
        return;
    }
    match term["labelSelector"].get_mut("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.extend(more),
        _ => term["labelSelector"]["matchExpressions"] = Value::Array(more),
    }
}
