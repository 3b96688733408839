//! ReplicationControllers.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::template;
use crate::Checks;
use crate::fields::{Errors, Fields, named, not_negative};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| of_object(object, None),
    update: |new, old| of_object(new, Some(old.part("spec"))),
    subresource: |name, new, _| if name == "status" { status(new) } else { Vec::new() },
};

fn of_object(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = object.part("spec");
    let path = FieldPath::new("spec");
    not_negative(&mut errors, spec, "minReadySeconds", &path);
    let has_selector = spec.entries("selector").next().is_some();
    if !has_selector {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    if spec.field("replicas").is_none() {
        errors.push(FieldError::required(&path.child("replicas"), ""));
    }
    not_negative(&mut errors, spec, "replicas", &path);
    let path = path.child("template");
    match spec.field("template") {
        Some(template) => {
            let labels = template.part("metadata").part("labels");
            if spec.text_entries("selector").any(|(key, value)| labels.optional_text(key) != Some(value)) {
                let detail = "`selector` does not match template `labels`";
                let path = path.child("metadata").child("labels");
                errors.push(FieldError::invalid(&path, labels.clone(), detail));
            }
            template::check(&mut errors, spec, old, &path);
            check_always_restarted(&mut errors, template, "ReplicationController", &path);
        }
        None => errors.push(FieldError::required(&path, "")),
    }
    errors
}

/// Checks that pods of a workload are always restarted and have no deadline.
pub(crate) fn check_always_restarted(errors: &mut Errors, template: &Value, kind: &str, path: &FieldPath) {
    let path = path.child("spec");
    let spec = template.part("spec");
    let policy = spec.text("restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(&path.child("restartPolicy"), named(policy), &["Always"]));
    }
    if spec.field("activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&path.child("activeDeadlineSeconds"), detail));
    }
}

fn status(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let status = object.part("status");
    let path = FieldPath::new("status");
    for field in
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"]
    {
        not_negative(&mut errors, status, field, &path);
    }
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&mut errors, status, field, "replicas", "status.replicas", &path);
    }
    at_most(&mut errors, status, "availableReplicas", "readyReplicas", "readyReplicas", &path);
    errors
}

/// Checks that a count does not exceed the count that it is a part of.
pub(crate) fn at_most(
    errors: &mut Errors,
    status: &Value,
    field: &'static str,
    total: &str,
    rendered: &str,
    path: &FieldPath,
) {
    let count = status.integer(field);
    if count > status.integer(total) {
        let detail = format!("cannot be greater than {rendered}");
        errors.push(FieldError::invalid(&path.child(field), count, detail));
    }
}
