//! The in-memory store, for tests and for servers that need no persistent data.
//!
//! One lock guards everything. Every call finishes its work when it is made, not when its future is first
//! polled. Sinks are called under the lock: no reader sees a change before every subscriber has received it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Ready, ready};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{
    Batch, BoxFuture, Change, Entry, Guard, Key, MAX_REVISION, Page, Range, ReadError, Revision, Sink, Store,
    Unavailable, Write, WriteError,
};

/// Number of changes in one batch while a subscriber catches up.
const REPLAY: usize = 256;

#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    /// Every version of a key since compaction, oldest first. Each key has at least one version.
    versions: BTreeMap<Key, Vec<Version>>,
    /// The key that changed at each revision after `compacted`.
    log: BTreeMap<Revision, Key>,
    revision: Revision,
    compacted: Revision,
    subscribers: Vec<Sink>,
}

struct Version {
    revision: Revision,
    value: Option<Bytes>,
}

impl MemoryStore {
    pub fn new() -> Self {
        MemoryStore::default()
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        // A panic under the lock can only come from a sink, which is called when the state is consistent
        // again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    /// The revision of the key's value, `None` if it has none.
    fn live(&self, key: &str) -> Option<Revision> {
        self.versions
            .get(key)?
            .last()
            .filter(|version| version.value.is_some())
            .map(|version| version.revision)
    }

    fn check(&self, write: &Write) -> Result<(), WriteError> {
        let unmet =
            |key: &Key, actual| WriteError::Unmet { key: key.clone(), actual, revision: self.revision };
        let actual = self.live(&write.key);
        if !write.expect.holds(actual) || (write.value.is_none() && actual.is_none()) {
            return Err(unmet(&write.key, actual));
        }
        for Guard { key, condition } in &write.guards {
            let actual = self.live(key);
            if !condition.holds(actual) {
                return Err(unmet(key, actual));
            }
        }
        Ok(())
    }

    fn write(&mut self, write: Write) -> Result<Revision, WriteError> {
        self.check(&write)?;
        let Write { key, value, hint, .. } = write;
        // Share the first copy of the key's text.
        let key = self.versions.get_key_value(&key).map_or(key, |(known, _)| known.clone());
        self.revision += 1;
        let revision = self.revision;
        self.versions.entry(key.clone()).or_default().push(Version { revision, value: value.clone() });
        self.log.insert(revision, key.clone());
        self.deliver(&Batch { changes: vec![Change { key, revision, value, hint }], revision });
        Ok(revision)
    }

    fn deliver(&mut self, batch: &Batch) {
        self.subscribers.retain_mut(|sink| sink(batch).is_continue());
    }

    fn range(&self, range: Range, at: Option<Revision>, limit: usize) -> Result<Page, ReadError> {
        let revision = at.unwrap_or(self.revision);
        self.readable(revision)?;
        let mut page = Page { entries: Vec::new(), revision, more: false };
        if range.is_empty() {
            return Ok(page);
        }
        for (key, versions) in self.versions.range((range.start, range.end)) {
            let newest = versions.partition_point(|version| version.revision <= revision);
            let Some(Version { revision, value: Some(value) }) =
                newest.checked_sub(1).and_then(|index| versions.get(index))
            else {
                continue;
            };
            if limit != 0 && page.entries.len() == limit {
                page.more = true;
                break;
            }
            page.entries.push(Entry { key: key.clone(), value: value.clone(), revision: *revision });
        }
        Ok(page)
    }

    fn readable(&self, revision: Revision) -> Result<(), ReadError> {
        if revision < self.compacted {
            return Err(ReadError::Compacted { oldest: self.compacted });
        }
        if revision > self.revision {
            return Err(ReadError::Future { current: self.revision });
        }
        Ok(())
    }

    fn subscribe(&mut self, after: Revision, mut sink: Sink) -> Result<(), ReadError> {
        self.readable(after)?;
        let mut missed = self.log.range((Bound::Excluded(after), Bound::Unbounded)).peekable();
        while missed.peek().is_some() {
            let changes: Vec<Change> = missed
                .by_ref()
                .take(REPLAY)
                .filter_map(|(revision, key)| self.change(*revision, key))
                .collect();
            let revision = match missed.peek() {
                Some(_) => changes.last().map_or(after, |change| change.revision),
                None => self.revision,
            };
            if sink(&Batch { changes, revision }).is_break() {
                return Ok(());
            }
        }
        self.subscribers.push(sink);
        Ok(())
    }

    fn change(&self, revision: Revision, key: &Key) -> Option<Change> {
        let versions = self.versions.get(key)?;
        let index = versions.binary_search_by_key(&revision, |version| version.revision).ok()?;
        Some(Change { key: key.clone(), revision, value: versions[index].value.clone(), hint: None })
    }

    fn compact(&mut self, through: Revision) {
        let through = through.min(self.revision);
        if through <= self.compacted {
            return;
        }
        self.compacted = through;
        let kept = self.log.split_off(&(through + 1));
        let changed: BTreeSet<Key> = std::mem::replace(&mut self.log, kept).into_values().collect();
        for key in changed {
            let Some(versions) = self.versions.get_mut(&key) else { continue };
            let newest = versions.partition_point(|version| version.revision <= through);
            // Keep the version that was current at `through`, unless it is a deletion.
            let gone = versions
                .get(newest - 1)
                .map_or(newest, |version| newest - usize::from(version.value.is_some()));
            versions.drain(..gone);
            if versions.is_empty() {
                self.versions.remove(&key);
            }
        }
    }

    fn raise(&mut self, to: Revision) -> Result<(), WriteError> {
        if to > MAX_REVISION {
            return Err(WriteError::Unavailable(Unavailable::revision_too_high(to)));
        }
        self.revision = self.revision.max(to);
        self.compact(self.revision);
        self.deliver(&Batch { changes: Vec::new(), revision: self.revision });
        Ok(())
    }
}

fn done<T: Send>(outcome: T) -> std::pin::Pin<Box<Ready<T>>> {
    Box::pin(ready(outcome))
}

impl Store for MemoryStore {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        done(self.state().write(write))
    }

    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        done(self.state().range(range, at, limit))
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        done(Ok(self.state().revision))
    }

    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        done(Ok(self.state().compacted))
    }

    fn subscribe(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        done(self.state().subscribe(after, sink))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.state().compact(through);
        done(Ok(()))
    }

    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        done(self.state().raise(to))
    }
}
