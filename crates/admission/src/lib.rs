//! The last word before a write: may this object exist here, now?
//!
//! A plugin looks at one request and lets it pass or refuses it with a Status. They run in a fixed order,
//! upstream's, and the first refusal ends it.

mod namespace_lifecycle;
mod runtime_class;

use atoll_meta::Status;
use atoll_registry::Row;
use atoll_watch::Snapshot;
use serde_json::Value;

pub use namespace_lifecycle::NamespaceLifecycle;
pub use runtime_class::RuntimeClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What is about to happen.
pub struct Request<'a> {
    pub operation: Operation,
    pub row: &'a Row,
    pub subresource: &'a str,
    /// Id of the workspace.
    pub workspace: &'a str,
    pub namespace: &'a str,
    /// Empty if it is yet to be generated.
    pub name: &'a str,
    /// What is to be created or to take another's place, where that is what is about to happen.
    pub object: Option<&'a Value>,
    /// Everything as it stands.
    pub snapshot: &'a Snapshot,
}

pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;
    fn admit(&self, request: &Request<'_>) -> Result<(), Status>;
}

/// All plugins, in order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Default for Chain {
    fn default() -> Self {
        Chain { plugins: vec![Box::new(NamespaceLifecycle), Box::new(RuntimeClass)] }
    }
}

impl Chain {
    pub fn admit(&self, request: &Request<'_>) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.admit(request))
    }
}
