//! Everything that happened, in the order in which the server wrote it.

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::Value;

/// One write. Revisions are one sequence for all resources of a server, so events of several watches fit together.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: u64,
    pub resource: &'static str,
    pub is_gone: bool,
    pub object: Value,
}

/// The events of one namespace and of what is in none, oldest first.
pub struct History<'a>(pub Vec<&'a Event>);

/// How things were after an event, by resource and name.
#[derive(Default)]
pub struct State<'a>(BTreeMap<(&'static str, &'a str), &'a Value>);

impl<'a> State<'a> {
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

    /// What an event makes of it; returns how the object was before.
    fn take(&mut self, event: &'a Event) -> Option<&'a Value> {
        let key = (event.resource, object::name(&event.object));
        if event.is_gone { self.0.remove(&key) } else { self.0.insert(key, &event.object) }
    }
}

/// One step of a history.
pub struct Step<'s, 'a> {
    /// How things are after it.
    pub state: &'s State<'a>,
    pub event: &'a Event,
    /// How its object was before.
    pub before: Option<&'a Value>,
}

impl Step<'_, '_> {
    pub fn is_new(&self) -> bool {
        self.before.is_none() && !self.event.is_gone
    }

    /// Whether with this the object is on its way out, or gone without having been.
    pub fn ends(&self) -> bool {
        let was_ending = self.before.is_some_and(object::is_being_deleted);
        !was_ending && (self.event.is_gone || object::is_being_deleted(&self.event.object))
    }
}

impl<'a> History<'a> {
    /// Looks at every step; what is found is told with the revision it happened at.
    pub fn judge(&self, mut look: impl FnMut(&Step<'_, 'a>) -> Option<String>) -> Vec<String> {
        let (mut state, mut found) = (State::default(), Vec::new());
        for event in self.0.iter().copied() {
            let before = state.take(event);
            if let Some(what) = look(&Step { state: &state, event, before }) {
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
