//! The last word before a write: may this object exist here, now?
//!
//! A plugin looks at one request and lets it pass or refuses it with a Status. They run in a fixed order,
//! upstream's, and the first refusal ends it.

mod namespace_lifecycle;

use atoll_meta::Status;
use atoll_registry::Row;
use atoll_watch::Snapshot;

pub use namespace_lifecycle::NamespaceLifecycle;

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
        Chain { plugins: vec![Box::new(NamespaceLifecycle)] }
    }
}

impl Chain {
    pub fn admit(&self, request: &Request<'_>) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.admit(request))
    }
}
