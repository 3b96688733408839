//! Workloads of the group apps.

// upstream: pkg/apis/apps/validation/validation.go

mod controller_revision;
mod daemon_set;
mod deployment;
mod stateful_set;

use atoll_meta::field::BadValue;
use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{LabelSelector, names, object};
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};
use crate::pod::{check_always_restarted, same, template};
use crate::selectors;

pub(crate) use controller_revision::CHECKS as CONTROLLER_REVISIONS;
pub(crate) use daemon_set::CHECKS as DAEMON_SETS;
pub(crate) use deployment::{DEPLOYMENTS, REPLICA_SETS};
pub(crate) use stateful_set::CHECKS as STATEFUL_SETS;

/// Renders a selector as in upstream's messages.
pub(crate) fn render_selector(selector: &FieldValue<'_>) -> BadValue {
    BadValue::Rendered(selectors::render(selector.value))
}

/// Checks that the selector of a spec did not change.
pub(crate) fn same_selector(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    let selector = new.get("selector");
    if !same(selector.value, old.get("selector").value) {
        errors.push(selector.invalid_as(render_selector(&selector), FIELD_IS_IMMUTABLE));
    }
}

fn is_empty(selector: &FieldValue<'_>) -> bool {
    selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty()
}

/// Checks a selector that is required and must not be empty.
fn required_selector(errors: &mut Errors, selector: &FieldValue<'_>, kind: &str) {
    if !selector.is_set() {
        errors.push(selector.required(""));
        return;
    }
    errors.extend(object::validate_label_selector(selector.value, &selector.path));
    if is_empty(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(selector.invalid_as(render_selector(selector), detail));
    }
}

/// Whether a selector, if it is valid, matches these labels.
pub(crate) fn selects(selector: &LabelSelector, labels: &Value) -> bool {
    selector.matches(|key| labels.get(key).and_then(Value::as_str))
}

/// Checks that the selector of a workload matches the labels of its pod template.
pub(crate) fn check_selected(errors: &mut Errors, selector: &LabelSelector, template: &FieldValue<'_>) {
    let labels = template.get("metadata").get("labels");
    if !selects(selector, labels.value) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
}

/// Checks selector and template of a Deployment or a ReplicaSet.
fn selector_and_template(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let (selector_field, pod) = (spec.get("selector"), spec.get("template"));
    // Upstream's messages say "deployment" for both kinds.
    required_selector(errors, &selector_field, "deployment");
    match LabelSelector::from_object(selector_field.value) {
        Err(_) => {
            let rendered = render_selector(&selector_field);
            errors.push(selector_field.invalid_as(rendered, "invalid label selector"));
        }
        Ok(selector) => {
            if !selector.is_empty() {
                check_selected(errors, &selector, &pod);
            }
            template::check(errors, &pod, old.map(|old| old.get("template")).as_ref());
            check_always_restarted(errors, &pod, "ReplicaSet");
        }
    }
}

/// Checks a number or a percentage.
fn int_or_percent(errors: &mut Errors, amount: &FieldValue<'_>) {
    match amount.optional_text() {
        Some(text) => amount.rules(errors, names::percent(text)),
        None => amount.not_negative(errors),
    }
}

/// Returns the number of a well-formed percentage.
fn percent(amount: &FieldValue<'_>) -> Option<i64> {
    let text = amount.optional_text()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    // Go's conversion saturates.
    text.strip_suffix('%').map(|digits| digits.parse().unwrap_or(i64::MAX))
}

/// Returns the number, or the number of the percentage. Other strings are parsed as numbers, or else count as
/// zero.
fn amount(field: &FieldValue<'_>) -> i64 {
    let of_text = || field.text().parse().ok();
    percent(field).or_else(|| field.number()).or_else(of_text).unwrap_or_default()
}

fn at_most_hundred_percent(errors: &mut Errors, amount: &FieldValue<'_>) {
    if percent(amount).is_some_and(|percent| percent > 100) {
        errors.push(amount.invalid("must not be greater than 100%"));
    }
}

/// Checks that the collision count of a status did not decrease.
fn collisions(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    let count = new.get("collisionCount");
    let before = old.get("collisionCount").number();
    if before.is_some_and(|before| count.number().is_none_or(|count| count < before)) {
        errors.push(count.invalid_integer("cannot be decremented"));
    }
}

/// Checks that these numbers of a status are not negative.
fn not_negative(errors: &mut Errors, status: &FieldValue<'_>, fields: &[&'static str]) {
    for field in fields {
        status.get(field).not_negative(errors);
    }
}

#[cfg(test)]
mod tests;
