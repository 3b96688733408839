//! Workloads of the group apps.

// upstream: pkg/apis/apps/validation/validation.go

mod controller_revision;
mod daemon_set;
mod deployment;
mod stateful_set;

use atoll_meta::field::BadValue;
use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, FieldPath, LabelSelector, names, object};
use serde_json::Value;

use crate::fields::{Errors, Fields, NOT_NEGATIVE};
use crate::pod::{check_always_restarted, same, template};
use crate::selectors;

pub(crate) use controller_revision::CHECKS as CONTROLLER_REVISIONS;
pub(crate) use daemon_set::CHECKS as DAEMON_SETS;
pub(crate) use deployment::{DEPLOYMENTS, REPLICA_SETS};
pub(crate) use stateful_set::CHECKS as STATEFUL_SETS;

/// Renders a selector as in upstream's messages.
pub(crate) fn render_selector(selector: &Value) -> BadValue {
    BadValue::Rendered(selectors::render(selector))
}

/// Checks that a selector did not change.
pub(crate) fn same_selector(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    if !same(new.part("selector"), old.part("selector")) {
        let path = path.child("selector");
        errors.push(FieldError::invalid(&path, render_selector(new.part("selector")), FIELD_IS_IMMUTABLE));
    }
}

fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").next().is_none() && selector.list("matchExpressions").is_empty()
}

/// Checks a selector that is required and must not be empty.
fn required_selector(errors: &mut Errors, spec: &Value, kind: &str, path: &FieldPath) {
    let path = path.child("selector");
    let Some(selector) = spec.field("selector") else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    errors.extend(object::validate_label_selector(selector, &path));
    if is_empty(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&path, render_selector(selector), detail));
    }
}

/// Whether a selector, if it is valid, matches these labels.
pub(crate) fn selects(selector: &LabelSelector, labels: &Value) -> bool {
    selector.matches(|key| labels.optional_text(key))
}

/// Checks that the selector of a workload matches the labels of its pod template.
pub(crate) fn check_selected(
    errors: &mut Errors,
    selector: &LabelSelector,
    template: &Value,
    path: &FieldPath,
) {
    let labels = template.part("metadata").part("labels");
    if !selects(selector, labels) {
        let path = path.child("metadata").child("labels");
        errors.push(FieldError::invalid(
            &path,
            labels.clone(),
            "`selector` does not match template `labels`",
        ));
    }
}

/// Checks selector and template of a Deployment or a ReplicaSet.
fn selector_and_template(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    // Upstream's messages say "deployment" for both kinds.
    required_selector(errors, spec, "deployment", path);
    match LabelSelector::from_object(spec.part("selector")) {
        Err(_) => {
            let rendered = render_selector(spec.part("selector"));
            errors.push(FieldError::invalid(&path.child("selector"), rendered, "invalid label selector"));
        }
        Ok(selector) => {
            let path = path.child("template");
            let pod = spec.part("template");
            if !selector.is_empty() {
                check_selected(errors, &selector, pod, &path);
            }
            template::check(errors, spec, old, &path);
            check_always_restarted(errors, pod, "ReplicaSet", &path);
        }
    }
}

/// Checks a number or a percentage.
fn int_or_percent(errors: &mut Errors, value: &Value, path: &FieldPath) {
    match value.as_str() {
        Some(text) => {
            for rule in names::percent(text) {
                errors.push(FieldError::invalid(path, value.clone(), rule));
            }
        }
        None => {
            let number = value.as_i64().unwrap_or_default();
            if number < 0 {
                errors.push(FieldError::invalid(path, number, NOT_NEGATIVE));
            }
        }
    }
}

/// Returns the number of a well-formed percentage.
fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    // Go's conversion saturates.
    text.strip_suffix('%').map(|digits| digits.parse().unwrap_or(i64::MAX))
}

/// Returns the number, or the number of the percentage. Other strings are parsed as numbers, or else count as
/// zero.
fn amount(value: &Value) -> i64 {
    let of_text = || value.as_str().and_then(|text| text.parse().ok());
    percent(value).or_else(|| value.as_i64()).or_else(of_text).unwrap_or_default()
}

fn at_most_hundred_percent(errors: &mut Errors, value: &Value, path: &FieldPath) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, value.clone(), "must not be greater than 100%"));
    }
}

/// Checks that the collision count did not decrease.
fn collisions(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    let field = "collisionCount";
    let (new, old) = (new.optional_integer(field), old.optional_integer(field));
    if old.is_some_and(|old| new.is_none_or(|new| new < old)) {
        let rendered = new.unwrap_or_default();
        errors.push(FieldError::invalid(&path.child(field), rendered, "cannot be decremented"));
    }
}

#[cfg(test)]
mod tests;
