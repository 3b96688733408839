//! Admission: mutates and validates objects before they are written.
//!
//! ```text
//!  verb ─► registry ─► mutate: each plugin in order ─► [policies, webhooks]            may change the object
//!                 └──► validate: each plugin in order ─► [policies, webhooks] ─► reserve   may refuse it
//! ```
//!
//! Each plugin implements one trait in a file of its own. To add one: write a type that implements [`Plugin`]
//! (`handles` selects requests and must be fast; then one of `mutate`, `validate` and `reserve`), and add it
//! to `plugin` in `chain.rs`, whose table has upstream's names, order and defaults. Plugins see the request
//! as [`Request`] and refuse it with a Status, mostly from [`Request::forbidden`]. Writes that must precede
//! the object's own write (the usage of a quota) belong in `reserve`, which runs last.

mod certificates;
mod chain;
mod claim_resize;
mod cluster_intent;
mod default_classes;
mod grain;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_resize;
mod pod_security;
mod policy_size;
mod priority;
mod request;
pub mod resource_list;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taint_nodes;
mod tolerations;
mod topology_labels;

use std::pin::Pin;

use atoll_meta::Status;
use atoll_registry::{Registry, WriteOutcome};
use atoll_store::Key;
use serde_json::Value;

pub use chain::AdmissionChain;
pub use request::{AdmissionOptions, Operation, Request, StoredObject};

pub trait Plugin: Send + Sync {
    /// Whether the plugin handles such a request. Called for every request: no parsing, no allocation.
    fn handles(&self, request: &Request<'_>) -> bool;

    /// Returns the key of an object that is about to be created and that `mutate` needs. The request waits
    /// for it for a short time.
    fn waits_for(&self, _request: &Request<'_>, _object: &Value) -> Option<Key> {
        None
    }

    /// Changes an object that is created or updated, before it is prepared and validated.
    fn mutate(&self, _request: &Request<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Validates the final object; on deletion, the existing object.
    fn validate(&self, _request: &Request<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Writes what must be written before the object, through `request.registry`. `None` if there is nothing
    /// to write. The returned reservation is notified of the result of the write.
    fn reserve<'a>(&'a self, _request: &'a Request<'a>, _object: &'a Value) -> Option<ReserveFuture<'a>> {
        None
    }
}

/// A write of a plugin. It takes its own snapshot and holds no lock while it waits.
pub type ReserveFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Box<dyn Reservation>>, Status>> + Send + 'a>>;

/// A reservation for a pending write.
pub trait Reservation: Send {
    /// Keeps or releases the reservation, depending on the outcome of the write.
    fn finish<'a>(
        self: Box<Self>,
        registry: &'a Registry,
        written: WriteOutcome,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}
