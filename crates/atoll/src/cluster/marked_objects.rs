//! Finds the objects in a cluster that carry a mark.

use atoll_client::path;
use atoll_fleet::marks::{CONTROL_PLANE, SOURCE, SYSTEM_NAMESPACE, UID, WORKSPACE};
use atoll_fleet::view::{self, ObjectTarget};
use atoll_meta::object;
use http::Method;
use serde_json::Value;

use super::remove::release::{METADATA, preferred};
use crate::advice::Failure;
use crate::place::discover;
use crate::place::resources::ApiResource;
use crate::workspace::session::encoded;
use atoll_joining::api::Api;

/// An object in a cluster with a mark.
#[derive(Clone, Debug)]
pub struct MarkedObject {
    pub resource: ApiResource,
    /// The object's metadata.
    pub found: Value,
}

impl MarkedObject {
    pub fn path(&self) -> String {
        let collection = self.resource.collection(object::namespace(&self.found));
        path::object(&collection, object::name(&self.found))
    }

    /// The object above that it was created for, according to its annotations.
    pub fn target(&self) -> ObjectTarget {
        let text = |key: &str| object::annotation(&self.found, key).unwrap_or_default().to_string();
        let source = text(SOURCE);
        let (namespace, name) = source.split_once('/').unwrap_or(("", &source));
        ObjectTarget {
            resource: view::SyncResource {
                group: self.resource.group.clone(),
                version: self.resource.version.clone(),
                resource: self.resource.name.clone(),
                kind: self.resource.kind.clone(),
                namespaced: self.resource.namespaced,
            },
            workspace: text(WORKSPACE),
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: text(UID),
        }
    }

    fn is_namespace(&self) -> bool {
        is_namespaces(&self.resource)
    }
}

pub fn is_namespaces(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.name == "namespaces"
}

/// Finds all objects of a control plane in a cluster, or in one of its namespaces. Skips Atoll's own
/// namespace, and objects that carry the label without the uid annotation: other controllers have copied it.
pub async fn find(below: &Api, control_plane: &str, namespace: &str) -> Result<Vec<MarkedObject>, Failure> {
    let mut all = Vec::new();
    let resources = discover(below).await?;
    for resource in preferred(&resources).filter(|resource| namespace.is_empty() || resource.namespaced) {
        list_marked(below, resource, control_plane, namespace, &mut all).await?;
    }
    all.retain(|marked| {
        let (namespace, name) = (object::namespace(&marked.found), object::name(&marked.found));
        let is_own = namespace == SYSTEM_NAMESPACE || marked.is_namespace() && name == SYSTEM_NAMESPACE;
        let is_made = marked.is_namespace() || object::annotation(&marked.found, UID).is_some();
        !is_own && is_made
    });
    Ok(all)
}

/// Limit on the number of marked objects, above any plausible number of placed objects.
const MAX_OBJECTS: usize = 200_000;

async fn list_marked(
    below: &Api,
    resource: &ApiResource,
    control_plane: &str,
    namespace: &str,
    all: &mut Vec<MarkedObject>,
) -> Result<(), Failure> {
    let mut next = String::new();
    loop {
        let collection = resource.collection(namespace);
        let path = format!("{collection}?labelSelector={CONTROL_PLANE}%3D{control_plane}&limit=500{next}");
        let list = match below.call_as(Method::GET, &path, METADATA, None).await {
            Ok(list) => list,
            // A syncer cannot have created objects of a resource that it may not list.
            Err(problem) if problem.is("Forbidden") || problem.is("NotFound") => return Ok(()),
            Err(problem) => return Err(problem.into()),
        };
        let items = list["items"].as_array().into_iter().flatten();
        all.extend(items.map(|found| MarkedObject { resource: resource.clone(), found: found.clone() }));
        if all.len() > MAX_OBJECTS {
            return Err(Failure::new(
                format!("more than {MAX_OBJECTS} objects of the cluster are marked as this control plane's"),
                "list them with: kubectl get all --all-namespaces --selector atoll.dev/control-plane",
            ));
        }
        match object::continuation(&list) {
            Some(token) => next = format!("&continue={}", encoded(token)),
            None => return Ok(()),
        }
    }
}
