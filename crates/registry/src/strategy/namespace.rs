//! Namespaces: their own label, the `kubernetes` finalizer in the spec, and the phase.

use atoll_meta::names;
use serde_json::{Value, json};

use super::{Context, Strategy, field};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    returns_deleted: true,
    fields: &[field("status.phase")],
    prepare_create,
    prepare_update,
    is_held,
    begin_delete,
    ..Strategy::GENERIC
};

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn prepare_create(namespace: &mut Value, _: &Context) {
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
    label(namespace);
}

fn prepare_update(new: &mut Value, old: &Value) {
    // The spec holds only finalizers, and those have a subresource of their own.
    new["spec"] = old["spec"].clone();
    label(new);
}

/// Every namespace can be selected by its name.
fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    if !namespace["metadata"]["labels"].is_object() {
        namespace["metadata"]["labels"] = json!({});
    }
    namespace["metadata"]["labels"][NAME_LABEL] = name;
}

fn is_held(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn begin_delete(namespace: &mut Value) {
    namespace["status"]["phase"] = "Terminating".into();
}
