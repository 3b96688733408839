//! Finds the watchers of an event by lookup, without testing each watcher.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use atoll_store::Revision;
use tokio::sync::Notify;

use crate::event::Event;
use crate::inherited::{Reach, watch_group};
use crate::snapshot::Scope;

/// Maximum queue length of one watcher. A watcher with more pending events catches up from the history
/// instead, so that a slow reader uses bounded memory.
const QUEUE: usize = 512;
/// Maximum size of the objects in the queue of one watcher, unless it contains only one event. The history
/// may have dropped them already, and then only the queue keeps them in memory.
const QUEUE_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Index {
    /// Watchers by their prefix: a resource, a workspace, a namespace, or the key of one object.
    watchers: HashMap<Box<str>, Vec<Arc<Queue>>>,
    count: usize,
}

pub(crate) struct Queue {
    pending: Mutex<Pending>,
    pub filled: Notify,
    /// The prefix of the scope, and the groups of inherited objects that are watched too.
    registered: Box<[Box<str>]>,
}

pub(crate) struct Pending {
    events: VecDeque<Arc<Event>>,
    /// Size of the events.
    bytes: usize,
    /// If set, events after this revision are not in the queue and must be read from the history.
    behind: Option<Revision>,
}

/// The contents of a watcher's queue.
pub(crate) enum QueueContents {
    Events(VecDeque<Arc<Event>>),
    /// Continue from the history, after this revision.
    Behind(Revision),
    Nothing,
}

impl Index {
    /// The queue starts out `behind`: the watcher first reads missed events from the history.
    /// It also receives changes of objects that are inherited within `groups`.
    pub fn register(&mut self, scope: &Scope, groups: Vec<String>, after: Revision) -> Arc<Queue> {
        let pending = Pending { events: VecDeque::new(), bytes: 0, behind: Some(after) };
        let names = groups.into_iter().map(String::into_boxed_str);
        let registered: Box<[Box<str>]> =
            std::iter::once(scope.prefix.as_str().into()).chain(names).collect();
        let queue = Arc::new(Queue { pending: Mutex::new(pending), filled: Notify::new(), registered });
        for name in &queue.registered {
            self.watchers.entry(name.clone()).or_default().push(queue.clone());
        }
        self.count += 1;
        queue
    }

    pub fn remove(&mut self, queue: &Arc<Queue>) {
        let mut is_known = false;
        for name in &queue.registered {
            let Some(queues) = self.watchers.get_mut(name) else { continue };
            if let Some(position) = queues.iter().position(|other| Arc::ptr_eq(other, queue)) {
                queues.swap_remove(position);
                is_known = true;
            }
            if queues.is_empty() {
                self.watchers.remove(name);
            }
        }
        self.count -= usize::from(is_known);
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Queues the event for every watcher that may match. Watchers that must be woken are added to `asleep`.
    pub fn dispatch(&self, event: &Arc<Event>, asleep: &mut Vec<Arc<Queue>>) {
        if self.count == 0 {
            return;
        }
        if event.reach != Reach::Stored {
            let giver = event.key.parts().map_or("", |parts| parts.workspace);
            for group in [watch_group(giver), watch_group("*")] {
                let queues = self.watchers.get(group.as_str()).into_iter().flatten();
                asleep.extend(queues.filter(|queue| queue.push(event)).cloned());
            }
            return;
        }
        // `group/resource/`, `…workspace/`, `…namespace/`, and the whole key.
        let prefixes = event.key.match_indices('/').skip(1).take(3).map(|(slash, _)| &event.key[..=slash]);
        for prefix in prefixes.chain([&*event.key]) {
            let queues = self.watchers.get(prefix).into_iter().flatten();
            asleep.extend(queues.filter(|queue| queue.push(event)).cloned());
        }
    }
}

impl Queue {
    /// Returns whether the watcher must be woken: a watcher with a nonempty queue has already been woken.
    fn push(&self, event: &Arc<Event>) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.behind.is_some() {
            return false;
        }
        let first = pending.events.is_empty();
        let bytes = pending.bytes + event.weight();
        if pending.events.len() == QUEUE || !first && bytes > QUEUE_BYTES {
            let dropped = std::mem::take(&mut pending.events);
            pending.bytes = 0;
            pending.behind = dropped.front().map(|oldest| oldest.revision - 1);
        } else {
            pending.events.push_back(event.clone());
            pending.bytes = bytes;
        }
        first
    }

    pub fn take(&self) -> QueueContents {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        match pending.behind {
            Some(after) => QueueContents::Behind(after),
            None if pending.events.is_empty() => QueueContents::Nothing,
            None => {
                pending.bytes = 0;
                QueueContents::Events(std::mem::take(&mut pending.events))
            }
        }
    }

    /// Whether no event is pending, here or in the history.
    pub fn is_drained(&self) -> bool {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.behind.is_none() && pending.events.is_empty()
    }

    /// Records that the history was read through `behind`, or to its end if `None`: from then on events
    /// arrive in the queue. Called under the lock under which events are dispatched.
    pub fn caught_up(&self, behind: Option<Revision>) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).behind = behind;
    }
}

/// Wakes watchers. Many watchers are woken by a separate thread, because otherwise the writer would get its
/// response only after all of them have run.
#[derive(Default)]
pub(crate) struct Waker {
    thread: OnceLock<Option<mpsc::Sender<Vec<Arc<Queue>>>>>,
}

/// Above this number of watchers, the separate thread wakes them.
const INLINE_WAKES: usize = 16;

impl Waker {
    pub fn wake(&self, asleep: Vec<Arc<Queue>>) {
        let crowd = (asleep.len() > INLINE_WAKES).then(|| self.thread.get_or_init(start_waking));
        let left = match crowd {
            Some(Some(thread)) => thread.send(asleep).err().map(|unsent| unsent.0),
            _ => Some(asleep),
        };
        left.iter().flatten().for_each(|queue| queue.filled.notify_one());
    }
}

/// Returns `None` if no thread can be started. The thread ends when its sender is dropped.
fn start_waking() -> Option<mpsc::Sender<Vec<Arc<Queue>>>> {
    let (sender, batches) = mpsc::channel::<Vec<Arc<Queue>>>();
    let wake = move || batches.into_iter().flatten().for_each(|queue| queue.filled.notify_one());
    std::thread::Builder::new().name("wake".into()).spawn(wake).ok()?;
    Some(sender)
}
