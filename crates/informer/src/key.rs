//! What an object is called, wherever it is.

use std::fmt;
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use crate::WORKSPACE;

/// Ordered by workspace, then namespace, then name, as lists are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The workspace's id; empty where there is but one API server.
    pub workspace: Arc<str>,
    /// Empty for what is in no namespace.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(workspace: &str, namespace: &str, name: &str) -> Key {
        Key { workspace: workspace.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object as a cache holds it.
    pub fn of(object: &Value) -> Key {
        let workspace = object::annotation(object, WORKSPACE).unwrap_or_default();
        Key::new(workspace, object::namespace(object), object::name(object))
    }

    /// Another object in the same namespace.
    pub fn beside(&self, name: &str) -> Key {
        Key { workspace: self.workspace.clone(), namespace: self.namespace.clone(), name: name.into() }
    }

    /// An object of the same workspace that is in no namespace.
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
