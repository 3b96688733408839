//! What extends the API: definitions of custom resources, and other servers.

use atoll_meta::{names, object};
use serde_json::{Value, json};

use crate::definitions::reserved;
use crate::modify::set_condition;

use super::{ONLY_STATUS, Strategy, WITH_THE_WHOLE, spec_differs};

pub static DEFINITION: Strategy = Strategy {
    generation: true,
    is_counted: spec_differs,
    prepare_create: |definition, _| note_stored_version(definition),
    prepare_update: |new, _, _| note_stored_version(new),
    validate: reserved::validate,
    unconditional_update: false,
    finalizer_names: false,
    own_deletion: true,
    // Whatever else holds it, its objects go first.
    is_held: |definition| !object::is_being_deleted(definition),
    begin_delete: begin_to_end,
    ..Strategy::GENERIC
};

/// Keeps a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn begin_to_end(definition: &mut Value) {
    let has_begun = object::finalizers(definition).any(|own| own == CLEANUP);
    if has_begun {
        return;
    }
    let mut finalizers: Vec<String> = object::finalizers(definition).map(str::to_string).collect();
    finalizers.push(CLEANUP.into());
    object::set_finalizers(definition, &finalizers);
    let now = object::deletion_timestamp(definition).unwrap_or_default().to_string();
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    set_condition(definition, condition, &now);
}

pub static API_SERVICE: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    status_keeps: ONLY_STATUS,
    prepare_create: |service, context| {
        if !service["spec"].get("service").is_some_and(Value::is_object) {
            service["status"] = json!({ "conditions": [{
                "type": "Available",
                "status": "True",
                "lastTransitionTime": context.now,
                "reason": "Local",
                "message": "Local APIServices are always available",
            }] });
        }
    },
    finalizer_names: false,
    ..WITH_THE_WHOLE
};

/// Objects may be stored in every version that ever was the one to store.
fn note_stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = stored.map(|version| version["name"].clone()) else { return };
    match definition["status"].get_mut("storedVersions") {
        Some(Value::Array(known)) if known.contains(&name) => {}
        Some(Value::Array(known)) => known.push(name),
        _ => definition["status"]["storedVersions"] = json!([name]),
    }
}
