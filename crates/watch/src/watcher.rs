//! One reader of what happens.

use std::collections::VecDeque;
use std::sync::Arc;

use atoll_store::Revision;

use crate::Cache;
use crate::event::Event;
use crate::fanout::{Queue, Taken};
use crate::snapshot::Scope;

/// How many events are read from the history at a time.
const CATCH_UP: usize = 256;

pub struct Watcher {
    cache: Arc<Cache>,
    scope: Scope,
    queue: Arc<Queue>,
    /// Every event up to here has been handed out.
    seen: Revision,
}

/// The watcher was too slow: what it has not seen is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    pub seen: Revision,
    pub oldest: Revision,
}

impl Watcher {
    pub(crate) fn new(cache: Arc<Cache>, scope: Scope, queue: Arc<Queue>, after: Revision) -> Self {
        Watcher { cache, scope, queue, seen: after }
    }

    /// The next events, in order; waits until there are any. May be dropped and called again at any time.
    pub async fn next(&mut self) -> Result<VecDeque<Arc<Event>>, Expired> {
        loop {
            if let Some(events) = self.ready()? {
                return Ok(events);
            }
            self.queue.filled.notified().await;
        }
    }

    /// The next events if there are any now.
    pub fn ready(&mut self) -> Result<Option<VecDeque<Arc<Event>>>, Expired> {
        let events = match self.queue.take() {
            Taken::Events(events) => events,
            Taken::Behind(after) => self.catch_up(after)?,
            Taken::Nothing => return Ok(None),
        };
        if let Some(last) = events.back() {
            self.seen = last.revision;
        }
        Ok(Some(events).filter(|events| !events.is_empty()))
    }

    /// Up to which revision this watcher has seen everything, for a bookmark.
    pub fn progress(&mut self) -> Revision {
        // Under the lock no event can be shown and not queued yet.
        let tail = self.cache.tail();
        if self.queue.is_drained() {
            self.seen = self.seen.max(self.cache.revision());
        }
        drop(tail);
        self.seen
    }

    fn catch_up(&self, after: Revision) -> Result<VecDeque<Arc<Event>>, Expired> {
        let tail = self.cache.tail();
        let oldest = tail.history.floor();
        if after < oldest {
            return Err(Expired { seen: self.seen, oldest });
        }
        let (events, more) = tail.history.after(&self.scope, after, CATCH_UP);
        self.queue.caught_up(events.last().filter(|_| more).map(|last| last.revision));
        Ok(events.into())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.tail().index.remove(&self.scope, &self.queue);
    }
}
