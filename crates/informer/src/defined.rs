//! The custom resources of workspaces, as their CustomResourceDefinitions were last seen.

use std::collections::{HashMap, HashSet};

use atoll_meta::object;
use serde_json::Value;

use crate::discovered::of_definition;
use crate::{Key, ListWatchEvent, Resource};

/// A change of the definitions.
pub enum DefinitionEvent {
    Upserted(Value),
    Deleted(Value),
    /// The uids of all definitions.
    Listed(HashSet<String>),
}

impl DefinitionEvent {
    pub fn of(event: ListWatchEvent<'_>) -> DefinitionEvent {
        match event {
            ListWatchEvent::Upserted(definition) => DefinitionEvent::Upserted(definition),
            ListWatchEvent::Deleted(definition) => DefinitionEvent::Deleted(definition),
            ListWatchEvent::Listed(present, _) => DefinitionEvent::Listed(present.clone()),
        }
    }
}

/// Custom resources by the key of their definition.
#[derive(Default)]
pub struct DefinedResources {
    definitions: HashMap<Key, Defined>,
}

struct Defined {
    uid: String,
    resource: Resource,
}

impl DefinedResources {
    pub fn handle(&mut self, event: DefinitionEvent) {
        match event {
            DefinitionEvent::Upserted(definition) => {
                let (key, uid) = (Key::of(&definition), object::uid(&definition).to_string());
                match of_definition(&definition) {
                    Some(resource) => drop(self.definitions.insert(key, Defined { uid, resource })),
                    None => drop(self.definitions.remove(&key)),
                }
            }
            DefinitionEvent::Deleted(definition) => drop(self.definitions.remove(&Key::of(&definition))),
            DefinitionEvent::Listed(present) => {
                self.definitions.retain(|_, defined| present.contains(&defined.uid));
            }
        }
    }

    /// All resources, with the keys of their definitions.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Resource)> {
        self.definitions.iter().map(|(key, defined)| (key, &defined.resource))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_belong_to_their_workspace() {
        let definition = |workspace: &str, uid: &str, version: &str, served: bool| {
            json!({
                "metadata": {
                    "name": "widgets.example.com", "uid": uid,
                    "annotations": { crate::WORKSPACE: workspace },
                },
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": { "plural": "widgets", "kind": "Widget" },
                    "versions": [{ "name": version, "served": served, "storage": true }],
                },
            })
        };
        let mut defined = DefinedResources::default();
        let shown = |defined: &DefinedResources| {
            let all = defined.all().map(|(key, resource)| format!("{} {}", key.workspace, resource.version));
            let mut all: Vec<String> = all.collect();
            all.sort();
            all
        };
        defined.handle(DefinitionEvent::Upserted(definition("a", "1", "v1", true)));
        defined.handle(DefinitionEvent::Upserted(definition("b", "2", "v9", true)));
        assert_eq!(shown(&defined), ["a v1", "b v9"]);
        defined.handle(DefinitionEvent::Upserted(definition("a", "1", "v2", true)));
        assert_eq!(shown(&defined), ["a v2", "b v9"]);
        defined.handle(DefinitionEvent::Upserted(definition("a", "1", "v2", false)));
        assert_eq!(shown(&defined), ["b v9"]);
        defined.handle(DefinitionEvent::Upserted(definition("c", "3", "v1", true)));
        defined.handle(DefinitionEvent::Listed(HashSet::from(["3".to_string()])));
        assert_eq!(shown(&defined), ["c v1"]);
        defined.handle(DefinitionEvent::Deleted(definition("c", "3", "v1", true)));
        assert_eq!(shown(&defined), Vec::<String>::new());
    }
}
