//! The store: one ordered map from keys to values, in which every change has a revision.
//!
//! ```text
//!  Write { key, expect, change, guards }          Change { key, revision, value }
//!        │                                                ▲
//!        ▼                                                │
//!   Store::write ──► (durable, then) ──► followers, in revision order ──► acknowledged
//!        │
//!        └── range at a revision, follow from a revision, compact
//! ```
//!
//! This crate holds the trait, the memory backend and the suite that every backend passes. It knows
//! nothing of Kubernetes beyond the layout of a key, and it may not see any other backend.
//!
//! The trait is cut to fit etcd: `write` is a Txn that compares mod revisions and then puts or deletes
//! one key, `range` is a Range at a revision, `follow` is a Watch over the whole key space with progress
//! notifications, and `compact` is Compact.

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

/// Position in the history of the store. 0 is before everything; the first write gets 1 or more.
/// Every change gets a revision of its own, and no revision is ever given out twice.
pub type Revision = u64;

/// The highest revision a store can be raised to. SQLite and etcd count in signed numbers; this leaves as much
/// room above it as there is below.
pub const MAX_REVISION: Revision = 1 << 62;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What must be true of a key at the moment a write is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is demanded.
    Any,
    /// The key has no value.
    Absent,
    /// The key has a value, whichever.
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

/// What the writer already knows of the value (its labels, say). It never reaches the disk; followers in
/// the same process get it with the change, so that a value need not be parsed a second time.
pub type Memo = Arc<dyn Any + Send + Sync>;

/// One change to one key, carried out only if all its conditions hold.
#[derive(Clone)]
pub struct Write {
    pub key: Key,
    pub expect: Condition,
    /// `None` deletes. Deleting a key that has no value is refused as an unmet condition.
    pub value: Option<Bytes>,
    pub guards: Vec<Guard>,
    pub memo: Option<Memo>,
}

/// A write that has happened and is durable.
#[derive(Clone)]
pub struct Change {
    pub key: Key,
    pub revision: Revision,
    /// `None` if the key was deleted.
    pub value: Option<Bytes>,
    pub memo: Option<Memo>,
}

/// Changes in ascending order of revision.
#[derive(Clone, Debug)]
pub struct Batch {
    pub changes: Vec<Change>,
    /// Everything up to here has now been delivered; at least the revision of the last change.
    pub revision: Revision,
}

/// Receives every change exactly once and in order, on the store's own thread: it must be quick and must
/// not call the store. `Break` ends it.
pub type Sink = Box<dyn FnMut(&Batch) -> ControlFlow<()> + Send>;

/// Is shown a key, a revision and the value that the key had from that revision on.
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

/// What a range read found.
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
        /// Its revision as it stands, `None` if it has no value.
        actual: Option<Revision>,
        /// The revision of the store when the conditions were checked.
        revision: Revision,
    },
    /// The store cannot take writes now. Reads go on, and writes will work again by themselves once the
    /// cause is gone.
    Unavailable(Unavailable),
}

/// Why a store cannot be written to, in words for the person who has to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    DiskFull,
    ReadOnly,
    /// The disk failed in another way, or the backend cannot be reached.
    Failed(String),
    /// The store was closed; the process is going away.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// That revision is gone; `oldest` is the first one that can still be read or followed from.
    Compacted {
        oldest: Revision,
    },
    /// That revision has not happened yet.
    Future {
        current: Revision,
    },
    Unavailable(Unavailable),
}

pub trait Store: Send + Sync + 'static {
    /// Carries out one write. When it returns `Ok`, the change is durable and every follower of an
    /// embedded store has been given it.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Reads keys in order as they stood at `at`, or as they stand now. At most `limit` entries if
    /// `limit` is not 0.
    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// The revision of the last durable change anywhere, or what the store was raised to since.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// The last revision that compaction has taken away, 0 if none: history can be followed from here on.
    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// Delivers every change after `after`: first those that have happened, then each as it becomes durable.
    /// What had happened before the call has been delivered when it returns. A batch without changes only
    /// tells how far everything has been delivered.
    fn follow(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>>;

    /// The revision to follow from for the last changes whose values have `bytes` bytes together, or somewhat more. It is
    /// [`Store::compacted`] if no more than that is left, or if the backend does not know.
    fn last(&self, _bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.compacted()
    }

    /// Shows every value that is stored, those of the past included, in any order and possibly from several threads. Values
    /// that are compacted but not deleted yet may be among them.
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
                // What comes later was not stored when the call was made.
                if batch.revision < revision { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.follow(compacted, sink).await
        })
    }

    /// Forgets what is no longer current at `through`, or now if `through` has not happened yet. Ranges before
    /// it and follows from before it fail with `Compacted` from now on; those at `through` itself still work.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Makes the next write's revision greater than `to` and compacts everything before it, so that no
    /// client's revision from another life of this store means anything here. It never lowers the revision.
    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>>;

    /// The form in which a value goes to the disk, if that is not the value itself. Files that are made of the store's
    /// contents have it too.
    fn seal(&self, _key: &Key, _value: &[u8]) -> Result<Option<Bytes>, Unavailable> {
        Ok(None)
    }

    /// The value that was sealed.
    fn open(&self, _key: &Key, sealed: &Bytes) -> Result<Bytes, Unavailable> {
        Ok(sealed.clone())
    }
}

impl Condition {
    /// Whether a key whose last change was at `actual` (`None`: it has no value) satisfies this.
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

    /// Whether no key can lie in here. Ordered maps panic when asked for some of these.
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
    /// Refuses to raise a store beyond [`MAX_REVISION`].
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
            ReadError::Compacted { oldest } => write!(f, "the revision is gone; the oldest is {oldest}"),
            ReadError::Future { current } => {
                write!(f, "the revision is yet to come; the latest is {current}")
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
