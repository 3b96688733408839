//! Custom resources, defined by the CustomResourceDefinitions of a workspace.
//!
//! ```text
//!   CustomResourceDefinition ─ compile ─► Definition ─► Row of each version, with its custom version
//!          │    written or loaded             ▲             names, schema, subresources, columns
//!          │                                  └─ Interned: equal definitions are shared by all workspaces
//!          ├─ api_services: an APIService for each version
//!          ├─ status: accepted names, conditions
//!          └─ removal: deletes the objects, then the definition
//! ```
//!
//! A definition is compiled when its object is written or loaded, and stays with the object. Finding the row
//! of a custom resource is therefore a lookup in the snapshot, and no cache has to be invalidated when a
//! definition changes.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go

mod api_services;
pub(crate) mod compile;
pub(crate) mod conditions;
pub(crate) mod conversion;
mod custom;
mod intern;
mod naming;
mod removal;
pub mod reserved;
pub(crate) mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use atoll_store::Key;
use atoll_store::key::{Parts, custom_group};
use atoll_watch::{Object, Scope, Snapshot};
use bytes::Bytes;
use serde_json::Value;

use crate::Registry;
use crate::blocking::run_blocking;
use crate::bootstrap::ROOT;
use crate::row::{Row, SharedRow};

pub use compile::compare_versions;
pub(crate) use conversion::to_stored;
pub use custom::CustomVersion;
pub use intern::{Interned, Text};
pub use naming::Names;
pub use removal::run;

pub const GROUP: &str = "apiextensions.k8s.io";
pub const RESOURCE: &str = "customresourcedefinitions";

/// A compiled CustomResourceDefinition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Number that differs between definitions with different contents.
    pub id: u64,
    pub group: Box<str>,
    /// The plural name in the spec, which is part of the object's name and never changes.
    pub plural: Box<str>,
    /// The accepted names; empty before they are resolved.
    pub accepted: Names,
    /// Whether some requested names are not accepted yet.
    pub awaits_names: bool,
    /// Whether requests are served.
    pub is_served: bool,
    /// Whether discovery lists it.
    pub is_established: bool,
    /// Whether no objects can be created because the definition is being deleted.
    pub is_terminating: bool,
    /// Whether the condition about the size in the status is outdated: a definition from before there was a
    /// limit may be too large, and some of its patterns and rules are then not compiled. With too many versions,
    /// it is not served.
    pub(crate) is_size_outdated: bool,
    /// The served versions, in the order of the definition.
    pub rows: Vec<SharedRow>,
    /// The version in which objects are stored.
    pub stored: Option<SharedRow>,
    /// The JSON of the spec.
    pub(crate) spec: Bytes,
    /// Estimated memory of the compiled spec and of its documents, in bytes.
    pub size: u64,
    /// Hash of the spec: definitions with the same spec share the compiled form.
    pub(crate) hash: u64,
    /// Identifies the state and the spec that this definition was compiled from.
    pub(crate) source: Bytes,
}

impl Definition {
    /// The compiled definition of an object.
    pub fn of(object: &Object) -> Option<Arc<Definition>> {
        object.facts.extra.as_ref()?.compiled.clone()?.downcast().ok()
    }

    /// The parsed spec.
    pub fn spec(&self) -> Value {
        atoll_meta::json::parse(&self.spec).map(|parsed| parsed.value).unwrap_or_default()
    }

    /// The scope of all its objects in a workspace, whatever its status contains.
    pub(crate) fn scope(&self, workspace: &str) -> Scope {
        Scope::new(&custom_group(&self.group), &self.plural, Some(workspace), None)
    }

    /// Whether it defines this resource. The name of a definition is ambiguous: `foo.bar.example.com` may
    /// define `foo` in `bar.example.com`, but not `foo.bar` in `example.com`, for which a request was
    /// authorized.
    fn is_of(&self, group: &str, resource: &str) -> bool {
        *self.group == *group && *self.plural == *resource
    }

    pub fn row(&self, version: &str) -> Option<&SharedRow> {
        self.rows.iter().find(|row| row.version == version)
    }
}

/// The definitions of a workspace, ordered by name.
pub fn list(snapshot: &Snapshot, workspace: &str) -> Vec<Arc<Definition>> {
    let scope = Scope::new(GROUP, RESOURCE, Some(workspace), Some(""));
    snapshot.list(&scope, None).filter_map(|object| Definition::of(&object)).collect()
}

impl Registry {
    /// Compiles a definition on another thread before it is encoded. The compiled definition is shared while
    /// the result is alive.
    pub(crate) async fn compile_ahead(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
    ) -> Option<Arc<Definition>> {
        let compile = row.strategy.compile?;
        let (catalog, object) = (self.catalog.clone(), object.clone());
        run_blocking(&self.tenant_of(workspace), move || compile(&catalog, &object)).await.ok()
    }

    /// The row of a resource in a workspace (`None`: in all of them).
    pub fn find(
        &self,
        workspace: Option<&str>,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Option<SharedRow> {
        if let Some(row) = self.catalog.find(group, version, resource) {
            return Some(row.clone());
        }
        let definition = self.definition(workspace, group, resource)?;
        definition.row(version).filter(|_| definition.is_served).cloned()
    }

    /// The row of a stored object in one of its versions. A custom object always belongs to a definition,
    /// even if a built-in resource has the same name.
    pub fn find_stored(&self, parts: &Parts<'_>, version: &str) -> Option<SharedRow> {
        if !parts.is_custom() {
            return self.catalog.find(parts.api_group(), version, parts.resource).cloned();
        }
        let definition = self.definition(Some(parts.workspace), parts.api_group(), parts.resource)?;
        definition.row(version).filter(|_| definition.is_served).cloned()
    }

    /// The definition of a custom resource in a workspace. For all workspaces, it is that of root or, if root
    /// has none, the first one found.
    pub fn definition(
        &self,
        workspace: Option<&str>,
        group: &str,
        resource: &str,
    ) -> Option<Arc<Definition>> {
        // Every definition has a group.
        if group.is_empty() {
            return None;
        }
        let name = format!("{resource}.{group}");
        let snapshot = self.snapshot();
        match workspace {
            Some(workspace) => {
                // The kinds of a dialect are reserved where it is enabled: a definition of the workspace
                // would serve the same objects without the dialect's protection.
                self.dialect_definition(Some(workspace), group, resource).or_else(|| {
                    let object = snapshot.get(&Key::object(GROUP, RESOURCE, workspace, "", &name));
                    let definition = object.and_then(|object| Definition::of(&object));
                    definition.filter(|definition| definition.is_of(group, resource))
                })
            }
            None => {
                let everywhere = Scope::new(GROUP, RESOURCE, None, None);
                let served = |object: Arc<Object>| {
                    let definition = (object.name() == name).then(|| Definition::of(&object)).flatten();
                    definition.filter(|definition| definition.is_served && definition.is_of(group, resource))
                };
                // A workspace's definition must not decide how the clusters of other workspaces are read, nor
                // hide the resources of root.
                let of_dialect = self.dialect_definition(None, group, resource);
                let of_root = || snapshot.get(&Key::object(GROUP, RESOURCE, ROOT, "", &name));
                of_dialect
                    .or_else(|| of_root().and_then(served))
                    .or_else(|| snapshot.list(&everywhere, None).find_map(served))
            }
        }
    }
}
