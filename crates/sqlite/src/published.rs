//! The durable and visible state: each key's revision, and the subscribers.
//!
//! There are two locks, always taken in this order: `subscribers`, then `state`. Only the writer thread
//! advances the revision, and only while it holds `subscribers`: holding `subscribers` therefore freezes the
//! history.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_store::{Batch, Key, ReadError, Revision, Sink};

use crate::table::{Contents, Mark};

pub(crate) struct Published {
    state: Mutex<State>,
    subscribers: Mutex<Vec<Sink>>,
}

pub(crate) struct State {
    /// The revision of each key that has a value. Readers and subscribers share these keys.
    pub live: BTreeMap<Key, Revision>,
    pub revision: Revision,
    pub compacted: Revision,
    /// Start revisions of active replays: later rows may not be swept yet.
    replays: Vec<Revision>,
}

impl Published {
    pub fn new(contents: Contents) -> Self {
        let Contents { live, mark: Mark { revision, compacted, .. } } = contents;
        Published {
            state: Mutex::new(State { live, revision, compacted, replays: Vec::new() }),
            subscribers: Mutex::new(Vec::new()),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Only a sink can panic while a lock is held, and no sink is called under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn subscribers(&self) -> MutexGuard<'_, Vec<Sink>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes durable changes and the compacted revision visible, and delivers the changes to the subscribers.
    pub fn publish(&self, batch: &Batch, compacted: Option<Revision>) {
        let mut subscribers = self.subscribers();
        {
            let mut state = self.state();
            for change in &batch.changes {
                match &change.value {
                    Some(_) => state.live.insert(change.key.clone(), change.revision),
                    None => state.live.remove(&change.key),
                };
            }
            state.revision = batch.revision;
            state.compacted = compacted.unwrap_or(state.compacted);
        }
        subscribers.retain_mut(|sink| sink(batch).is_continue());
    }

    /// Keeps rows after `after` from being swept until the guard is dropped.
    pub fn guard_replay(&self, after: Revision) -> Result<ReplayGuard<'_>, ReadError> {
        let mut state = self.state();
        state.readable(after)?;
        state.replays.push(after);
        Ok(ReplayGuard { published: self, after })
    }

    /// The revision up to which rows may be swept.
    pub fn sweepable(&self) -> Revision {
        let state = self.state();
        state.replays.iter().copied().fold(state.compacted, Revision::min)
    }
}

impl State {
    pub fn readable(&self, revision: Revision) -> Result<(), ReadError> {
        if revision < self.compacted {
            return Err(ReadError::Compacted { oldest: self.compacted });
        }
        if revision > self.revision {
            return Err(ReadError::Future { current: self.revision });
        }
        Ok(())
    }
}

pub(crate) struct ReplayGuard<'a> {
    published: &'a Published,
    after: Revision,
}

impl Drop for ReplayGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.published.state();
        if let Some(index) = state.replays.iter().position(|after| *after == self.after) {
            state.replays.swap_remove(index);
        }
    }
}
