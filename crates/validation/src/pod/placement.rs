//! Affinity and tolerations of a pod.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;
use atoll_meta::object::validate_label_selector;

use crate::field_value::{Errors, FieldValue};
use crate::{node_selector, topology};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks `affinity`.
pub(super) fn affinity(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(affinity) = spec.given("affinity") else { return };
    if let Some(nodes) = affinity.given("nodeAffinity") {
        if let Some(selector) = nodes.given(REQUIRED) {
            node_selector::check_selector(errors, &selector);
        }
        node_selector::check_preferences(errors, &nodes.get(PREFERRED));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.given(field) else { continue };
        for term in pods.get(REQUIRED).items() {
            pod_term(errors, &term);
        }
        for weighted in pods.get(PREFERRED).items() {
            node_selector::check_weight(errors, &weighted.get("weight"));
            pod_term(errors, &weighted.get("podAffinityTerm"));
        }
    }
}

fn pod_term(errors: &mut Errors, term: &FieldValue<'_>) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.given(field) {
            errors.extend(validate_label_selector(selector.value, &selector.path));
        }
    }
    for namespace in term.get("namespaces").items() {
        let namespace = namespace.with_path(term.path.child("namespace"));
        namespace.rules(errors, names::name_is_dns_label(namespace.text(), false));
    }
    topology::check_label_keys(errors, term);
    let key = term.get("topologyKey");
    if key.is_empty() {
        errors.push(key.required("can not be empty"));
    }
    key.rules(errors, names::qualified_name(key.text()));
}

/// Checks `tolerations`.
pub(crate) fn tolerations(errors: &mut Errors, tolerations: &FieldValue<'_>) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.text_of("value"), toleration.get("effect"));
        if !key.is_empty() {
            key.rules(errors, names::qualified_name(key.text()));
        } else if operator.text() != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(operator.invalid_named(detail));
        }
        if toleration.has("tolerationSeconds") && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(effect.invalid_named(detail));
        }
        match operator.text() {
            "Equal" | "" => {
                let rules = names::label_value(value);
                if !rules.is_empty() {
                    errors.push(operator.invalid_as(value, rules.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(operator.invalid_as(value, detail));
                }
            }
            other => {
                // Lt and Gt are behind a feature gate, but the message lists them.
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                let known = if matches!(other, "Lt" | "Gt") { 4 } else { 2 };
                errors.push(operator.unsupported(&supported[..known]));
            }
        }
        if !matches!(effect.text(), "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.push(effect.unsupported(&["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
    }
}
