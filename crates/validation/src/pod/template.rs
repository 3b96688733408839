//! Pod templates, in workloads and as PodTemplate objects.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::object::{validate_annotations, validate_labels};
use serde_json::Value;

use super::{Scope, annotations, spec};
use crate::Checks;
use crate::field_value::{Errors, FieldValue};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| of_object(object, None),
    update: |new, old| of_object(new, Some(old)),
    ..Checks::NONE
};

fn of_object(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let old = old.map(|old| FieldValue::field(old, "template"));
    check(&mut errors, &FieldValue::field(object, "template"), old.as_ref());
    errors
}

/// Checks a `PodTemplateSpec`.
pub(crate) fn check(errors: &mut Errors, template: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    check_metadata(errors, template);
    let (spec, old) = (template.get("spec"), old.map(|old| old.get("spec")));
    spec::check(errors, &spec, &Scope { pod: None, old: old.as_ref() });
    annotations::check_profiles(errors, template.value, &spec);
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Checks labels and annotations. Upstream's paths lack `metadata`.
pub(crate) fn check_metadata(errors: &mut Errors, template: &FieldValue<'_>) {
    let metadata = template.get("metadata");
    let (labels, annotations) = (metadata.get("labels"), metadata.get("annotations"));
    let annotations_path = template.path.child("annotations");
    errors.extend(validate_labels(labels.text_entries(), &template.path.child("labels")));
    errors.extend(validate_annotations(annotations.text_entries(), &annotations_path));
    annotations::check(errors, template.value, &template.get("spec"), &annotations_path);
}
