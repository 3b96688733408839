//! What extends the API: definitions of custom resources, and other servers.

use atoll_meta::names;
use serde_json::{Value, json};

use super::{ONLY_STATUS, Strategy, WITH_THE_WHOLE, spec_differs};

pub static DEFINITION: Strategy = Strategy {
    generation: true,
    is_counted: spec_differs,
    prepare_create: |definition, _| note_stored_version(definition),
    prepare_update: |new, _, _| note_stored_version(new),
    finalizer_names: false,
    ..Strategy::GENERIC
};

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
