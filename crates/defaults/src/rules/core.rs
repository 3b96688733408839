//! Other kinds of the core group.

// upstream: pkg/apis/core/v1/defaults.go
// upstream: pkg/apis/core/v1/conversion.go

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::pod::sync_first_element;
use crate::object::{ObjectMap, child, child_mut, entry, is_absent, set, text};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Defaults the selector and the labels to the labels of the template.
pub fn replication_controller(controller: &mut ObjectMap) {
    let spec = child(controller, "spec");
    let template =
        spec.and_then(|spec| child(spec, "template")).and_then(|template| child(template, "metadata"));
    let Some(labels) = template.and_then(|metadata| child(metadata, "labels")).cloned() else { return };
    if let Some(spec) = child_mut(controller, "spec")
        && child(spec, "selector").is_none_or(ObjectMap::is_empty)
    {
        set(spec, "selector", labels.clone());
    }
    labels_from_template(controller, labels);
}

pub fn labels_from_template(holder: &mut ObjectMap, labels: ObjectMap) {
    if let Some(metadata) = entry(holder, "metadata")
        && child(metadata, "labels").is_none_or(ObjectMap::is_empty)
    {
        set(metadata, "labels", labels);
    }
}

/// Moves `stringData` into `data`.
pub fn secret(secret: &mut ObjectMap) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    if let Some(data) = entry(secret, "data") {
        let encoded = |value: Value| Value::String(STANDARD.encode(value.as_str().unwrap_or_default()));
        data.extend(plain.into_iter().map(|(key, value)| (key, encoded(value))));
    }
}

/// Sets the label with the name of the namespace.
pub fn namespace(namespace: &mut ObjectMap) {
    let Some(metadata) = child_mut(namespace, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = entry(metadata, "labels")
    {
        set(labels, NAME_LABEL, name);
    }
}

pub fn node_spec(spec: &mut ObjectMap) {
    sync_first_element(spec, "podCIDR", "podCIDRs", |list| list.first()?.as_str(), |range| range.into());
}

pub fn node_status(status: &mut ObjectMap) {
    if is_absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
    {
        set(status, "allocatable", capacity);
    }
}

/// Defaults `default` and `defaultRequest` to the maximum and the minimum.
pub fn limit_range_item(item: &mut ObjectMap) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) = child(item, from).filter(|amounts| !amounts.is_empty()).cloned() else {
            continue;
        };
        let Some(own) = entry(item, to) else { continue };
        for (name, amount) in amounts {
            own.entry(name).or_insert(amount);
        }
    }
}
