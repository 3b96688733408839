//! What is durable and may be shown: each key's revision, and those who follow.
//!
//! Two locks, always taken in this order: `followers`, then `state`. Only the writer thread moves the revision,
//! and only while it holds `followers`; whoever holds `followers` therefore sees history stand still.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_store::{Batch, Key, ReadError, Revision, Sink};

use crate::table::{Contents, Mark};

pub(crate) struct Published {
    state: Mutex<State>,
    followers: Mutex<Vec<Sink>>,
}

pub(crate) struct State {
    /// The revision of each key that has a value. Its keys are the ones that everyone else is given.
    pub live: BTreeMap<Key, Revision>,
    pub revision: Revision,
    pub compacted: Revision,
    /// From where replays are under way: rows after these may not be swept away yet.
    replays: Vec<Revision>,
}

impl Published {
    pub fn new(contents: Contents) -> Self {
        let Contents { live, mark: Mark { revision, compacted, .. } } = contents;
        Published {
            state: Mutex::new(State { live, revision, compacted, replays: Vec::new() }),
            followers: Mutex::new(Vec::new()),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Only a sink can panic while a lock is held, and no sink is called while this one is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn followers(&self) -> MutexGuard<'_, Vec<Sink>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes durable changes visible, and how far history was compacted with them, and gives the changes to the
    /// followers.
    pub fn publish(&self, batch: &Batch, compacted: Option<Revision>) {
        let mut followers = self.followers();
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
        followers.retain_mut(|sink| sink(batch).is_continue());
    }

    /// Keeps what comes after `after` from being swept away for as long as the result lives.
    pub fn hold(&self, after: Revision) -> Result<Hold<'_>, ReadError> {
        let mut state = self.state();
        state.readable(after)?;
        state.replays.push(after);
        Ok(Hold { published: self, after })
    }

    /// How far rows may be swept away.
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

pub(crate) struct Hold<'a> {
    published: &'a Published,
    after: Revision,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut state = self.published.state();
        if let Some(index) = state.replays.iter().position(|after| *after == self.after) {
            state.replays.swap_remove(index);
        }
    }
}
