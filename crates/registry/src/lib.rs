//! The registry: what each verb does with an object, from defaults and validation to one conditional write to
//! the store.
//!
//! ```text
//!   Catalog ─► Row (names, verbs, Strategy)
//!                │
//!   create · update · delete ──► Strategy: prepare, check ──► encode ──► store.write (expecting what was read)
//!   get · list ◄── Cache snapshot                                └── conflict: read again, retry
//! ```
//!
//! Every write expects the revision from which it was computed, so no concurrent change is ever overwritten.
//! Objects are parsed only to be changed; reads return the stored bytes.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go

mod admission;
mod allocation;
pub mod atoll_kinds;
mod binding;
mod blocking;
pub mod bootstrap;
pub mod catalog;
mod create;
pub mod custom_keys;
pub mod definitions;
mod delete;
pub mod dialect;
mod eviction;
pub mod expiry;
mod facts;
pub mod imports;
mod managed_fields;
mod modify;
mod object_size;
pub mod placement;
mod purge;
mod read;
pub mod reset_fields;
pub mod row;
pub mod scale;
pub mod selection;
mod services;
mod status_writes;
pub mod strategy;
mod subtree;
#[cfg(test)]
mod testing;
mod update;
pub mod usage;
mod validation;
pub mod views;
mod workspace_tree;

use std::sync::Arc;

use atoll_meta::Status;
use atoll_store::{Condition, Key, Revision, Store, Unavailable, Write, WriteError};
use atoll_watch::{Cache, Facts, Snapshot};
use bytes::Bytes;
use serde_json::Value;

pub use admission::{Admission, LimitsOnly, NoAdmission, WriteOutcome};
pub use atoll_clock::{Clock, SystemClock};
/// Managed fields of a kind.
pub use atoll_merge::apply::Kind as Managed;
pub use binding::reserved_metadata;
pub use blocking::{
    Burst, EVALUATION_TIMEOUT, INLINE_TIMEOUT, LARGE, Stage, Turn, run_in_place, run_until_deadline,
    run_with_deadline, size_of, size_up_to,
};
pub use catalog::{Catalog, Profile};
pub use delete::{DeleteOptions, DeleteResult, Propagation};
pub use facts::Decoder;
pub use modify::set_condition;
pub use read::{Listing, PageStart};
pub use row::{ObjectRef, Row, SharedRow};
pub use selection::Selection;
pub use services::{Network, PortRange, Prefix};
pub use subtree::Subtree;
pub use update::Update;

pub struct Registry {
    pub store: Arc<dyn Store>,
    pub cache: Arc<Cache>,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub network: Network,
    /// Held while names of definitions are resolved.
    pub naming: tokio::sync::Mutex<()>,
    /// The index of placements by cluster.
    pub placements: Arc<placement::Placements>,
    /// Usage and limits of workspaces.
    pub usage: Arc<usage::Usage>,
}

/// An object in the form that is served to clients.
#[derive(Clone, Debug)]
pub struct RenderedObject {
    /// Complete JSON. The result of a dry-run create has no resource version.
    pub json: Bytes,
}

/// The reason why a write to the store failed.
enum WriteFailure {
    /// Another writer was first; read again.
    Conflict,
    Status(Status),
}

impl Registry {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.cache.snapshot()
    }

    /// The current time in the format of object timestamps.
    pub fn now(&self) -> String {
        atoll_meta::time::format(self.clock.seconds())
    }

    /// Executes one write, expecting that `key` has not changed since `snapshot`.
    async fn write(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        value: Option<(Bytes, Arc<Facts>)>,
    ) -> Result<Revision, WriteFailure> {
        let expect = snapshot.stored_revision(key).map_or(Condition::Absent, Condition::At);
        // The deletion of a bootstrap object is stored as a tombstone.
        let (value, hint) = match value {
            Some((value, facts)) => (Some(value), facts),
            None if snapshot.is_layered(key) => {
                (Some(Bytes::from_static(atoll_watch::object::TOMBSTONE)), Facts::none())
            }
            None => (None, Facts::none()),
        };
        let write = Write { key: key.clone(), expect, value, guards: Vec::new(), hint: Some(hint) };
        match self.store.write(write).await {
            Ok(revision) => {
                self.cache.wait_for(revision).await;
                Ok(revision)
            }
            Err(WriteError::Unmet { revision, .. }) => {
                self.cache.wait_for(revision).await;
                Err(WriteFailure::Conflict)
            }
            Err(WriteError::Unavailable(cause)) => Err(WriteFailure::Status(unavailable(&cause))),
        }
    }

    /// Encodes an object for the store: upstream's store does not distinguish empty from absent.
    fn encode_stored(&self, row: &Row, object: &mut Value) -> (Bytes, Arc<Facts>) {
        if let Some(id) = row.stored_type().filter(|_| !row.strategy.stored_as_json) {
            atoll_schema::through_protobuf(atoll_schema::Types::get(), id, object);
        }
        if let Some(custom) = &row.custom {
            definitions::to_stored(row, custom, object);
        }
        // Upstream applies defaults to everything that it reads from the store.
        row.stored_defaults().apply(object);
        self.encode(row, object)
    }

    fn encode(&self, row: &Row, object: &Value) -> (Bytes, Arc<Facts>) {
        (Bytes::from(atoll_meta::json::encode_object(object)), facts::of(&self.catalog, row, object))
    }
}

/// The status for a write that failed because of the store; it may be retried.
fn unavailable(cause: &Unavailable) -> Status {
    Status::service_unavailable(format!("the write was not executed: {cause}"))
}

fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Status::internal_error(format!("the system's random number generator failed: {error}"))
    })?;
    Ok(bytes)
}

/// Parses a stored object, which was valid when it was written.
fn parse(json: &[u8]) -> Result<Value, Status> {
    let parsed = atoll_meta::json::parse(json);
    parsed
        .map(|parsed| parsed.value)
        .map_err(|error| Status::internal_error(format!("stored object: {error}")))
}
