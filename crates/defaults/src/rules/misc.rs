//! Kinds of smaller groups.

// upstream: pkg/apis/networking/v1/defaults.go
// upstream: pkg/apis/policy/v1/conversion.go
// upstream: pkg/apis/rbac/v1/defaults.go
// upstream: pkg/apis/storage/v1/defaults.go
// upstream: pkg/apis/resource/v1/defaults.go

use serde_json::Value;

use super::RBAC;
use crate::object::{ObjectMap, child_mut, number, set, set_absent, set_empty, text};

fn is_empty(object: &ObjectMap, list: &str) -> bool {
    object.get(list).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Defaults the policy types: `Ingress`, and `Egress` if there are egress rules.
pub fn network_policy(spec: &mut ObjectMap) {
    if is_empty(spec, "policyTypes") {
        let kinds = if is_empty(spec, "egress") { vec!["Ingress"] } else { vec!["Ingress", "Egress"] };
        set(spec, "policyTypes", kinds);
    }
}

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

pub fn subject(subject: &mut ObjectMap) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        set_empty(subject, "apiGroup", RBAC);
    }
}

pub fn storage_driver(spec: &mut ObjectMap) {
    if is_empty(spec, "volumeLifecycleModes") {
        set(spec, "volumeLifecycleModes", vec!["Persistent"]);
    }
}

pub fn device_request(request: &mut ObjectMap) {
    if text(request, "allocationMode") == "ExactCount" && number(request, "count") == 0 {
        set(request, "count", 1);
    }
}

pub fn device(device: &mut ObjectMap) {
    let mappings =
        child_mut(device, "nodeAllocatableResourceMappings").into_iter().flat_map(|map| map.values_mut());
    for mapping in mappings.filter_map(Value::as_object_mut) {
        set_absent(mapping, "allocationMultiplier", "1");
    }
}
