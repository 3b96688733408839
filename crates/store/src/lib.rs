//! The store: one ordered map from keys to values, in which every change has a revision.
//!
//! ```text
//!  Write { key, expect, change, guards }          Change { key, revision, value }
//!        │                                                ▲
//!        ▼                                                │
//!   Store::write ──► (durable, then) ──► subscribers, in revision order ──► acknowledged
//!        │
//!        └── range at a revision, subscribe from a revision, compact
//! ```
//!
//! This crate contains the trait, the memory backend and the test suite that every backend passes. It knows
//! nothing of Kubernetes beyond the layout of a key, and it does not depend on any other backend.
//!
//! The trait can be implemented on etcd: `write` is a Txn that compares mod revisions and then puts or
//! deletes one key, `range` is a Range at a revision, `subscribe` is a Watch over the whole key space with
//! progress notifications, and `compact` is Compact.

pub mod key;
pub mod memory;
#[cfg(feature = "suite")]
pub mod suite;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
pub use key::Key;

/// Position in the history of the store. 0 is before every change; the first write gets 1 or more. Every
/// change gets its own revision, and no revision is ever reused.
pub type Revision = u64;

/// The highest revision to which a store can be raised. SQLite and etcd use signed 64-bit numbers; half of
/// the positive range stays available above it.
pub const MAX_REVISION: Revision = 1 << 62;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A precondition on a key, checked when a write is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No precondition.
    Any,
    /// The key has no value.
    Absent,
    /// The key has a value.
    Present,
    /// The key's value was last changed at exactly this revision.
    At(Revision),
}

/// A condition on a key other than the one being written: a leader's epoch, a quota's revision.
#[derive(Clone, Debug)]
pub struct Guard {
    pub key: Key,
    pub condition: Condition,
}

/// Information about the value that the writer already has, such as its labels. It is never stored;
/// subscribers in the same process receive it with the change, so that they need not parse the value again.
pub type WriteHint = Arc<dyn Any + Send + Sync>;

/// One change to one key, executed only if all its conditions hold.
#[derive(Clone)]
pub struct Write {
    pub key: Key,
    pub expect: Condition,
    /// `None` deletes. Deleting a key that has no value is refused as an unmet condition.
    pub value: Option<Bytes>,
    pub guards: Vec<Guard>,
    pub hint: Option<WriteHint>,
}

/// A write that was executed and is durable.
#[derive(Clone)]
pub struct Change {
    pub key: Key,
    pub revision: Revision,
    /// `None` if the key was deleted.
    pub value: Option<Bytes>,
    pub hint: Option<WriteHint>,
}

/// Changes in ascending order of revision.
#[derive(Clone, Debug)]
pub struct Batch {
    pub changes: Vec<Change>,
    /// Everything up to this revision has been delivered; at least the revision of the last change.
    pub revision: Revision,
}

/// Receives every change exactly once and in order, on the store's thread: it must return quickly and must
/// not call the store. `Break` ends the subscription.
pub type Sink = Box<dyn FnMut(&Batch) -> ControlFlow<()> + Send>;

/// Called with a key, a revision and the value that the key had from that revision on.
pub type Visit = Arc<dyn Fn(&Key, Revision, &[u8]) + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub value: Bytes,
    pub revision: Revision,
}

/// Keys from `start` to `end`, in byte order.
#[derive(Clone, Debug)]
pub struct Range {
    pub start: Bound<Key>,
    pub end: Bound<Key>,
}

/// The result of a range read.
#[derive(Clone, Debug)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// The revision that was read.
    pub revision: Revision,
    /// Whether the limit left entries out.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// A condition did not hold; nothing was written.
    Unmet {
        /// The key whose condition failed.
        key: Key,
        /// Its current revision, `None` if it has no value.
        actual: Option<Revision>,
        /// The revision of the store when the conditions were checked.
        revision: Revision,
    },
    /// The store cannot accept writes now. Reads continue, and writes work again without intervention once
    /// the cause is gone.
    Unavailable(Unavailable),
}

/// The reason why a store cannot be written to. Its text tells the operator what to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    DiskFull,
    ReadOnly,
    /// The disk failed in another way, or the backend cannot be reached.
    Failed(String),
    /// The store was closed because the process is shutting down.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The revision was compacted; `oldest` is the first one that can still be read or subscribed from.
    Compacted {
        oldest: Revision,
    },
    /// The store has not reached the revision.
    Future {
        current: Revision,
    },
    Unavailable(Unavailable),
}

pub trait Store: Send + Sync + 'static {
    /// Executes one write. When it returns `Ok`, the change is durable and was delivered to every subscriber
    /// of an embedded store.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Reads keys in order at revision `at`, or the current ones. Returns at most `limit` entries unless
    /// `limit` is 0.
    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// The revision of the last durable change, or the one to which the store was raised since.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// The last compacted revision, 0 if there is none: the oldest revision to subscribe from.
    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// Delivers every change after `after`: first the existing ones, then each as it becomes durable. Changes
    /// that happened before the call have been delivered when it returns. A batch without changes only
    /// reports progress.
    fn subscribe(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>>;

    /// The revision to subscribe from to receive the most recent changes whose values total at least `bytes`
    /// bytes. It is [`Store::compacted`] if there are fewer, or if the backend does not know.
    fn tail_start(&self, _bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.compacted()
    }

    /// Calls `visit` for every stored value, including history, in any order and possibly from several
    /// threads. Values that are compacted but not deleted yet may be included.
    fn visit(&self, visit: Visit) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            for entry in self.range(Range::all(), None, 0).await?.entries {
                visit(&entry.key, entry.revision, &entry.value);
            }
            let (compacted, revision) = (self.compacted().await?, self.revision().await?);
            let sink = Box::new(move |batch: &Batch| {
                for change in &batch.changes {
                    if let Some(value) = &change.value {
                        visit(&change.key, change.revision, value);
                    }
                }
                // Later changes were not stored when the call was made.
                if batch.revision < revision { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.subscribe(compacted, sink).await
        })
    }

    /// Removes versions that are no longer current at `through`, or at the current revision if `through` is
    /// in the future. Ranges and subscriptions from before `through` then fail with `Compacted`; those at
    /// `through` itself still work.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Makes the next write's revision greater than `to` and compacts everything before it, so that a
    /// revision that a client has from an earlier state of this store (before a restore) is not valid here.
    /// It never lowers the revision.
    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// The stored form of a value, `None` if it is the value itself. Files that contain stored values, such
    /// as snapshots, use it too.
    fn encrypt(&self, _key: &Key, _value: &[u8]) -> Result<Option<Bytes>, Unavailable> {
        Ok(None)
    }

    /// The value of a stored form.
    fn decrypt(&self, _key: &Key, stored: &Bytes) -> Result<Bytes, Unavailable> {
        Ok(stored.clone())
    }
}

impl Condition {
    /// Whether a key that was last changed at `actual` (`None`: it has no value) satisfies this condition.
    pub fn holds(self, actual: Option<Revision>) -> bool {
        match self {
            Condition::Any => true,
            Condition::Absent => actual.is_none(),
            Condition::Present => actual.is_some(),
            Condition::At(revision) => actual == Some(revision),
        }
    }
}

impl Range {
    /// Every key.
    pub fn all() -> Self {
        Range { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    pub fn is_everything(&self) -> bool {
        matches!((&self.start, &self.end), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        Range { start: Bound::Included(Key::from(prefix)), end: key::after_prefix(prefix) }
    }

    /// Whether no key can be in this range. `BTreeMap::range` panics for some of these bounds.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
        }
    }
}

impl Unavailable {
    /// The error for raising a store beyond [`MAX_REVISION`].
    pub fn revision_too_high(to: Revision) -> Self {
        Unavailable::Failed(format!(
            "revision {to} is too high; a store can be raised to at most {MAX_REVISION}"
        ))
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets: only their size is shown.
        let size = self.value.as_ref().map(Bytes::len);
        f.debug_struct("Change")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("size", &size)
            .finish()
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Compacted { oldest } => {
                write!(f, "the revision was compacted; the oldest available revision is {oldest}")
            }
            ReadError::Future { current } => {
                write!(f, "the revision is in the future; the current revision is {current}")
            }
            ReadError::Unavailable(unavailable) => unavailable.fmt(f),
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::DiskFull => {
                f.write_str("the disk that holds the data directory is full; free some space")
            }
            Unavailable::ReadOnly => {
                f.write_str("the data directory is read-only; remount it writable or fix its permissions")
            }
            Unavailable::Failed(cause) => write!(f, "the store failed: {cause}"),
            Unavailable::Closed => f.write_str("the server is shutting down"),
        }
    }
}
