//! The custom resources of workspaces, as their CustomResourceDefinitions were last seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use crate::discovered::of_definition;
use crate::{Key, ListWatchEvent, Resource, Scope};

/// Annotation of a definition that a workspace has from a cluster, and gives to the workspaces below it.
const IMPORTED: &str = "atoll.dev/imported-from";

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
    /// When the definition was created.
    created: String,
    resource: DefinedResource,
}

/// A custom resource, with the workspaces that have it by the same definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DefinedResource {
    pub scope: Scope,
    pub resource: Resource,
}

impl DefinedResource {
    /// The resource of a definition, if it is served.
    fn of(definition: &Value) -> Option<DefinedResource> {
        let id = Key::of(definition).workspace.to_string();
        let scope = if is_imported(definition) { Scope::Below(id) } else { Scope::Workspace(id) };
        Some(DefinedResource { scope, resource: of_definition(definition)? })
    }
}

/// Whether a workspace gives a definition to those below it.
pub fn is_imported(definition: &Value) -> bool {
    object::annotation(definition, IMPORTED).is_some()
}

/// How many custom resources a controller watches. A watch costs memory and a task, and a tenant may define any
/// number of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    pub of_workspace: usize,
    /// Of a child of root, with all workspaces below it.
    pub of_tenant: usize,
}

pub const WATCH_LIMITS: WatchLimits = WatchLimits { of_workspace: 256, of_tenant: 1024 };

/// The custom resources that are within the limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WatchedResources {
    pub watched: Vec<DefinedResource>,
    /// The others by the id of their workspace.
    pub left_out: BTreeMap<Arc<str>, Vec<LeftOut>>,
}

/// A definition whose resource is not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub definition: Key,
    pub uid: String,
    pub kind: String,
}

impl DefinedResources {
    pub fn handle(&mut self, event: DefinitionEvent) {
        match event {
            DefinitionEvent::Upserted(definition) => {
                let (key, uid) = (Key::of(&definition), object::uid(&definition).to_string());
                let created = object::creation_timestamp(&definition).unwrap_or_default().to_string();
                match DefinedResource::of(&definition) {
                    Some(resource) => drop(self.definitions.insert(key, Defined { uid, created, resource })),
                    None => drop(self.definitions.remove(&key)),
                }
            }
            DefinitionEvent::Deleted(definition) => drop(self.definitions.remove(&Key::of(&definition))),
            DefinitionEvent::Listed(present) => {
                self.definitions.retain(|_, defined| present.contains(&defined.uid));
            }
        }
    }

    /// The resources to watch within limits, of those that are wanted. Those that are needed most come first, then the
    /// oldest. A tenant is known by the workspace (by id).
    pub fn to_watch(
        &self,
        limits: WatchLimits,
        is_wanted: impl Fn(&Resource) -> bool,
        is_first: impl Fn(&DefinedResource) -> bool,
        tenant: impl Fn(&str) -> String,
    ) -> WatchedResources {
        let wanted = self.definitions.iter().filter(|(_, defined)| is_wanted(&defined.resource.resource));
        let mut wanted: Vec<(bool, &str, &Key, &Defined)> = wanted
            .map(|(key, defined)| (!is_first(&defined.resource), &*defined.created, key, defined))
            .collect();
        wanted.sort_by(|one, other| (one.0, one.1, one.2).cmp(&(other.0, other.1, other.2)));
        let mut found = WatchedResources::default();
        let mut of_workspaces: HashMap<Arc<str>, (String, usize)> = HashMap::new();
        let mut of_tenants: HashMap<String, usize> = HashMap::new();
        for (_, _, key, defined) in wanted {
            let of_workspace = of_workspaces.entry(key.workspace.clone());
            let (tenant, count) = of_workspace.or_insert_with(|| (tenant(&key.workspace), 0));
            let of_tenant = of_tenants.entry(tenant.clone()).or_default();
            if *count < limits.of_workspace && *of_tenant < limits.of_tenant {
                (*count, *of_tenant) = (*count + 1, *of_tenant + 1);
                found.watched.push(defined.resource.clone());
            } else {
                let (uid, kind) = (defined.uid.clone(), defined.resource.resource.kind.to_string());
                let left_out = LeftOut { definition: key.clone(), uid, kind };
                found.left_out.entry(key.workspace.clone()).or_default().push(left_out);
            }
        }
        found
    }

    /// All resources, with the keys of their definitions.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &DefinedResource)> {
        self.definitions.iter().map(|(key, defined)| (key, &defined.resource))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn watches_are_limited_by_workspace_and_tenant() {
        let mut defined = DefinedResources::default();
        for (workspace, name, created) in [
            ("a", "old", "1"),
            ("a", "new", "3"),
            ("a", "first", "4"),
            ("b", "x", "2"),
            ("c", "y", "5"),
            ("d", "z", "1"),
        ] {
            defined.handle(DefinitionEvent::Upserted(json!({
                "metadata": {
                    "name": name, "uid": name, "creationTimestamp": created,
                    "annotations": { crate::WORKSPACE: workspace },
                },
                "spec": {
                    "group": "example.com", "scope": "Namespaced", "names": { "plural": name, "kind": name },
                    "versions": [{ "name": "v1", "served": true, "storage": true }],
                },
            })));
        }
        // The workspaces b and c are below a.
        let tenant = |workspace: &str| if workspace == "d" { "d" } else { "a" }.to_string();
        let names = |of_workspace, of_tenant| {
            let limits = WatchLimits { of_workspace, of_tenant };
            let is_wanted = |resource: &Resource| resource.kind != "z";
            let is_first = |defined: &DefinedResource| defined.resource.kind == "first";
            let found = defined.to_watch(limits, is_wanted, is_first, tenant);
            let watched: Vec<String> =
                found.watched.iter().map(|one| one.resource.kind.to_string()).collect();
            let left: Vec<String> = found.left_out.into_values().flatten().map(|one| one.kind).collect();
            (watched.join(" "), left.join(" "))
        };
        assert_eq!(names(9, 9), ("first old x new y".into(), "".into()));
        assert_eq!(names(2, 9), ("first old x y".into(), "new".into()));
        assert_eq!(names(2, 3), ("first old x".into(), "new y".into()));
    }

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
            let all =
                defined.all().map(|(key, defined)| format!("{} {}", key.workspace, defined.resource.version));
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
        let mut imported = definition("a", "4", "v1", true);
        imported["metadata"]["annotations"][IMPORTED] = "east".into();
        for (definition, expected) in [
            (definition("a", "4", "v1", true), Scope::Workspace("a".into())),
            (imported, Scope::Below("a".into())),
        ] {
            defined.handle(DefinitionEvent::Upserted(definition));
            let scopes: Vec<&Scope> = defined.all().map(|(_, defined)| &defined.scope).collect();
            assert_eq!(scopes, [&expected]);
        }
    }
}
