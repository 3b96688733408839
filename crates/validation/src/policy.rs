//! PodDisruptionBudgets.

// upstream: pkg/apis/policy/validation/validation.go

use atoll_meta::field::BadValue;
use atoll_meta::{json, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::{conditions, selectors};

pub(crate) static BUDGETS: Checks = Checks {
    create: |budget| self::budget(budget, false),
    update: |new, old| {
        let selector = FieldValue::field(old, "spec").get("selector");
        let lenient =
            selector.is_set() && !object::validate_label_selector(selector.value, &selector.path).is_empty();
        budget(new, lenient)
    },
    subresource: |name, new, _| if name == "status" { status(new) } else { Errors::new() },
};

fn budget(budget: &Value, lenient: bool) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(budget, "spec");
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    let (selector, policy) = (spec.get("selector"), spec.get("unhealthyPodEvictionPolicy"));
    if least.is_set() && most.is_set() {
        let rendered = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            json::to_string(least.value),
            selectors::render(selector.value),
            json::to_string(most.value),
            json::to_string(policy.value)
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(spec.invalid_as(BadValue::Rendered(rendered), detail));
    }
    for part in [&least, &most] {
        number_or_percent(&mut errors, part);
    }
    if selector.is_set() {
        selectors::check(&mut errors, &selector, lenient);
    }
    let policies = &["AlwaysAllow", "IfHealthyBudget"];
    if policy.is_set() && !policies.contains(&policy.text()) {
        errors.push(policy.unsupported(policies));
    }
    errors
}

fn number_or_percent(errors: &mut Errors, field: &FieldValue<'_>) {
    let Value::String(text) = field.value else {
        field.not_negative(errors);
        return;
    };
    let broken = names::percent(text);
    let percent = text.trim_end_matches('%').parse::<u64>();
    if broken.is_empty() && percent.map_or(true, |percent| percent > 100) {
        errors.push(field.invalid_as(field.named(), "must not be greater than 100%"));
    }
    errors.extend(broken.into_iter().map(|rule| field.invalid_as(field.named(), rule)));
}

fn status(budget: &Value) -> Errors {
    let mut errors = Errors::new();
    let status = FieldValue::field(budget, "status");
    conditions::check(&mut errors, &status.get("conditions"));
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.get(field).not_negative(&mut errors);
    }
    errors
}
