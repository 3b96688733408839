//! Deletes the content of a namespace or of a workspace, and reports what remains.

// upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go

use std::collections::BTreeMap;

use atoll_fleet::{Placement, marks};
use atoll_informer::{ApiScope, DeleteOptions, Key, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

const BACKGROUND: &str = "Background";

/// Objects that still exist after their deletion was requested.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Number of objects by resource and group.
    objects: BTreeMap<(String, String), usize>,
    /// Number of objects by finalizer that they wait for.
    finalizers: BTreeMap<String, usize>,
    /// Number of objects by cluster that has not removed them.
    clusters: BTreeMap<String, usize>,
}

impl Remaining {
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub fn count(&mut self, resource: &Resource, left: &[Value]) {
        if left.is_empty() {
            return;
        }
        self.add(resource, left.len());
        for finalizer in left.iter().flat_map(object::finalizers) {
            *self.finalizers.entry(finalizer.to_string()).or_default() += 1;
        }
        for item in left {
            Placement::of(item).names().for_each(|cluster| self.add_cluster(cluster));
        }
    }

    /// Counts an object that a cluster has not removed.
    pub fn add_cluster(&mut self, cluster: &str) {
        *self.clusters.entry(cluster.to_string()).or_default() += 1;
    }

    /// Returns the condition message about the clusters that are waited for; `None` if there are none.
    pub fn clusters_message(&self) -> Option<String> {
        let parts: Vec<String> =
            self.clusters.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        let first = self.clusters.keys().next()?;
        Some(format!(
            "Waiting for clusters to remove placed objects: {}; see the events of the namespace if a cluster refuses; \
             if {first} is lost permanently, run: atoll cluster remove {first} --lost",
            parts.join(", ")
        ))
    }

    pub fn add(&mut self, resource: &Resource, count: usize) {
        let name = (resource.plural.to_string(), resource.group.to_string());
        *self.objects.entry(name).or_default() += count;
    }

    /// Returns the condition message about remaining objects. `named` formats the name of a resource.
    pub fn content_message(&self, named: impl Fn(&str, &str) -> String) -> String {
        let parts = self.objects.iter().map(|((plural, group), count)| {
            format!("{} has {count} resource instances", named(plural, group))
        });
        format!("Some resources are remaining: {}", parts.collect::<Vec<_>>().join(", "))
    }

    /// Returns upstream's condition message about finalizers; `None` if there are none.
    pub fn finalizers_message(&self) -> Option<String> {
        let parts =
            self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        let parts: Vec<String> = parts.collect();
        let message =
            || format!("Some content in the namespace has finalizers remaining: {}", parts.join(", "));
        (!parts.is_empty()).then(message)
    }
}

/// Deletes all objects of a resource in one namespace of a workspace or, if `namespace` is empty, in all.
/// Returns those that still exist.
pub async fn delete_all(
    api: &ApiScope,
    resource: &Resource,
    workspace: &str,
    namespace: &str,
) -> Result<Vec<Value>, Status> {
    let present = list(api, resource, workspace, namespace).await?;
    if present.is_empty() {
        return Ok(present);
    }
    let staying: Vec<&Value> = present.iter().filter(|item| !object::is_being_deleted(item)).collect();
    if staying.is_empty() {
        return Ok(present);
    }
    if namespace.is_empty()
        || staying.len() == 1
        || !delete_collection(api, resource, workspace, namespace).await?
    {
        for item in staying {
            delete(api, resource, workspace, item).await?;
        }
    }
    list(api, resource, workspace, namespace).await
}

/// Whether the workspace does not store the object: bootstrap objects, which have revision 1, and definitions that are
/// imported from clusters. They do not block the deletion of a workspace.
pub fn is_not_stored(resource: &Resource, item: &Value) -> bool {
    let is_imported = || object::annotation(item, marks::IMPORTED_FROM).is_some();
    object::resource_version(item) == "1"
        || resource.plural == resources::CUSTOM_RESOURCE_DEFINITIONS.plural && is_imported()
}

async fn list(
    api: &ApiScope,
    resource: &Resource,
    workspace: &str,
    namespace: &str,
) -> Result<Vec<Value>, Status> {
    match api.list(resource, workspace, namespace, true).await {
        Ok(mut items) => {
            items.retain(|item| !is_not_stored(resource, item));
            Ok(items)
        }
        // A custom resource is gone when its definition is.
        Err(status) if matches!(status.code(), 404 | 405) => Ok(Vec::new()),
        Err(status) => Err(status),
    }
}

/// Deletes a whole collection. Returns whether the resource supports that.
async fn delete_collection(
    api: &ApiScope,
    resource: &Resource,
    workspace: &str,
    namespace: &str,
) -> Result<bool, Status> {
    let collection = api.collection(resource, workspace, namespace)?;
    match api.client().delete(&format!("{collection}?propagationPolicy={BACKGROUND}")).await {
        Ok(_) => Ok(true),
        Err(status) if matches!(status.code(), 404 | 405) => Ok(false),
        Err(status) => Err(status),
    }
}

async fn delete(api: &ApiScope, resource: &Resource, workspace: &str, item: &Value) -> Result<(), Status> {
    let key = Key::new(workspace, object::namespace(item), object::name(item));
    let options = DeleteOptions { propagation: Some(BACKGROUND), ..DeleteOptions::default() };
    match api.delete(resource, &key, options).await {
        Err(status) if !matches!(status.reason(), "NotFound" | "Conflict" | "MethodNotAllowed") => {
            Err(status)
        }
        _ => Ok(()),
    }
}
