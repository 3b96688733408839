//! The last word before a write: what it still lacks, and whether it may be.
//!
//! ```text
//!  verb ─► registry ─► mutate: each plugin in order ─► [policies, webhooks]            the object changes
//!                 └──► validate: each plugin in order ─► [policies, webhooks] ─► reserve   it may be refused
//! ```
//!
//! A plugin is a small function on one trait, in a file of its own. To add one: write a type that implements [`Plugin`]
//! (`handles` says which requests concern it and must be quick; then one of `mutate`, `validate` and `reserve`), and name it
//! in `plugin` in `chain.rs`, whose table has upstream's names, order and defaults. Plugins see everything through
//! [`Request`] and refuse with a Status, mostly made by [`Request::forbidden`]. What must be written before the object may be
//! (a quota's usage) is done by `reserve`, which runs when nothing else has objected.

pub mod amounts;
mod certificates;
mod chain;
mod claim_resize;
mod default_classes;
mod grain;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_resize;
mod pod_security;
mod priority;
mod request;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taint_nodes;
mod tolerations;
mod topology_labels;

use std::pin::Pin;

use atoll_meta::Status;
use atoll_registry::{Registry, Written};
use atoll_store::Key;
use serde_json::Value;

pub use chain::Chain;
pub use request::{Found, Operation, Options, Request};

pub trait Plugin: Send + Sync {
    /// Whether such a request concerns it. Asked of every request: no parsing, no allocation.
    fn handles(&self, request: &Request<'_>) -> bool;

    /// What somebody else is about to create and `mutate` cannot do without: it is waited for, for a moment.
    fn awaits(&self, _request: &Request<'_>, _object: &Value) -> Option<Key> {
        None
    }

    /// Changes what is about to be created or changed, before it is prepared and checked.
    fn mutate(&self, _request: &Request<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Judges the finished object; on deletion, what is about to go.
    fn validate(&self, _request: &Request<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Writes what must be written before the object may be, through `request.registry`. `None` if there is nothing. What it
    /// comes to is told how the object's own write ended.
    fn reserve<'a>(&'a self, _request: &'a Request<'a>, _object: &'a Value) -> Option<Reservation<'a>> {
        None
    }
}

/// A write of a plugin's own. It looks at a snapshot of its own making and holds no lock while it waits.
pub type Reservation<'a> = Pin<Box<dyn Future<Output = Result<Option<Box<dyn Held>>, Status>> + Send + 'a>>;

/// Something that was taken for a write that is about to happen.
pub trait Held: Send {
    /// Keeps it, or gives it back, as the write has ended.
    fn finish<'a>(
        self: Box<Self>,
        registry: &'a Registry,
        written: Written,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}
