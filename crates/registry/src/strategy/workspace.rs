//! Workspaces: each gets an id that is never reused, and stays until its contents are deleted.

use atoll_meta::{FieldError, FieldPath, id, names, object};
use serde_json::{Value, json};

use super::effects::Effects;
use super::{Context, Strategy, field, spec_differs, text};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    generation: true,
    raises_generation: spec_differs,
    returns_deleted: true,
    fields: &[field("status.id"), field("status.phase"), field("spec.grain")],
    prepare_create,
    validate,
    validate_update: |new, _| validate(new),
    validate_subresource: |_, new, old| validate_identity(new, old),
    begin_delete,
    // Always mark the Workspace first, because its contents must be deleted before it, whatever finalizers it
    // has.
    blocks_removal: |workspace| !object::is_being_deleted(workspace),
    effects: Effects {
        check: Some(|registry, row, object_ref, _, old| match old {
            None => registry.check_depth(row, object_ref),
            Some(_) => Ok(()),
        }),
        before_removal: Some(|registry, key| Box::pin(registry.purge_child(key))),
        ..Effects::NONE
    },
    ..Strategy::GENERIC
};

/// Finalizer that keeps a Workspace until its contents are deleted.
pub const FINALIZER: &str = "atoll.dev/contents";

fn prepare_create(workspace: &mut Value, context: &Context<'_>) {
    let id = id::workspace_id(&context.random);
    if !workspace["spec"].is_object() {
        workspace["spec"] = json!({});
    }
    workspace["status"] = json!({ "id": id, "phase": "Ready" });
    keep_contents(workspace);
}

/// Adds the finalizer if it is missing.
fn keep_contents(workspace: &mut Value) {
    match workspace["metadata"]["finalizers"].as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|own| own == FINALIZER) => {}
        Some(finalizers) => finalizers.push(FINALIZER.into()),
        None => workspace["metadata"]["finalizers"] = json!([FINALIZER]),
    }
}

/// Values of `spec.grain`. Existing workloads keep their grain.
const GRAINS: [&str; 2] = ["object", "pod"];

fn validate(workspace: &Value) -> Vec<FieldError> {
    let mut errors = validate_grain(workspace);
    let bytes = &workspace["spec"]["limits"]["bytes"];
    let path = FieldPath::new("spec").child("limits").child("bytes");
    if !bytes.is_null() {
        match crate::usage::quantity(bytes) {
            None => {
                let detail = "quantities must match the regular expression \
                    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
                errors.push(FieldError::invalid(&path, bytes.clone(), detail));
            }
            Some(quantity) if quantity.is_negative() => {
                errors.push(FieldError::invalid(&path, bytes.clone(), "must be greater than or equal to 0"));
            }
            Some(_) => {}
        }
    }
    errors
}

fn validate_grain(workspace: &Value) -> Vec<FieldError> {
    match workspace["spec"].get("grain") {
        None | Some(Value::Null) => Vec::new(),
        Some(grain) if GRAINS.iter().any(|known| grain == known) => Vec::new(),
        Some(grain) => {
            let path = FieldPath::new("spec").child("grain");
            vec![FieldError::not_supported(&path, grain.clone(), &GRAINS)]
        }
    }
}

/// Refuses a changed id: the Workspace would give access to the contents of another one.
fn validate_identity(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("status").child("id");
    let (now, before) = (text(new, "status.id"), text(old, "status.id"));
    (now != before).then(|| FieldError::invalid(&path, now, "field is immutable")).into_iter().collect()
}

fn begin_delete(workspace: &mut Value) {
    keep_contents(workspace);
    workspace["status"]["phase"] = "Deleting".into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_grains_are_refused() {
        let refused = |grain: &str| {
            let supported = "supported values: \"object\", \"pod\"";
            vec![format!("spec.grain: Unsupported value: {grain}: {supported}")]
        };
        for (spec, expected) in [
            (json!({}), vec![]),
            (json!({ "grain": null }), vec![]),
            (json!({ "grain": "object" }), vec![]),
            (json!({ "grain": "pod" }), vec![]),
            (json!({ "grain": "" }), refused("\"\"")),
            (json!({ "grain": "Pod" }), refused("\"Pod\"")),
            (json!({ "grain": 1 }), refused("1")),
        ] {
            let errors = validate(&json!({ "spec": spec }));
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected, "{spec}");
        }
    }
}
