//! From an event to the watchers that it may concern, by lookup: never by asking each of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::Revision;
use tokio::sync::Notify;

use crate::event::Event;
use crate::snapshot::Scope;

/// Events waiting for one watcher. Beyond this it is told to catch up from the history instead, so that a
/// slow reader costs no more than this many pointers.
const QUEUE: usize = 512;

#[derive(Default)]
pub(crate) struct Index {
    /// Watchers by the prefix that they watch: a resource, a workspace, a namespace, or one whole key.
    watchers: HashMap<Box<str>, Vec<Arc<Queue>>>,
    count: usize,
}

pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    pub filled: Notify,
}

pub(crate) struct Waiting {
    events: VecDeque<Arc<Event>>,
    /// Events after this revision are not in the queue: the history has them.
    behind: Option<Revision>,
}

/// What a watcher finds in its queue.
pub(crate) enum Taken {
    Events(VecDeque<Arc<Event>>),
    /// Go on from the history, after this revision.
    Behind(Revision),
    Nothing,
}

impl Index {
    /// The queue starts out `behind`: the watcher first reads what it missed from the history.
    pub fn register(&mut self, scope: &Scope, after: Revision) -> Arc<Queue> {
        let waiting = Waiting { events: VecDeque::new(), behind: Some(after) };
        let queue = Arc::new(Queue { waiting: Mutex::new(waiting), filled: Notify::new() });
        self.watchers.entry(scope.prefix.as_str().into()).or_default().push(queue.clone());
        self.count += 1;
        queue
    }

    pub fn remove(&mut self, scope: &Scope, queue: &Arc<Queue>) {
        let Some(queues) = self.watchers.get_mut(scope.prefix.as_str()) else { return };
        if let Some(position) = queues.iter().position(|other| Arc::ptr_eq(other, queue)) {
            queues.swap_remove(position);
            self.count -= 1;
        }
        if queues.is_empty() {
            self.watchers.remove(scope.prefix.as_str());
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn dispatch(&self, event: &Arc<Event>) {
        if self.count == 0 {
            return;
        }
        // `group/resource/`, `…workspace/`, `…namespace/`, and the whole key.
        let prefixes = event.key.match_indices('/').skip(1).take(3).map(|(slash, _)| &event.key[..=slash]);
        for prefix in prefixes.chain([&*event.key]) {
            for queue in self.watchers.get(prefix).into_iter().flatten() {
                queue.push(event);
            }
        }
    }
}

impl Queue {
    fn push(&self, event: &Arc<Event>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.behind.is_some() {
            return;
        }
        if waiting.events.len() == QUEUE {
            let dropped = std::mem::take(&mut waiting.events);
            waiting.behind = dropped.front().map(|oldest| oldest.revision - 1);
        } else {
            waiting.events.push_back(event.clone());
        }
        drop(waiting);
        self.filled.notify_one();
    }

    pub fn take(&self) -> Taken {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.behind {
            Some(after) => Taken::Behind(after),
            None if waiting.events.is_empty() => Taken::Nothing,
            None => Taken::Events(std::mem::take(&mut waiting.events)),
        }
    }

    /// Nothing waits, here or in the history.
    pub fn is_drained(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.behind.is_none() && waiting.events.is_empty()
    }

    /// The history was read through `behind`; `None` if to its end, so that from here on events arrive in
    /// the queue. Called under the lock that events are dispatched under.
    pub fn caught_up(&self, behind: Option<Revision>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).behind = behind;
    }
}
