//! The read side of the store: everything that is current, in memory, and the recent past.
//!
//! ```text
//!   store ──changes──► Cache::apply ──┬─► Observer (whatever else follows from objects, first of all)
//!                                     ├─► Snapshot (immutable, swapped whole)  ──► get, list
//!                                     ├─► History  (recent events, bounded)    ──► watch from a revision, list at one
//!                                     └─► Index    (by resource, workspace, namespace, name) ──► live watchers
//!   Layer (shared, read-only) lies under every workspace and shows through wherever nothing was written.
//! ```
//!
//! Invariants: a snapshot never changes; its revision is durable; whoever has been told of an event finds it
//! when they look; whoever has looked at revision N can watch from N and miss nothing. Reads take no lock.

mod counts;
pub mod event;
mod fanout;
mod history;
pub mod layer;
pub mod object;
mod parallel;
pub mod snapshot;
mod stretch;
mod watcher;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use atoll_store::{Batch, Change, Entry, Range, ReadError, Revision, Store, WriteError};
use tokio::time::Instant;

pub use event::{Encoding, Event, EventType};
pub use history::Limits;
pub use layer::Layer;
pub use object::{Decode, Facts, Further, Object, Observer};
pub use snapshot::{Scope, Snapshot};
pub use stretch::Stretch;
pub use watcher::{Expired, Watcher};

use crate::fanout::{Index, Waker};
use crate::history::History;

/// How many snapshots are kept for lists that continue at the revision they began at.
const PINS: usize = 64;

/// How many objects are made together when a cache is opened.
const PORTION: usize = 4_096;

pub struct Cache {
    current: ArcSwap<Snapshot>,
    tail: Mutex<Tail>,
    pins: Mutex<Vec<(Instant, Arc<Snapshot>)>>,
    advanced: tokio::sync::watch::Sender<Revision>,
    opened: Instant,
    /// The last revision at which nothing happened for as long as history is kept; 0 if there was none. Lists that began
    /// there or before have taken too long.
    idle: AtomicU64,
    waker: Waker,
    decode: Arc<dyn Decode>,
    observers: Vec<Arc<dyn Observer>>,
}

/// What happened lately and who wants to know what happens next.
pub(crate) struct Tail {
    history: History,
    index: Index,
}

/// A revision that this cache cannot answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionError {
    /// History reaches back to `oldest` only.
    Expired { requested: Revision, oldest: Revision },
    /// It has not happened yet.
    Future { requested: Revision, current: Revision },
}

impl Cache {
    /// Loads everything that is current and what the store still has of the past, then follows the store.
    pub async fn open(
        store: &dyn Store,
        decode: Arc<dyn Decode>,
        layer: Layer,
        limits: Limits,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Result<Arc<Cache>, ReadError> {
        if store.revision().await? < layer::REVISION {
            // The first revision is the layer's: no object that is written may look like one of its.
            store.raise(layer::REVISION).await.map_err(|error| match error {
                WriteError::Unavailable(cause) => ReadError::Unavailable(cause),
                WriteError::Unmet { revision, .. } => ReadError::Future { current: revision },
            })?;
        }
        // Of changes that history has no room for, only what came of them is read.
        let base = store.last(limits.bytes).await?;
        let entries = store.range(Range::all(), Some(base), 0).await?.entries;
        let mut snapshot = Snapshot::new(base, Arc::new(layer));
        let mut entries = entries.into_iter();
        loop {
            // In portions, so that what was read is let go of while the objects are made.
            let portion: Vec<Entry> = entries.by_ref().take(PORTION).collect();
            if portion.is_empty() {
                break;
            }
            let objects = parallel::map(&portion, |Entry { key, value, revision }| {
                let facts = decode.facts(key, value, None);
                Arc::new(Object::new(key.clone(), *revision, value, facts))
            });
            for (entry, object) in portion.iter().zip(&objects) {
                snapshot.identify(&entry.key, Some(&entry.value));
                for observer in &observers {
                    observer.changed(&entry.key, Some(&entry.value), base);
                }
                for observer in &observers {
                    observer.replaced(None, Some(object));
                }
            }
            snapshot.fill(objects);
        }
        let cache = Arc::new(Cache {
            current: ArcSwap::from_pointee(snapshot),
            tail: Mutex::new(Tail { history: History::new(base, limits), index: Index::default() }),
            pins: Mutex::new(Vec::new()),
            advanced: tokio::sync::watch::channel(base).0,
            opened: Instant::now(),
            idle: AtomicU64::new(0),
            waker: Waker::default(),
            decode,
            observers,
        });
        let follower = Arc::downgrade(&cache);
        let sink = Box::new(move |batch: &Batch| match follower.upgrade() {
            Some(cache) => {
                cache.apply(batch);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        });
        store.follow(base, sink).await?;
        cache.wait_for(store.revision().await?).await;
        Ok(cache)
    }

    /// Everything as it stands. Consistent with every write acknowledged before the call.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub fn revision(&self) -> Revision {
        self.current.load().revision
    }

    /// The oldest revision that can still be watched or listed from.
    pub fn oldest(&self) -> Revision {
        self.tail().history.floor()
    }

    /// Returns once everything up to `revision` can be read here.
    pub async fn wait_for(&self, revision: Revision) {
        if self.revision() >= revision {
            return;
        }
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.advanced.subscribe().wait_for(|current| *current >= revision).await;
    }

    /// Everything in `scope` as it stood at `revision`.
    pub fn at(&self, revision: Revision, scope: &Scope) -> Result<Arc<Snapshot>, RevisionError> {
        let current = self.snapshot();
        if revision == current.revision {
            return Ok(current);
        }
        if revision > current.revision {
            return Err(RevisionError::Future { requested: revision, current: current.revision });
        }
        if let Some(pinned) = self.pinned(revision, scope) {
            return Ok(pinned);
        }
        let tail = self.tail();
        let oldest = tail.history.floor();
        if revision < oldest {
            return Err(RevisionError::Expired { requested: revision, oldest });
        }
        // Under the lock no event can slip in between the snapshot and the history.
        let mut past = Snapshot::clone(&self.current.load());
        for event in tail.history.newest_first(scope, revision) {
            past.revert(event);
        }
        past.revision = revision;
        past.reverted = Some(scope.clone());
        Ok(Arc::new(past))
    }

    /// Everything in `scope` as it stood at `revision`, for a list that began there. It may take no longer than history is
    /// kept, even if nothing has happened since.
    pub fn continued(&self, revision: Revision, scope: &Scope) -> Result<Arc<Snapshot>, RevisionError> {
        let idle = self.idle.load(Ordering::Relaxed);
        if revision <= idle && self.pinned(revision, scope).is_none() {
            return Err(RevisionError::Expired { requested: revision, oldest: idle });
        }
        self.at(revision, scope)
    }

    /// Keeps `snapshot`, so that a list that begins now can be continued at its revision at no cost for as long as history is
    /// kept. A snapshot that is kept already is kept that long from now on.
    pub fn pin(&self, snapshot: &Arc<Snapshot>) {
        let mut pins = self.pins();
        // A snapshot in which only one scope was taken back does not replace a complete one.
        let kept = pins.iter().position(|(_, pinned)| {
            pinned.revision == snapshot.revision
                && (pinned.reverted.is_none() || pinned.reverted == snapshot.reverted)
        });
        let snapshot = match kept {
            Some(position) => pins.remove(position).1,
            None => snapshot.clone(),
        };
        if pins.len() == PINS {
            pins.remove(0);
        }
        pins.push((Instant::now(), snapshot));
    }

    fn pinned(&self, revision: Revision, scope: &Scope) -> Option<Arc<Snapshot>> {
        let pins = self.pins();
        let mut fitting =
            pins.iter().filter(|(_, pinned)| pinned.revision == revision && pinned.is_true_of(scope));
        fitting.next().map(|(_, pinned)| pinned.clone())
    }

    fn pins(&self) -> MutexGuard<'_, Vec<(Instant, Arc<Snapshot>)>> {
        // Every change to the list is complete before anything can panic.
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows everything in `scope` that happens after `after`.
    pub fn watch(self: &Arc<Self>, scope: Scope, after: Revision) -> Result<Watcher, RevisionError> {
        let mut tail = self.tail();
        let (oldest, current) = (tail.history.floor(), self.revision());
        if after < oldest {
            return Err(RevisionError::Expired { requested: after, oldest });
        }
        if after > current {
            return Err(RevisionError::Future { requested: after, current });
        }
        let queue = tail.index.register(&scope, after);
        drop(tail);
        Ok(Watcher::new(self.clone(), scope, queue, after))
    }

    /// Number of watchers, for metrics.
    pub fn watchers(&self) -> usize {
        self.tail().index.len()
    }

    /// Forgets events and pinned snapshots that are older than `age`; returns the revision through which
    /// the store may be compacted.
    pub fn expire(&self, age: Duration) -> Revision {
        let now = Instant::now();
        self.pins().retain(|(since, _)| now.duration_since(*since) < age);
        let mut tail = self.tail();
        tail.history.expire(now, age);
        if tail.history.is_empty() && now.duration_since(self.opened) > age {
            // Never lowered: a token that has expired stays so, whatever is written afterwards.
            self.idle.fetch_max(self.revision(), Ordering::Relaxed);
        }
        tail.history.floor()
    }

    fn apply(&self, batch: &Batch) {
        let mut next = Snapshot::clone(&self.current.load());
        let raised = batch.changes.is_empty() && batch.revision > next.revision;
        let object = |change: &Change| {
            let value = change.value.as_ref()?;
            let facts = self.decode.facts(&change.key, value, change.memo.as_ref());
            Some(Arc::new(Object::new(change.key.clone(), change.revision, value, facts)))
        };
        // What this process has written is made quickly, for its facts are known; what a store replays is not.
        let objects: Vec<_> = match batch.changes.iter().any(|change| change.memo.is_some()) {
            true => batch.changes.iter().map(object).collect(),
            false => parallel::map(&batch.changes, object),
        };
        let changes = batch.changes.iter().zip(objects);
        let events: Vec<_> =
            changes.map(|(change, object)| Arc::new(self.change(&mut next, change, object))).collect();
        next.revision = batch.revision;
        // Shown first, so that whoever hears of an event finds it when they look. The lock is held from before
        // until the history has it too: a watch that begins in between waits, and then misses nothing.
        let mut tail = self.tail();
        self.current.store(Arc::new(next));
        let mut asleep = Vec::new();
        for event in events {
            tail.index.dispatch(&event, &mut asleep);
            tail.history.push(event);
        }
        if raised {
            tail.history.raise(batch.revision);
        }
        drop(tail);
        self.waker.wake(asleep);
        self.advanced.send_replace(batch.revision);
    }

    fn change(&self, snapshot: &mut Snapshot, change: &Change, object: Option<Arc<Object>>) -> Event {
        for observer in &self.observers {
            observer.changed(&change.key, change.value.as_ref(), change.revision);
        }
        snapshot.identify(&change.key, change.value.as_ref());
        let previous = snapshot.get(&change.key);
        if !self.observers.is_empty() {
            let before = snapshot.stored_object(&change.key);
            for observer in &self.observers {
                observer.replaced(before.as_deref(), object.as_deref());
            }
        }
        match &object {
            Some(object) => snapshot.insert(object.clone()),
            None => snapshot.remove(&change.key),
        }
        // A tombstone is stored to hide what lies in the layer; for readers the object is gone.
        let object = object.filter(|object| !object.is_tombstone());
        Event::new(change.key.clone(), change.revision, previous, object)
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing here can be left half done by a panic: the history and the index are only appended to.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
