//! All events in the order in which the server wrote them.

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::Value;

/// One write. Revisions are global in a server, so events of several watches can be ordered.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: u64,
    pub resource: &'static str,
    pub is_gone: bool,
    pub object: Value,
}

/// The events of one namespace and of cluster-scoped objects, oldest first.
pub struct History<'a>(pub Vec<&'a Event>);

/// The state after an event, by resource and name.
#[derive(Default)]
pub struct ClusterState<'a>(BTreeMap<(&'static str, &'a str), &'a Value>);

impl<'a> ClusterState<'a> {
    pub fn get(&self, resource: &'static str, name: &str) -> Option<&'a Value> {
        self.0.get(&(resource, name)).copied()
    }

    pub fn all(&self, resource: &'static str) -> impl Iterator<Item = &'a Value> {
        self.0
            .range((resource, "")..)
            .take_while(move |((of, _), _)| *of == resource)
            .map(|(_, object)| *object)
    }

    pub fn pods(&self) -> impl Iterator<Item = &'a Value> {
        self.all("pods")
    }

    /// Applies an event and returns the previous state of its object.
    fn apply(&mut self, event: &'a Event) -> Option<&'a Value> {
        let key = (event.resource, object::name(&event.object));
        if event.is_gone { self.0.remove(&key) } else { self.0.insert(key, &event.object) }
    }
}

/// One step of a history.
pub struct HistoryStep<'s, 'a> {
    /// The state after the event.
    pub state: &'s ClusterState<'a>,
    pub event: &'a Event,
    /// The object before the event.
    pub before: Option<&'a Value>,
}

impl HistoryStep<'_, '_> {
    pub fn is_new(&self) -> bool {
        self.before.is_none() && !self.event.is_gone
    }

    /// Returns whether the event starts the deletion of the object or removes it immediately.
    pub fn starts_deletion(&self) -> bool {
        let was_ending = self.before.is_some_and(object::is_being_deleted);
        !was_ending && (self.event.is_gone || object::is_being_deleted(&self.event.object))
    }
}

impl<'a> History<'a> {
    /// Applies `check` to every step. Returns its findings with the revision of the step.
    pub fn check_steps(&self, mut check: impl FnMut(&HistoryStep<'_, 'a>) -> Option<String>) -> Vec<String> {
        let (mut state, mut found) = (ClusterState::default(), Vec::new());
        for event in self.0.iter().copied() {
            let before = state.apply(event);
            if let Some(what) = check(&HistoryStep { state: &state, event, before }) {
                let (resource, name) = (event.resource, object::name(&event.object));
                found.push(format!(
                    "at revision {}, when {resource}/{name} was written, {what}",
                    event.revision
                ));
            }
        }
        found
    }
}
