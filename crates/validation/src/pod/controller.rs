//! ReplicationControllers.

// upstream: pkg/apis/core/validation/validation.go

use serde_json::Value;

use super::template;
use crate::Checks;
use crate::field_value::{Errors, FieldValue};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| of_object(object, None),
    update: |new, old| of_object(new, Some(&FieldValue::field(old, "spec"))),
    subresource: |name, new, _| {
        if name == "status" { status(&FieldValue::field(new, "status")) } else { Errors::new() }
    },
};

fn of_object(object: &Value, old: Option<&FieldValue<'_>>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(object, "spec");
    let (selector, replicas) = (spec.get("selector"), spec.get("replicas"));
    spec.get("minReadySeconds").not_negative(&mut errors);
    if selector.is_empty() {
        errors.push(selector.required(""));
    }
    if !replicas.is_set() {
        errors.push(replicas.required(""));
    }
    replicas.not_negative(&mut errors);
    let template = spec.get("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return errors;
    }
    let labels = template.get("metadata").get("labels");
    let is_selected = |(key, value)| labels.value.get(key).and_then(Value::as_str) == Some(value);
    if !selector.text_entries().all(is_selected) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
    template::check(&mut errors, &template, old.map(|old| old.get("template")).as_ref());
    check_always_restarted(&mut errors, &template, "ReplicationController");
    errors
}

/// Checks that pods of a workload are always restarted and have no deadline.
pub(crate) fn check_always_restarted(errors: &mut Errors, template: &FieldValue<'_>, kind: &str) {
    let spec = template.get("spec");
    let (policy, deadline) = (spec.get("restartPolicy"), spec.get("activeDeadlineSeconds"));
    if policy.text() != "Always" {
        errors.push(policy.unsupported(&["Always"]));
    }
    if deadline.is_set() {
        errors.push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

fn status(status: &FieldValue<'_>) -> Errors {
    let mut errors = Errors::new();
    for field in
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"]
    {
        status.get(field).not_negative(&mut errors);
    }
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&mut errors, &status.get(field), &status.get("replicas"), "status.replicas");
    }
    at_most(&mut errors, &status.get("availableReplicas"), &status.get("readyReplicas"), "readyReplicas");
    errors
}

/// Checks that a count does not exceed the count that it is a part of.
pub(crate) fn at_most(errors: &mut Errors, count: &FieldValue<'_>, total: &FieldValue<'_>, rendered: &str) {
    if count.integer() > total.integer() {
        errors.push(count.invalid_integer(format!("cannot be greater than {rendered}")));
    }
}
