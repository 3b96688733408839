//! Helpers for writing EndpointSlices.

// upstream: staging/src/k8s.io/endpointslice/utils.go
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go

use std::sync::Arc;

use atoll_informer::{Cache, DeleteOptions, Key, WORKSPACE, resources};
use atoll_meta::{Status, names, object};
use serde_json::{Map, Value};

use crate::context::Context;
use crate::shared::go_print;

pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Slices to write.
#[derive(Debug, Default)]
pub struct Writes {
    pub create: Vec<Value>,
    pub update: Vec<Value>,
    pub delete: Vec<Arc<Value>>,
}

impl Writes {
    /// Updates slices that would be deleted, and that `may` be reused, instead of creating new ones.
    pub fn reuse(&mut self, may: impl Fn(&Value) -> bool) {
        let mut left = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let fits = |slice: &Value| slice["addressType"] == old["addressType"];
            match self.create.iter().rposition(fits).filter(|_| may(&old)) {
                Some(place) => self.update.push(in_place_of(&old, self.create.remove(place))),
                None => left.push(old),
            }
        }
        self.delete = left;
    }
}

/// Returns a new slice with the name and version of an old one.
pub fn in_place_of(old: &Value, mut slice: Value) -> Value {
    object::set_name(&mut slice, object::name(old));
    object::set_resource_version(&mut slice, object::resource_version(old));
    if let Some(workspace) = object::annotation(old, WORKSPACE) {
        object::set_annotation(&mut slice, WORKSPACE, workspace);
    }
    slice
}

/// Returns the name prefix of a Service's slices.
pub fn prefix(service: &str) -> String {
    let prefix = format!("{service}-");
    if names::name_is_dns_subdomain(&prefix, true).is_empty() { prefix } else { service.to_string() }
}

/// Sorts ports, and returns a key that identifies them.
pub fn sort_ports(ports: &mut [Value]) -> String {
    ports.sort_by_cached_key(|port| go_print::fnv(&go_print::slice_port(port)));
    let printed: Vec<String> = ports.iter().map(go_print::slice_port).collect();
    printed.join(" ")
}

/// Returns a key that identifies an endpoint, regardless of its state.
pub fn identity(endpoint: &Value) -> String {
    let mut addresses: Vec<&str> =
        endpoint["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    addresses.sort_unstable();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let target = &endpoint["targetRef"];
    let rest = [text(&endpoint["hostname"]), text(&target["namespace"]), text(&target["name"])];
    format!("{} {}", addresses.join(","), rest.join(" "))
}

/// Whether two endpoints with the same identity have the same state.
pub fn is_same_state(one: &Value, other: &Value) -> bool {
    let is_same_target = match (one["targetRef"].as_object(), other["targetRef"].as_object()) {
        (Some(one), Some(other)) => {
            let relevant = |target: &Map<String, Value>| {
                target.len() - usize::from(target.contains_key("resourceVersion"))
            };
            relevant(one) == relevant(other)
                && one
                    .iter()
                    .all(|(field, value)| field == "resourceVersion" || other.get(field) == Some(value))
        }
        _ => one["targetRef"] == other["targetRef"],
    };
    is_same_target && ["nodeName", "zone", "conditions"].into_iter().all(|field| one[field] == other[field])
}

/// Writes slices of `of` (`Service` or `Endpoints`). Returns the failed action and its error.
pub async fn write(
    context: &Context,
    cache: &Cache,
    key: &Key,
    of: &str,
    writes: &Writes,
) -> Result<(), (String, Status)> {
    let (api, kind) = (context.api(), &resources::ENDPOINT_SLICES);
    let of = format!("EndpointSlice for {of} {}/{}", key.namespace, key.name);
    for slice in &writes.create {
        match api.create(kind, &key.workspace, &key.namespace, slice).await {
            Ok(created) => cache.wrote(&created),
            Err(status) if status.has_cause("NamespaceTerminating") => return Ok(()),
            Err(status) => return Err((format!("failed to create {of}"), status)),
        }
    }
    for slice in &writes.update {
        match api.update(kind, slice).await {
            Ok(updated) => cache.wrote(&updated),
            Err(status) => return Err((format!("failed to update {} {of}", object::name(slice)), status)),
        }
    }
    for slice in &writes.delete {
        let (own, uid) = (Key::of(slice), object::uid(slice));
        match api.delete(kind, &own, DeleteOptions { uid: Some(uid), ..DeleteOptions::default() }).await {
            Ok(_) => cache.deleting(&own, uid),
            Err(status) if status.reason() == "NotFound" => {}
            Err(status) => return Err((format!("failed to delete {} {of}", object::name(slice)), status)),
        }
    }
    Ok(())
}
