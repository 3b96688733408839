//! Claims of storage, on their own and as templates in pods and stateful sets.

use atoll_meta::field::BadValue;
use atoll_meta::object::{validate_annotations, validate_label_selector, validate_labels};
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Errors, Fields, POSITIVE, broken_rules, named};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What a template's metadata may not say: the server decides it for each object made from the template.
const NOT_IN_TEMPLATES: &[(&str, &str)] = &[
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// Checks the template of the claim that is made for an ephemeral volume.
pub(crate) fn check_template(errors: &mut Errors, template: &Value, path: &FieldPath) {
    let metadata = template.part("metadata");
    check_template_metadata(errors, metadata, &path.child("metadata"));
    check_spec(errors, template.part("spec"), &path.child("spec"));
}

/// Checks metadata of which only labels and annotations matter.
pub(crate) fn check_template_metadata(errors: &mut Errors, metadata: &Value, path: &FieldPath) {
    errors.extend(validate_annotations(metadata.text_entries("annotations"), &path.child("annotations")));
    errors.extend(validate_labels(metadata.text_entries("labels"), &path.child("labels")));
    for (field, shown) in NOT_IN_TEMPLATES {
        if metadata.field(field).is_some() {
            errors.push(FieldError::forbidden(&path.child(*shown), "cannot be set"));
        }
    }
}

/// Checks a `PersistentVolumeClaimSpec`.
pub(crate) fn check_spec(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let modes_path = || path.child("accessModes");
    if spec.list("accessModes").is_empty() {
        errors.push(FieldError::required(&modes_path(), "at least 1 access mode is required"));
    }
    if let Some(selector) = spec.field("selector") {
        errors.extend(validate_label_selector(selector, &path.child("selector")));
    }
    for mode in spec.texts("accessModes").filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&modes_path(), named(mode), ACCESS_MODES));
    }
    let is_alone = |mode: &str| mode == "ReadWriteOncePod";
    if spec.texts("accessModes").any(is_alone)
        && spec.texts("accessModes").any(|mode| !is_alone(mode) && ACCESS_MODES.contains(&mode))
    {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(&modes_path(), detail));
    }
    let storage_path = || path.child("resources").key("storage");
    match spec.part("resources").part("requests").quantity("storage") {
        None => errors.push(FieldError::required(&storage_path(), "")),
        Some(amount) if amount.is_negative() || amount.is_zero() => {
            errors.push(FieldError::invalid(&storage_path(), amount.to_string(), POSITIVE));
        }
        Some(_) => {}
    }
    check_class(errors, spec, "storageClassName", path);
    if let Some(mode) = spec.optional_text("volumeMode")
        && !matches!(mode, "Block" | "Filesystem")
    {
        let path = path.child("volumeMode");
        errors.push(FieldError::not_supported(&path, named(mode), &["Block", "Filesystem"]));
    }
    check_sources(errors, spec, path);
    check_class(errors, spec, "volumeAttributesClassName", path);
}

fn check_class(errors: &mut Errors, spec: &Value, field: &'static str, path: &FieldPath) {
    let class = spec.text(field);
    if !class.is_empty() {
        broken_rules(errors, || path.child(field), class, names::name_is_dns_subdomain(class, false));
    }
}

/// Checks what the volume is filled with at first, which can be said in two ways.
fn check_sources(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = spec.field(field) else { continue };
        let path = path.child(field);
        for required in ["name", "kind"] {
            if source.text(required).is_empty() {
                errors.push(FieldError::required(&path.child(required), ""));
            }
        }
        let group = source.text("apiGroup");
        if group.is_empty() && source.text("kind") != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(&path, source.text("kind"), detail));
        }
        if !group.is_empty() {
            broken_rules(errors, || path.child("apiGroup"), group, names::dns1123_subdomain(group));
        }
        let namespace = source.text("namespace");
        if field == "dataSourceRef" && !namespace.is_empty() {
            let rules = names::name_is_dns_label(namespace, false);
            broken_rules(errors, || path.child("namespace"), namespace, rules);
        }
    }
    if let (Some(source), Some(reference)) = (spec.field("dataSource"), spec.field("dataSourceRef")) {
        let same = ["apiGroup", "kind", "name"].iter().all(|field| source.get(field) == reference.get(field));
        let detail = if !reference.text("namespace").is_empty() {
            "may not be specified when dataSourceRef.namespace is specified"
        } else if !same {
            "must match dataSourceRef"
        } else {
            return;
        };
        // Upstream passes a path as the value, which has nothing to show.
        errors.push(FieldError::invalid(path, BadValue::Rendered("{}".to_owned()), detail));
    }
}
