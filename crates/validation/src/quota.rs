//! ResourceQuotas and LimitRanges.

// upstream: pkg/apis/core/validation/validation.go

mod limits;

use std::collections::BTreeSet;

use atoll_meta::field::BadValue;
use atoll_meta::json;
use serde_json::Value;

pub(crate) use limits::LIMIT_RANGES;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::resources;

pub(crate) static QUOTAS: Checks = Checks {
    create: |quota| {
        let mut errors = spec(quota);
        amounts(&mut errors, &FieldValue::field(quota, "status"));
        errors
    },
    update: |new, old| {
        let mut errors = spec(new);
        let scopes = FieldValue::field(new, "spec").get("scopes");
        let before = FieldValue::field(old, "spec").get("scopes");
        if scopes.texts().collect::<BTreeSet<_>>() != before.texts().collect::<BTreeSet<_>>() {
            errors.push(scopes.invalid("field is immutable"));
        }
        errors
    },
    subresource: |name, new, _| {
        let mut errors = Errors::new();
        if name == "status" {
            amounts(&mut errors, &FieldValue::field(new, "status"));
        }
        errors
    },
};

fn amounts(errors: &mut Errors, field: &FieldValue<'_>) {
    for list in [field.get("hard"), field.get("used")] {
        for (name, amount) in list.entries() {
            resources::check_name(errors, name, &amount.path);
            if !name.contains('/') && !resources::is_standard_quota_resource(name) {
                let detail = "must be a standard resource for quota";
                errors.push(amount.invalid_as(BadValue::named_text(name), detail));
            }
            if let Some(found) = amount.quantity() {
                resources::check_amount(errors, name, &found, &amount.path);
            }
        }
    }
}

const OF_PODS: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// The standard resources that a quota with each scope can limit.
const SCOPES: &[(&str, &[&str])] = &[
    ("Terminating", OF_PODS),
    ("NotTerminating", OF_PODS),
    ("BestEffort", &["pods"]),
    ("NotBestEffort", OF_PODS),
    ("PriorityClass", OF_PODS),
    ("CrossNamespacePodAffinity", OF_PODS),
    ("VolumeAttributesClass", OF_CLAIMS),
];

fn spec(quota: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(quota, "spec");
    let (hard, scopes, selector) = (spec.get("hard"), spec.get("scopes"), spec.get("scopeSelector"));
    amounts(&mut errors, &spec);
    let unsupported = |scope: &str| {
        let allowed = SCOPES.iter().find(|(name, _)| *name == scope).map(|(_, allowed)| *allowed);
        hard.entries()
            .filter(|(name, _)| resources::is_standard_quota_resource(name))
            .filter(|(name, _)| allowed.is_some_and(|allowed| !allowed.contains(name)))
            .count()
    };
    let detail = "unsupported scope applied to resource";
    for scope in scopes.texts() {
        if !SCOPES.iter().any(|(name, _)| *name == scope) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        errors.extend((0..unsupported(scope)).map(|_| scopes.invalid(detail)));
    }
    conflicts(&mut errors, &scopes, &scopes, &scopes.texts().collect());
    if !selector.is_set() {
        return errors;
    }
    let expressions = selector.get("matchExpressions");
    // Upstream's path lacks the index of the expression.
    for expression in expressions.items() {
        let expression = expression.with_path(expressions.path.clone());
        let (scope, operator, values) =
            (expression.get("scopeName"), expression.get("operator"), expression.get("values"));
        if !SCOPES.iter().any(|(name, _)| *name == scope.text()) {
            errors.push(scope.invalid_as(scope.named(), "unsupported scope"));
        }
        let rendered = || BadValue::Rendered(render_selector(&expressions));
        errors.extend((0..unsupported(scope.text())).map(|_| expressions.invalid_as(rendered(), detail)));
        requirement(&mut errors, &scope, &operator, &values);
    }
    let named = expressions.items().map(|expression| expression.text_of("scopeName")).collect();
    conflicts(&mut errors, &expressions, &scopes, &named);
    errors
}

fn requirement(
    errors: &mut Errors,
    scope: &FieldValue<'_>,
    operator: &FieldValue<'_>,
    values: &FieldValue<'_>,
) {
    let yes_or_no = matches!(
        scope.text(),
        "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
    );
    if yes_or_no && operator.text() != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(operator.invalid_as(operator.named(), detail));
    }
    match operator.text() {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(values.required(detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(values.invalid(detail));
            }
        }
        _ => errors.push(operator.invalid_as(operator.named(), "not a valid selector operator")),
    }
}

fn conflicts(
    errors: &mut Errors,
    field: &FieldValue<'_>,
    rendered: &FieldValue<'_>,
    scopes: &BTreeSet<&str>,
) {
    for pair in [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(field.invalid_as(rendered.value.clone(), "conflicting scopes"));
        }
    }
}

fn render_selector(expressions: &FieldValue<'_>) -> String {
    let rendered = expressions.items().map(|expression| {
        let [scope, operator] =
            ["scopeName", "operator"].map(|part| BadValue::named_text(expression.text_of(part)));
        let values = json::to_string(expression.get("values").value);
        format!("{{\"ScopeName\":{scope},\"Operator\":{operator},\"Values\":{values}}}")
    });
    format!("{{\"MatchExpressions\":[{}]}}", rendered.collect::<Vec<_>>().join(","))
}
