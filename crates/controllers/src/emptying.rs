//! Deletes what a namespace or a whole workspace holds, and says what would not go.

use std::collections::BTreeMap;

use atoll_client::Client;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::resources::Resource;

/// Objects looked at in one request.
const PAGE: usize = 500;

/// What is still there after everything was told to go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Number of objects by resource.
    pub objects: BTreeMap<String, usize>,
    /// Number of objects that wait for each finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// In upstream's words for a namespace.
    pub fn content_message(&self) -> String {
        let parts =
            self.objects.iter().map(|(resource, count)| format!("{resource} has {count} resource instances"));
        format!("Some resources are remaining: {}", parts.collect::<Vec<_>>().join(", "))
    }

    /// In upstream's words for a namespace.
    pub fn finalizer_message(&self) -> String {
        let parts =
            self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        format!(
            "Some content in the namespace has finalizers remaining: {}",
            parts.collect::<Vec<_>>().join(", ")
        )
    }

    fn count(&mut self, resource: &Resource, left: &Value) {
        *self.objects.entry(resource.full_name()).or_default() += 1;
        for finalizer in object::finalizers(left) {
            *self.finalizers.entry(finalizer.to_string()).or_default() += 1;
        }
    }
}

/// Deletes everything of `resources` in a workspace, in one namespace of it or in all.
pub async fn empty(
    client: &Client,
    workspace: &str,
    namespace: Option<&str>,
    resources: &[Resource],
) -> Result<Remaining, Status> {
    let mut remaining = Remaining::default();
    for resource in resources {
        let place = match namespace {
            Some(namespace) => format!("/namespaces/{namespace}"),
            None => String::new(),
        };
        let collection =
            format!("/clusters/{workspace}{}{place}/{}?limit={PAGE}", resource.base, resource.name);
        let list = match client.get(&collection).await {
            // A custom resource goes with its definition.
            Err(status) if status.reason() == "NotFound" => continue,
            list => list?,
        };
        for item in list["items"].as_array().into_iter().flatten().filter(|item| !is_layered(item)) {
            if let Some(left) = delete(client, workspace, resource, item).await? {
                remaining.count(resource, &left);
            }
        }
        // Lists of custom objects always say how they go on, if only with nothing.
        if list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty()) {
            *remaining.objects.entry(resource.full_name()).or_default() += 1;
        }
    }
    Ok(remaining)
}

/// What every workspace is born with does not keep it alive; its revision tells.
pub fn is_layered(item: &Value) -> bool {
    object::resource_version(item) == "1"
}

/// Deletes one object; what is left of it if something holds it.
async fn delete(
    client: &Client,
    workspace: &str,
    resource: &Resource,
    item: &Value,
) -> Result<Option<Value>, Status> {
    if object::is_being_deleted(item) {
        return Ok(Some(item.clone()));
    }
    let path = object_path(workspace, resource, item);
    match client.delete(&format!("{path}?propagationPolicy=Background")).await {
        Ok(left) if object::is_being_deleted(&left) && object::finalizers(&left).next().is_some() => {
            Ok(Some(left))
        }
        Ok(_) => Ok(None),
        Err(status) if matches!(status.reason(), "NotFound" | "Conflict") => Ok(None),
        Err(status) => Err(status),
    }
}

pub fn object_path(workspace: &str, resource: &Resource, item: &Value) -> String {
    let place = match object::namespace(item) {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("/clusters/{workspace}{}{place}/{}/{}", resource.base, resource.name, object::name(item))
}
