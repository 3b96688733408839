//! Pod templates, in workloads and as PodTemplate objects.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::object::{validate_annotations, validate_labels};
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{Scope, annotations, spec};
use crate::Checks;
use crate::fields::{Errors, Fields};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| of_object(object, None),
    update: |new, old| of_object(new, Some(old)),
    ..Checks::NONE
};

fn of_object(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(&mut errors, object, old, &FieldPath::new("template"));
    errors
}

/// Checks the template of an object or a spec. `old` is the old object or spec.
pub(crate) fn check(errors: &mut Errors, holder: &Value, old: Option<&Value>, path: &FieldPath) {
    check_template(errors, holder.part("template"), old.map(|old| old.part("template")), path);
}

/// Checks a `PodTemplateSpec`.
pub(crate) fn check_template(errors: &mut Errors, template: &Value, old: Option<&Value>, path: &FieldPath) {
    let metadata = template.part("metadata");
    let annotations_path = path.child("annotations");
    errors.extend(validate_labels(metadata.text_entries("labels"), &path.child("labels")));
    errors.extend(validate_annotations(metadata.text_entries("annotations"), &annotations_path));
    let pod_spec = template.part("spec");
    annotations::check(errors, template, pod_spec, &annotations_path);
    let spec_path = path.child("spec");
    spec::check(errors, pod_spec, &Scope { pod: None, old: old.map(|old| old.part("spec")) }, &spec_path);
    annotations::check_profiles(errors, template, pod_spec, &spec_path);
    if !pod_spec.list("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&spec_path.child("ephemeralContainers"), detail));
    }
}
