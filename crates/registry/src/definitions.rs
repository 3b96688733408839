//! Custom resources: kinds that the objects of a workspace define.
//!
//! ```text
//!   CustomResourceDefinition ─ compile ─► Definition ─► Row of each version, with its Custom
//!          │    written or loaded             ▲             names, schema, subresources, columns
//!          │                                  └─ Interned: one for all workspaces that say the same
//!          ├─ announce: an APIService for each version
//!          ├─ settle: names accepted, established, what else its status says
//!          └─ removal: its objects go first, then it goes
//! ```
//!
//! A definition is compiled when its object is written or loaded and kept with the object, so that finding the row of
//! a custom resource is a lookup in the snapshot, and nothing has to be forgotten when a definition changes or goes.

mod announce;
pub(crate) mod compile;
mod conditions;
mod custom;
pub(crate) mod form;
mod intern;
mod naming;
mod removal;
pub mod reserved;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use atoll_store::Key;
use atoll_store::key::{Parts, custom_group};
use atoll_watch::{Object, Scope, Snapshot};
use bytes::Bytes;
use serde_json::Value;

use crate::Registry;
use crate::offload::offload;
use crate::row::{Row, SharedRow};

pub use compile::compare_versions;
pub use custom::Custom;
pub(crate) use form::to_stored;
pub use intern::{Interned, Text};
pub use naming::Names;
pub use removal::run;

pub const GROUP: &str = "apiextensions.k8s.io";
pub const RESOURCE: &str = "customresourcedefinitions";

/// What a CustomResourceDefinition means.
#[derive(Debug)]
pub struct Definition {
    /// Another one for everything that differs.
    pub id: u64,
    pub group: Box<str>,
    /// The plural name that it asks for, which is a part of its own name and never changes.
    pub plural: Box<str>,
    /// Those that others have not taken; empty before they are settled.
    pub accepted: Names,
    /// Whether it has asked for names that it has not got.
    pub waits: bool,
    /// Whether requests are served.
    pub is_served: bool,
    /// Whether discovery tells of it.
    pub is_established: bool,
    /// Whether nothing new may be created because it is going.
    pub is_terminating: bool,
    /// Whether its status does not say what it should of its size: a definition from before there was a limit may be too
    /// large, of which some patterns and rules are then not compiled.
    pub(crate) misreported: bool,
    /// The versions that are served, in the order of the definition.
    pub rows: Vec<SharedRow>,
    /// The version in which objects are stored.
    pub stored: Option<SharedRow>,
    /// The spec, as it stands in the object.
    pub(crate) spec: Bytes,
    /// What the spec takes when it is compiled, in bytes, estimated.
    pub(crate) size: u64,
    /// The same for all definitions with the same spec, which share what is compiled.
    pub(crate) hash: u64,
    /// All that this was made of.
    pub(crate) source: Bytes,
}

impl Definition {
    /// The definition that was made of an object.
    pub fn of(object: &Object) -> Option<Arc<Definition>> {
        object.facts.further.as_ref()?.made.clone()?.downcast().ok()
    }

    /// The spec, read again.
    pub fn spec(&self) -> Value {
        atoll_meta::json::parse(&self.spec).map(|parsed| parsed.value).unwrap_or_default()
    }

    /// All objects of it in a workspace, whatever its status says.
    pub(crate) fn scope(&self, workspace: &str) -> Scope {
        Scope::new(&custom_group(&self.group), &self.plural, Some(workspace), None)
    }

    /// Whether requests for a resource are about it. Names of definitions do not tell: `foo.bar.example.com` may be about
    /// `foo` in `bar.example.com`, but not about `foo.bar` in `example.com`, which is what the request was authorized for.
    fn is_of(&self, group: &str, resource: &str) -> bool {
        *self.group == *group && *self.plural == *resource
    }

    pub fn row(&self, version: &str) -> Option<&SharedRow> {
        self.rows.iter().find(|row| row.version == version)
    }
}

/// Whether objects of this row define others.
pub fn defines(row: &Row) -> bool {
    row.resource == RESOURCE && row.group == GROUP
}

/// The definitions of a workspace, in the order of their names.
pub fn list(snapshot: &Snapshot, workspace: &str) -> Vec<Arc<Definition>> {
    let scope = Scope::new(GROUP, RESOURCE, Some(workspace), Some(""));
    snapshot.list(&scope, None).filter_map(|object| Definition::of(&object)).collect()
}

impl Registry {
    /// Compiles a definition before it is encoded, where nobody waits for the thread. What comes of it is shared for as
    /// long as the answer is kept.
    pub(crate) async fn compile_ahead(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
    ) -> Option<Arc<Definition>> {
        if !defines(row) {
            return None;
        }
        let (catalog, object) = (self.catalog.clone(), object.clone());
        offload(&self.top(workspace), move || compile::definition(&catalog.definitions, &object)).await.ok()
    }

    /// The row of a resource as it is served in a workspace (`None`: in all of them).
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

    /// The row of a stored object in one of its versions. A custom object belongs to a definition, even if a built-in
    /// resource has the same name.
    pub fn find_stored(&self, parts: &Parts<'_>, version: &str) -> Option<SharedRow> {
        if !parts.is_custom() {
            return self.catalog.find(parts.api_group(), version, parts.resource).cloned();
        }
        let definition = self.definition(Some(parts.workspace), parts.api_group(), parts.resource)?;
        definition.row(version).filter(|_| definition.is_served).cloned()
    }

    /// The definition of a custom resource in a workspace. For all of them it is that of the first one that has it.
    pub fn definition(
        &self,
        workspace: Option<&str>,
        group: &str,
        resource: &str,
    ) -> Option<Arc<Definition>> {
        // No definition is without a group.
        if group.is_empty() {
            return None;
        }
        let name = format!("{resource}.{group}");
        let snapshot = self.snapshot();
        match workspace {
            Some(workspace) => {
                // What a dialect serves is reserved where it is spoken: a definition of the workspace's own would serve the
                // same objects without what the dialect does to protect them.
                self.spoken(Some(workspace), group, resource).or_else(|| {
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
                // Nobody's own definition decides how others' clusters are read.
                let spoken = self.spoken(None, group, resource);
                spoken.or_else(|| snapshot.list(&everywhere, None).find_map(served))
            }
        }
    }
}
