//! Affinity and tolerations of a pod.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::object::validate_label_selector;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Errors, Fields, broken_rules, named};
use crate::{node_selector, topology};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks `affinity`.
pub(super) fn affinity(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(affinity) = spec.field("affinity") else { return };
    let path = path.child("affinity");
    if let Some(nodes) = affinity.field("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(selector) = nodes.field(REQUIRED) {
            node_selector::check_selector(errors, selector, &path.child(REQUIRED));
        }
        node_selector::check_preferences(errors, nodes.list(PREFERRED), &path.child(PREFERRED));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.field(field) else { continue };
        let path = path.child(field);
        for (index, term) in pods.list(REQUIRED).iter().enumerate() {
            pod_term(errors, term, &path.child(REQUIRED).index(index));
        }
        for (index, weighted) in pods.list(PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(index);
            let weight = weighted.integer("weight");
            if !(1..=100).contains(&weight) {
                let detail = "must be in the range 1-100";
                errors.push(FieldError::invalid(&path.child("weight"), weight, detail));
            }
            pod_term(errors, weighted.part("podAffinityTerm"), &path.child("podAffinityTerm"));
        }
    }
}

fn pod_term(errors: &mut Errors, term: &Value, path: &FieldPath) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.field(field) {
            errors.extend(validate_label_selector(selector, &path.child(field)));
        }
    }
    for name in term.texts("namespaces") {
        broken_rules(errors, || path.child("namespace"), name, names::name_is_dns_label(name, false));
    }
    topology::check_label_keys(errors, term, path);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    broken_rules(errors, || path.child("topologyKey"), key, names::qualified_name(key));
}

/// Checks `tolerations`.
pub(crate) fn tolerations(errors: &mut Errors, tolerations: &[Value], path: &FieldPath) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = || path.index(index);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        if !key.is_empty() {
            broken_rules(errors, || path().child("key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&path().child("operator"), named(operator), detail));
        }
        if toleration.field("tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(&path().child("effect"), named(effect), detail));
        }
        match operator {
            "Equal" | "" => {
                let rules = names::label_value(value);
                if !rules.is_empty() {
                    errors.push(FieldError::invalid(&path().child("operator"), value, rules.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(FieldError::invalid(&path().child("operator"), value, detail));
                }
            }
            other => {
                // Lt and Gt are behind a feature gate, but the message lists them.
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                let known = if matches!(other, "Lt" | "Gt") { 4 } else { 2 };
                let path = path().child("operator");
                errors.push(FieldError::not_supported(&path, named(other), &supported[..known]));
            }
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(&path().child("effect"), named(effect), &supported));
        }
    }
}
