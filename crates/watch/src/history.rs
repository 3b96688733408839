//! Recent events, bounded in bytes and in age.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use atoll_store::Revision;
use tokio::time::Instant;

use crate::event::Event;
use crate::inherited::Reach;
use crate::snapshot::Scope;

/// Limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 64 << 20 }
    }
}

pub(crate) struct History {
    /// Events of each `group/resource/`, oldest first, so that a watcher reads only events of its resource.
    resources: HashMap<Box<str>, VecDeque<Arc<Event>>>,
    /// All events in order of revision, for removing the oldest.
    order: VecDeque<(Instant, Arc<Event>)>,
    bytes: usize,
    /// Number of events that have each shared part, by its address. A part counts once.
    parts: HashMap<usize, usize>,
    /// The history contains every event after this revision.
    floor: Revision,
    limits: Limits,
}

impl History {
    pub fn new(floor: Revision, limits: Limits) -> Self {
        History {
            resources: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            parts: HashMap::new(),
            floor,
            limits,
        }
    }

    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Whether the history contains no events.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether the next large events let the oldest ones leave early.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.limits.bytes / 10 * 9
    }

    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        for part in event.shared_parts() {
            let events = self.parts.entry(part.as_ptr().addr()).or_default();
            if *events == 0 {
                self.bytes += part.len();
            }
            *events += 1;
        }
        self.order.push_back((Instant::now(), event.clone()));
        let resource = resource_of(&event.key);
        match self.resources.get_mut(resource) {
            Some(events) => events.push_back(event),
            None => {
                self.resources.insert(resource.into(), VecDeque::from([event]));
            }
        }
        while self.bytes > self.limits.bytes {
            self.drop_oldest();
        }
    }

    /// Handles a raised store revision: older revisions cannot be continued.
    pub fn raise(&mut self, revision: Revision) {
        while !self.order.is_empty() {
            self.drop_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    pub fn expire(&mut self, now: Instant, age: Duration) {
        while self.order.front().is_some_and(|(since, _)| now.duration_since(*since) > age) {
            self.drop_oldest();
        }
    }

    /// Events of the resource of `scope` after `revision` that `is_shown` accepts, oldest first, and whether there are more. There are at most `limit`
    /// of them, and if there is more than one, their objects have at most `bytes`.
    pub fn after(
        &self,
        scope: &Scope,
        revision: Revision,
        limit: usize,
        bytes: usize,
        is_shown: impl Fn(&Event) -> bool,
    ) -> (Vec<Arc<Event>>, bool) {
        let Some(events) = self.resources.get(resource_of(&scope.prefix)) else { return (Vec::new(), false) };
        let start = events.partition_point(|event| event.revision <= revision);
        let mut within = events.range(start..).filter(|event| is_shown(event)).peekable();
        let (mut found, mut size): (Vec<Arc<Event>>, usize) = (Vec::new(), 0);
        // Events of one revision stay together, because the rest starts after a revision.
        while let Some(event) = within.next_if(|event| {
            found.last().is_none_or(|last| {
                last.revision == event.revision || found.len() < limit && size + event.weight() <= bytes
            })
        }) {
            size += event.weight();
            found.push(event.clone());
        }
        (found, within.peek().is_some())
    }

    /// Events in `scope` after `revision`, newest first.
    pub fn newest_first<'a>(
        &'a self,
        scope: &'a Scope,
        revision: Revision,
    ) -> impl Iterator<Item = &'a Event> + use<'a> {
        let events =
            self.resources.get(resource_of(&scope.prefix)).into_iter().flat_map(|events| events.iter().rev());
        events.map(Arc::as_ref).take_while(move |event| event.revision > revision).filter(|event| match event
            .reach
        {
            Reach::Stored => scope.contains(&event.key),
            Reach::Inherited => true,
            Reach::Uncovered => false,
        })
    }

    fn drop_oldest(&mut self) {
        let Some((_, event)) = self.order.pop_front() else { return };
        self.bytes -= event.weight();
        for part in event.shared_parts() {
            if let Entry::Occupied(mut events) = self.parts.entry(part.as_ptr().addr()) {
                *events.get_mut() -= 1;
                if *events.get() == 0 {
                    events.remove();
                    self.bytes -= part.len();
                }
            }
        }
        self.floor = event.revision;
        let resource = resource_of(&event.key);
        if let Some(events) = self.resources.get_mut(resource) {
            events.pop_front();
            if events.is_empty() {
                self.resources.remove(resource);
            }
        }
    }
}

/// `group/resource/` of a key or a scope's prefix.
fn resource_of(key: &str) -> &str {
    match key.match_indices('/').nth(1) {
        Some((slash, _)) => &key[..=slash],
        None => key,
    }
}
