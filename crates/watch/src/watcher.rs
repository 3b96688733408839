//! One watcher of a scope.

use std::collections::VecDeque;
use std::sync::Arc;

use atoll_store::Revision;

use crate::Cache;
use crate::event::Event;
use crate::fanout::{Queue, QueueContents};
use crate::inherited::Reach;
use crate::snapshot::Scope;

/// Maximum number of events that are read from the history at a time.
const CATCH_UP: usize = 256;
/// Maximum size of their objects, if there is more than one.
const CATCH_UP_BYTES: usize = 1 << 20;

pub struct Watcher {
    cache: Arc<Cache>,
    scope: Scope,
    queue: Arc<Queue>,
    /// Every event up to this revision has been returned.
    seen: Revision,
}

/// The watcher was too slow: its next events were removed from the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    pub seen: Revision,
    pub oldest: Revision,
}

impl Watcher {
    pub(crate) fn new(cache: Arc<Cache>, scope: Scope, queue: Arc<Queue>, after: Revision) -> Self {
        Watcher { cache, scope, queue, seen: after }
    }

    /// Waits for the next events and returns them in order. Cancel safe.
    pub async fn next(&mut self) -> Result<VecDeque<Arc<Event>>, Expired> {
        loop {
            if let Some(events) = self.ready()? {
                return Ok(events);
            }
            self.queue.filled.notified().await;
        }
    }

    /// The next events, or `None` if there are none now.
    pub fn ready(&mut self) -> Result<Option<VecDeque<Arc<Event>>>, Expired> {
        let events = match self.queue.take() {
            QueueContents::Events(mut events) => {
                // The queue also receives inherited objects that this scope does not show.
                if events.iter().any(|event| event.reach != Reach::Stored) {
                    let snapshot = self.cache.snapshot();
                    events.retain(|event| snapshot.shows(&self.scope, event));
                }
                events
            }
            QueueContents::Behind(after) => self.catch_up(after)?,
            QueueContents::Nothing => return Ok(None),
        };
        if let Some(last) = events.back() {
            self.seen = last.revision;
        }
        Ok(Some(events).filter(|events| !events.is_empty()))
    }

    /// The revision up to which this watcher has received all events, for a bookmark.
    pub fn progress(&mut self) -> Revision {
        // Under the lock, no event can be in the snapshot and not yet queued.
        let watch_state = self.cache.watch_state();
        if self.queue.is_drained() {
            self.seen = self.seen.max(self.cache.revision());
        }
        drop(watch_state);
        self.seen
    }

    fn catch_up(&self, after: Revision) -> Result<VecDeque<Arc<Event>>, Expired> {
        let watch_state = self.cache.watch_state();
        let oldest = watch_state.history.floor();
        if after < oldest {
            self.cache.count_expired();
            return Err(Expired { seen: self.seen, oldest });
        }
        let snapshot = self.cache.snapshot();
        let is_shown = |event: &Event| snapshot.shows(&self.scope, event);
        let (events, more) =
            watch_state.history.after(&self.scope, after, CATCH_UP, CATCH_UP_BYTES, is_shown);
        self.queue.caught_up(events.last().filter(|_| more).map(|last| last.revision));
        Ok(events.into())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.watch_state().index.remove(&self.queue);
    }
}
