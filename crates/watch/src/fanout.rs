//! From an event to the watchers that it may concern, by lookup: never by asking each of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

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

    /// Queues the event for everybody whom it may concern. Those who are to be woken are added to `asleep`.
    pub fn dispatch(&self, event: &Arc<Event>, asleep: &mut Vec<Arc<Queue>>) {
        if self.count == 0 {
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
    /// Whether the watcher is to be woken: one that has something in its queue already has been, or is about to be.
    fn push(&self, event: &Arc<Event>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.behind.is_some() {
            return false;
        }
        let first = waiting.events.is_empty();
        if waiting.events.len() == QUEUE {
            let dropped = std::mem::take(&mut waiting.events);
            waiting.behind = dropped.front().map(|oldest| oldest.revision - 1);
        } else {
            waiting.events.push_back(event.clone());
        }
        first
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

/// Wakes watchers. A crowd is woken by a thread of its own: whoever made the event would otherwise be answered only after all
/// of them have been served.
#[derive(Default)]
pub(crate) struct Waker {
    thread: OnceLock<Option<mpsc::Sender<Vec<Arc<Queue>>>>>,
}

/// More watchers than this are a crowd.
const CROWD: usize = 16;

impl Waker {
    pub fn wake(&self, asleep: Vec<Arc<Queue>>) {
        let crowd = (asleep.len() > CROWD).then(|| self.thread.get_or_init(start_waking));
        let left = match crowd {
            Some(Some(thread)) => thread.send(asleep).err().map(|unsent| unsent.0),
            _ => Some(asleep),
        };
        left.iter().flatten().for_each(|queue| queue.filled.notify_one());
    }
}

/// `None` if the system has no thread to spare. The thread ends with its sender.
fn start_waking() -> Option<mpsc::Sender<Vec<Arc<Queue>>>> {
    let (sender, crowds) = mpsc::channel::<Vec<Arc<Queue>>>();
    let wake = move || crowds.into_iter().flatten().for_each(|queue| queue.filled.notify_one());
    std::thread::Builder::new().name("wake".into()).spawn(wake).ok()?;
    Some(sender)
}
