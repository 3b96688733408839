//! Namespaces: the `kubernetes` finalizer in the spec, and the phase.

// upstream: pkg/registry/core/namespace/strategy.go
// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::{Value, json};

use super::{Context, Part, Strategy, field, text, unknown_finalizer};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    returns_deleted: true,
    fields: &[field("status.phase")],
    prepare_create,
    prepare_update,
    validate: |namespace| finalizers(namespace, false),
    validate_subresource,
    parts: &[("finalize", Part::Spec)],
    custom_deletion: true,
    blocks_removal,
    begin_delete,
    ..Strategy::GENERIC
};

const FINALIZER: &str = "kubernetes";

fn prepare_create(namespace: &mut Value, _: &Context<'_>) {
    namespace["status"] = json!({ "phase": "Active" });
    if !namespace["spec"].is_object() {
        namespace["spec"] = json!({});
    }
    let finalizers = &mut namespace["spec"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) if list.iter().any(|own| own == FINALIZER) => {}
        Some(list) => list.push(FINALIZER.into()),
        None => *finalizers = json!([FINALIZER]),
    }
}

fn prepare_update(new: &mut Value, old: &Value, _: &Context<'_>) {
    // The spec contains only finalizers, which are changed by the finalize subresource.
    new["spec"] = old["spec"].clone();
}

/// Validation errors of the finalizers in the spec.
fn finalizers(namespace: &Value, numbered: bool) -> Vec<FieldError> {
    let list = FieldPath::new("spec").child("finalizers");
    let names = namespace["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut errors = Vec::new();
    for (position, name) in names.enumerate() {
        let path = if numbered { list.index(position) } else { list.clone() };
        let wrong = names::qualified_name(name).into_iter();
        errors.extend(wrong.map(|message| FieldError::invalid(&path, name, message)));
        errors.extend(unknown_finalizer(name, &path));
    }
    errors
}

fn validate_subresource(subresource: &str, new: &Value, _: &Value) -> Vec<FieldError> {
    if subresource == "finalize" {
        return finalizers(new, true);
    }
    let phase = text(new, "status.phase");
    let path = FieldPath::new("status").child("Phase");
    let wrong = |message: &str| vec![FieldError::invalid(&path, phase, message)];
    match (new["metadata"]["deletionTimestamp"].is_string(), phase) {
        (false, "Active") | (true, "Terminating") => Vec::new(),
        (false, _) => wrong("may only be 'Active' if `deletionTimestamp` is empty"),
        (true, _) => wrong("may only be 'Terminating' if `deletionTimestamp` is not empty"),
    }
}

fn blocks_removal(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn begin_delete(namespace: &mut Value) {
    namespace["status"]["phase"] = "Terminating".into();
}
