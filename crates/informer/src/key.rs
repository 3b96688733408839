//! Key of an object: workspace id, namespace and name.

use std::fmt;
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use crate::WORKSPACE;

/// Ordered by workspace, namespace and name, like lists.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Workspace id; empty for a single API server.
    pub workspace: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(workspace: &str, namespace: &str, name: &str) -> Key {
        Key { workspace: workspace.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of an object from a cache.
    pub fn of(object: &Value) -> Key {
        let workspace = object::annotation(object, WORKSPACE).unwrap_or_default();
        Key::new(workspace, object::namespace(object), object::name(object))
    }

    /// Returns the key of another object in the same namespace.
    pub fn sibling(&self, name: &str) -> Key {
        Key { workspace: self.workspace.clone(), namespace: self.namespace.clone(), name: name.into() }
    }

    /// Returns the key of a cluster-scoped object in the same workspace.
    pub fn in_workspace(&self, name: &str) -> Key {
        Key { workspace: self.workspace.clone(), namespace: "".into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.workspace, &self.namespace] {
            if !part.is_empty() {
                write!(out, "{part}/")?;
            }
        }
        out.write_str(&self.name)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}
