//! The watch cache, the read side of the store: all current objects and recent history in memory.
//!
//! ```text
//!   store ──changes──► Cache::apply ──┬─► Observer (indexes that are derived from objects; called first)
//!                                     ├─► Snapshot (immutable, swapped whole)  ──► get, list
//!                                     ├─► History  (recent events, bounded)    ──► watch from a revision, list at one
//!                                     └─► Index    (by resource, workspace, namespace, name) ──► live watchers
//!   Layer (shared, read-only): visible in every workspace until the workspace writes its own version
//!   Inherited (derived from objects): visible in a workspace and below it until one writes its own version
//! ```
//!
//! Invariants: a snapshot never changes, and its revision is durable. An object is in the current snapshot
//! before its event is delivered. A client that has read at revision N can watch from N without missing
//! events. Reads take no lock.

// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go

mod counts;
mod cursor;
pub mod event;
mod fanout;
mod history;
mod inherited;
pub mod layer;
pub mod object;
mod parallel;
pub mod snapshot;
mod watcher;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use atoll_store::{Batch, Change, Entry, Key, Range, ReadError, Revision, Store, WriteError};
use bytes::Bytes;
use tokio::time::Instant;

pub use cursor::ObjectCursor;
pub use event::{Encoding, Event, EventType};
pub use history::Limits;
pub use layer::Layer;
pub use object::{Decode, ExtraFacts, Facts, ORIGIN, Object, Observer};
pub use snapshot::{Scope, Snapshot};
pub use watcher::{Expired, Watcher};

use crate::fanout::{Index, Waker};
use crate::history::History;
use crate::inherited::Reach;

/// Maximum number of snapshots that are kept for lists that are continued at their first page's revision.
const PINS: usize = 64;

/// Number of objects that are decoded together when a cache is opened.
const LOAD_BATCH: usize = 4_096;

pub struct Cache {
    current: ArcSwap<Snapshot>,
    watch_state: Mutex<WatchState>,
    pins: Mutex<Pins>,
    advanced: tokio::sync::watch::Sender<Revision>,
    opened: Instant,
    /// The last revision that was current for longer than the history's maximum age without a change; 0 if
    /// there was none. Continue tokens at this revision or before have expired.
    idle: AtomicU64,
    /// Watches that have ended because they were too slow.
    expired: AtomicU64,
    waker: Waker,
    decode: Arc<dyn Decode>,
    observers: Vec<Arc<dyn Observer>>,
}

/// Snapshots that are kept for lists that are continued.
#[derive(Default)]
struct Pins {
    /// In order of use, the most recent last.
    snapshots: Vec<(Instant, Arc<Snapshot>)>,
    /// Objects with compiled definitions that have been replaced and are still in use, with what pinned
    /// snapshots have instead: they keep the JSON of replaced definitions, but not the compiled form.
    replaced: Vec<(Weak<Object>, Arc<Object>)>,
}

/// Recent events and the watchers of new ones.
pub(crate) struct WatchState {
    history: History,
    index: Index,
}

/// An error for a revision that the cache does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionError {
    /// History reaches back to `oldest` only.
    Expired { requested: Revision, oldest: Revision },
    /// The store has not reached the revision.
    Future { requested: Revision, current: Revision },
}

/// Replaces an object with a compiled definition by one without.
fn demote(snapshot: &mut Arc<Snapshot>, (object, past): &(Weak<Object>, Arc<Object>)) {
    Arc::make_mut(snapshot).demote(object.as_ptr(), past);
}

/// The object that a stored value gives to its workspace and to those below it.
fn derived(decode: &dyn Decode, key: &Key, value: &Bytes, revision: Revision) -> Option<Object> {
    let (key, encoded, facts) = decode.inherited(key, value)?;
    Some(Object::new(key, revision, &encoded, facts))
}

impl Cache {
    /// Loads all current objects and the history that the store still has, then subscribes to the store.
    pub async fn open(
        store: &dyn Store,
        decode: Arc<dyn Decode>,
        layer: Layer,
        limits: Limits,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Result<Arc<Cache>, ReadError> {
        if store.revision().await? < layer::REVISION {
            // The first revision is reserved for the layer: no written object may have it.
            store.raise(layer::REVISION).await.map_err(|error| match error {
                WriteError::Unavailable(cause) => ReadError::Unavailable(cause),
                WriteError::Unmet { revision, .. } => ReadError::Future { current: revision },
            })?;
        }
        // For changes that do not fit into the history, only the resulting objects are read.
        let base = store.tail_start(limits.bytes).await?;
        let entries = store.range(Range::all(), Some(base), 0).await?.entries;
        let mut snapshot = Snapshot::new(base, Arc::new(layer), decode.clone());
        let mut entries = entries.into_iter();
        loop {
            // In batches, so that the memory of entries is freed while objects are created.
            let batch: Vec<Entry> = entries.by_ref().take(LOAD_BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let objects = parallel::map(&batch, |Entry { key, value, revision }| {
                let facts = decode.facts(key, value, None);
                Arc::new(Object::new(key.clone(), *revision, value, facts))
            });
            for (entry, object) in batch.iter().zip(&objects) {
                snapshot.identify(&entry.key, Some(&entry.value));
                for observer in &observers {
                    observer.changed(&entry.key, Some(&entry.value), base);
                }
                for observer in &observers {
                    observer.replaced(None, Some(object));
                }
                snapshot.derive(&entry.key, derived(&*decode, &entry.key, &entry.value, entry.revision));
            }
            snapshot.fill(objects);
        }
        let cache = Arc::new(Cache {
            current: ArcSwap::from_pointee(snapshot),
            watch_state: Mutex::new(WatchState {
                history: History::new(base, limits),
                index: Index::default(),
            }),
            pins: Mutex::default(),
            advanced: tokio::sync::watch::channel(base).0,
            opened: Instant::now(),
            idle: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            waker: Waker::default(),
            decode,
            observers,
        });
        let weak = Arc::downgrade(&cache);
        let sink = Box::new(move |batch: &Batch| match weak.upgrade() {
            Some(cache) => {
                cache.apply(batch);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        });
        store.subscribe(base, sink).await?;
        cache.wait_for(store.revision().await?).await;
        Ok(cache)
    }

    /// The current snapshot. It includes every write that was acknowledged before the call.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub fn revision(&self) -> Revision {
        self.current.load().revision
    }

    /// The oldest revision that can still be watched or listed from.
    pub fn oldest(&self) -> Revision {
        self.watch_state().history.floor()
    }

    /// Waits until everything up to `revision` can be read here.
    pub async fn wait_for(&self, revision: Revision) {
        if self.revision() >= revision {
            return;
        }
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.advanced.subscribe().wait_for(|current| *current >= revision).await;
    }

    /// A snapshot in which `scope` is as it was at `revision`.
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
        let watch_state = self.watch_state();
        let oldest = watch_state.history.floor();
        if revision < oldest {
            return Err(RevisionError::Expired { requested: revision, oldest });
        }
        // The lock keeps the snapshot and the history consistent.
        let mut past = Snapshot::clone(&self.current.load());
        for event in watch_state.history.newest_first(scope, revision) {
            past.revert(event);
        }
        past.revision = revision;
        past.reverted = Some(scope.clone());
        Ok(Arc::new(past))
    }

    /// A snapshot in which `scope` is as it was at `revision`, for continuing a list. The list must be
    /// finished within the history's maximum age, even if nothing has changed since.
    pub fn continue_at(&self, revision: Revision, scope: &Scope) -> Result<Arc<Snapshot>, RevisionError> {
        let idle = self.idle.load(Ordering::Relaxed);
        if revision <= idle && self.pinned(revision, scope).is_none() {
            return Err(RevisionError::Expired { requested: revision, oldest: idle });
        }
        self.at(revision, scope)
    }

    /// Keeps `snapshot` for the history's maximum age, so that a list that starts now can be continued
    /// cheaply. Pinning a pinned snapshot again restarts its age.
    pub fn pin(&self, snapshot: &Arc<Snapshot>) {
        let mut pins = self.pins();
        // A snapshot in which only one scope was reverted does not replace a complete one.
        let kept = pins.snapshots.iter().position(|(_, pinned)| {
            pinned.revision == snapshot.revision
                && (pinned.reverted.is_none() || pinned.reverted == snapshot.reverted)
        });
        let snapshot = match kept {
            Some(position) => pins.snapshots.remove(position).1,
            None => {
                let mut snapshot = snapshot.clone();
                pins.replaced.iter().for_each(|replaced| demote(&mut snapshot, replaced));
                snapshot
            }
        };
        if pins.snapshots.len() == PINS {
            pins.snapshots.remove(0);
        }
        pins.snapshots.push((Instant::now(), snapshot));
    }

    /// Removes the compiled definitions of replaced objects from pinned snapshots.
    fn demote_pinned(&self, replaced: Vec<(Weak<Object>, Arc<Object>)>) {
        let mut pins = self.pins();
        for (_, pinned) in &mut pins.snapshots {
            replaced.iter().for_each(|replaced| demote(pinned, replaced));
        }
        // A request that is under way may still pin a snapshot with these objects.
        pins.replaced.extend(replaced);
        pins.replaced.retain(|(object, _)| object.strong_count() > 0);
    }

    fn pinned(&self, revision: Revision, scope: &Scope) -> Option<Arc<Snapshot>> {
        let pins = self.pins();
        let mut fitting = pins
            .snapshots
            .iter()
            .filter(|(_, pinned)| pinned.revision == revision && pinned.is_accurate_for(scope));
        fitting.next().map(|(_, pinned)| pinned.clone())
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        // Every change to the list is complete before anything can panic.
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a watch of `scope` after revision `after`.
    pub fn watch(self: &Arc<Self>, scope: Scope, after: Revision) -> Result<Watcher, RevisionError> {
        let mut watch_state = self.watch_state();
        let (oldest, current) = (watch_state.history.floor(), self.revision());
        if after < oldest {
            return Err(RevisionError::Expired { requested: after, oldest });
        }
        if after > current {
            return Err(RevisionError::Future { requested: after, current });
        }
        let groups = self.current.load().watch_groups(&scope);
        let queue = watch_state.index.register(&scope, groups, after);
        drop(watch_state);
        Ok(Watcher::new(self.clone(), scope, queue, after))
    }

    /// Number of watchers, for metrics.
    pub fn watchers(&self) -> usize {
        self.watch_state().index.len()
    }

    /// Number of watches that have ended because their next events were no longer in the history, for metrics.
    pub fn expired_watches(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn count_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the history is limited by its size, so that events leave it before they are old.
    pub fn has_full_history(&self) -> bool {
        self.watch_state().history.is_full()
    }

    /// Removes events and pinned snapshots that are older than `age`. Returns the revision through which the
    /// store may be compacted.
    pub fn expire(&self, age: Duration) -> Revision {
        let now = Instant::now();
        let mut pins = self.pins();
        pins.snapshots.retain(|(since, _)| now.duration_since(*since) < age);
        pins.replaced.retain(|(object, _)| object.strong_count() > 0);
        drop(pins);
        let mut watch_state = self.watch_state();
        watch_state.history.expire(now, age);
        if watch_state.history.is_empty() && now.duration_since(self.opened) > age {
            // Never lowered: an expired continue token stays expired, whatever is written afterwards.
            self.idle.fetch_max(self.revision(), Ordering::Relaxed);
        }
        watch_state.history.floor()
    }

    fn apply(&self, batch: &Batch) {
        let mut next = Snapshot::clone(&self.current.load());
        let raised = batch.changes.is_empty() && batch.revision > next.revision;
        let is_replay = !batch.changes.iter().any(|change| change.hint.is_some());
        let replayed = batch.changes.iter().filter(|_| is_replay);
        let last: HashMap<&Key, Revision> = replayed.map(|change| (&change.key, change.revision)).collect();
        let object = |change: &Change| {
            let value = change.value.as_ref()?;
            let is_replaced = last.get(&change.key).is_some_and(|last| *last != change.revision);
            let facts = match is_replaced {
                true => self.decode.past_facts(&change.key, value),
                false => self.decode.facts(&change.key, value, change.hint.as_ref()),
            };
            Some(Arc::new(Object::new(change.key.clone(), change.revision, value, facts)))
        };
        // Objects of this process's writes come with their facts and are cheap to create; replayed ones are
        // not.
        let objects: Vec<_> = match is_replay {
            true => parallel::map(&batch.changes, object),
            false => batch.changes.iter().map(object).collect(),
        };
        let mut replaced = Vec::new();
        let changes = batch.changes.iter().zip(objects);
        let events: Vec<Arc<Event>> = changes
            .flat_map(|(change, object)| self.change(&mut next, change, object, &mut replaced))
            .map(Arc::new)
            .collect();
        next.revision = batch.revision;
        // Store the snapshot first, so that a watcher that receives an event finds the object. The lock is
        // held until the history has the event too: a watch that starts in between waits and misses nothing.
        let mut watch_state = self.watch_state();
        self.current.store(Arc::new(next));
        let mut asleep = Vec::new();
        for event in events {
            watch_state.index.dispatch(&event, &mut asleep);
            watch_state.history.push(event);
        }
        if raised {
            watch_state.history.raise(batch.revision);
        }
        drop(watch_state);
        if !replaced.is_empty() {
            self.demote_pinned(replaced);
        }
        self.waker.wake(asleep);
        self.advanced.send_replace(batch.revision);
    }

    /// Applies a change to `snapshot`. Objects with compiled definitions that it replaces are added to
    /// `replaced`.
    fn change(
        &self,
        snapshot: &mut Snapshot,
        change: &Change,
        object: Option<Arc<Object>>,
        replaced: &mut Vec<(Weak<Object>, Arc<Object>)>,
    ) -> Vec<Event> {
        for observer in &self.observers {
            observer.changed(&change.key, change.value.as_ref(), change.revision);
        }
        snapshot.identify(&change.key, change.value.as_ref());
        let previous = snapshot.get_own(&change.key);
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
        // A tombstone hides an object of the layer; for readers the object does not exist.
        let object = object.filter(|object| !object.is_tombstone());
        let mut changes = vec![(change.key.clone(), Reach::Stored, previous, object)];
        let uncovered = snapshot.get_inherited(&change.key).filter(|_| change.value.is_none());
        changes
            .extend(uncovered.map(|uncovered| (change.key.clone(), Reach::Uncovered, None, Some(uncovered))));
        let value = change.value.as_ref();
        let derived = value.and_then(|value| derived(&*self.decode, &change.key, value, change.revision));
        let inherited = snapshot.derive(&change.key, derived).into_iter();
        changes.extend(inherited.map(|(key, before, after)| (key, Reach::Inherited, before, after)));
        let events = changes.into_iter().map(|(key, reach, previous, object)| {
            let compiled = previous.as_ref().filter(|previous| previous.is_compiled()).map(Arc::downgrade);
            let event = Event::new(key, change.revision, previous, object).reaching(reach);
            if let (Some(compiled), Some(past)) = (compiled, &event.previous) {
                replaced.push((compiled, past.clone()));
            }
            event
        });
        events.collect()
    }

    pub(crate) fn watch_state(&self) -> MutexGuard<'_, WatchState> {
        // A panic cannot leave this state inconsistent: the history and the index are only appended to.
        self.watch_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
