//! What each verb means for an object: defaults, checks, and one guarded write to the store.
//!
//! ```text
//!   Catalog ─► Row (names, verbs, Strategy)
//!                │
//!   create · update · delete ──► Strategy: prepare, check ──► encode ──► store.write (expecting what was read)
//!   get · list ◄── Cache snapshot                                └── not as expected? read again, try again
//! ```
//!
//! Every write names the revision it was computed from, so nothing is ever overwritten unseen. Objects are
//! parsed only to be changed; what is read is handed on as it is stored.

mod account;
mod admission;
mod binding;
pub mod bootstrap;
pub mod catalog;
mod checking;
mod create;
pub mod custom_keys;
pub mod definitions;
mod delete;
pub mod dialect;
mod eviction;
pub mod expiry;
mod facts;
mod lineage;
mod managers;
mod modify;
mod offload;
pub mod own;
pub mod placement;
mod purge;
mod read;
pub mod resets;
pub mod row;
pub mod scale;
mod services;
pub mod strategy;
#[cfg(test)]
mod testing;
mod update;
pub mod usage;
pub mod views;

use std::sync::Arc;

use atoll_meta::Status;
use atoll_store::{Condition, Key, Revision, Store, Unavailable, Write, WriteError};
use atoll_watch::{Cache, Facts, Snapshot};
use bytes::Bytes;
use serde_json::Value;

pub use admission::{Admission, Limited, Unasked, Written};
/// Who manages the fields of a kind.
pub use atoll_merge::apply::Kind as Managed;
pub use catalog::{Catalog, Profile};
pub use delete::{DeleteOptions, Deleted, Propagation};
pub use facts::Decoder;
pub use read::{Listing, Selection, Start};
pub use row::{Place, Row, SharedRow};
pub use services::{Network, PortRange, Prefix};
pub use update::Update;

pub struct Registry {
    pub store: Arc<dyn Store>,
    pub cache: Arc<Cache>,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub network: Network,
    /// Held by whoever gives names to definitions.
    pub naming: tokio::sync::Mutex<()>,
    /// What is on which cluster.
    pub placements: Arc<placement::Placements>,
    /// What workspaces have and may have.
    pub usage: Arc<usage::Usage>,
}

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// By how many seconds it is ahead of the machine's.
    fn skew(&self) -> i64 {
        0
    }
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs().cast_signed())
    }
}

/// An object as a client is shown it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Complete JSON. A dry run that creates has no resource version to show.
    pub json: Bytes,
}

/// How a write to the store ended when it did not succeed.
enum Refused {
    /// Someone else was first; look again.
    Changed,
    Status(Status),
}

impl Registry {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.cache.snapshot()
    }

    /// Now, as it is written in objects.
    pub fn now(&self) -> String {
        atoll_meta::time::format(self.clock.now())
    }

    /// One write, expecting that `key` has not changed since `snapshot`.
    async fn write(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        value: Option<(Bytes, Arc<Facts>)>,
    ) -> Result<Revision, Refused> {
        let expect = snapshot.stored_revision(key).map_or(Condition::Absent, Condition::At);
        // Under an object of the shared layer there is no absence: a deletion is written down.
        let (value, memo) = match value {
            Some((value, facts)) => (Some(value), facts),
            None if snapshot.is_layered(key) => {
                (Some(Bytes::from_static(atoll_watch::object::TOMBSTONE)), Facts::none())
            }
            None => (None, Facts::none()),
        };
        let write = Write { key: key.clone(), expect, value, guards: Vec::new(), memo: Some(memo) };
        match self.store.write(write).await {
            Ok(revision) => {
                self.cache.wait_for(revision).await;
                Ok(revision)
            }
            Err(WriteError::Unmet { revision, .. }) => {
                self.cache.wait_for(revision).await;
                Err(Refused::Changed)
            }
            Err(WriteError::Unavailable(cause)) => Err(Refused::Status(unavailable(&cause))),
        }
    }

    /// As it is stored and then shown: upstream's store does not tell empty from absent.
    fn encode_stored(&self, row: &Row, object: &mut Value) -> (Bytes, Arc<Facts>) {
        let stays_json = matches!(row.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io");
        if let Some(id) = row.stored_type().filter(|_| !stays_json) {
            atoll_schema::through_protobuf(atoll_schema::Types::get(), id, object);
        }
        if let Some(custom) = &row.custom {
            definitions::to_stored(row, custom, object);
        }
        // Whatever is read from the store is filled in again.
        row.stored_defaults().apply(object);
        self.encode(row, object)
    }

    fn encode(&self, row: &Row, object: &Value) -> (Bytes, Arc<Facts>) {
        (Bytes::from(atoll_meta::json::encode_object(object)), facts::of(&self.catalog, row, object))
    }
}

/// Reads go on and the write may be tried again: the cause is on our side and can be mended.
fn unavailable(cause: &Unavailable) -> Status {
    Status::service_unavailable(format!("the write was not carried out: {cause}"))
}

fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Status::internal_error(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// Parses an object that is stored: it was valid when it was written.
fn parse(json: &[u8]) -> Result<Value, Status> {
    let parsed = atoll_meta::json::parse(json);
    parsed
        .map(|parsed| parsed.value)
        .map_err(|error| Status::internal_error(format!("stored object: {error}")))
}
