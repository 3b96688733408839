//! The objects with an intent, as last seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_informer::{Key, Resource, Scope};
use atoll_meta::object;
use serde_json::Value;

/// Objects by resource. Their queue keys contain the number of the resource before the namespace.
#[derive(Default)]
pub struct KnownObjects {
    state: Mutex<KnownResources>,
}

#[derive(Default)]
struct KnownResources {
    /// Resources by number. A number is never used again.
    resources: BTreeMap<usize, KnownResource>,
    next: usize,
}

/// A resource of all workspaces, or of the one that defines it: workspaces may define the same resource in other
/// versions or with another scope.
struct KnownResource {
    scope: Scope,
    resource: Resource,
    /// Uids by queue key.
    objects: HashMap<Key, String>,
}

impl KnownObjects {
    /// Adds a resource and returns its number; `None` if it is known in some version, in all workspaces or in
    /// the same one.
    pub fn add_resource(&self, scope: &Scope, resource: Resource) -> Option<usize> {
        let mut state = self.state();
        let is_same = |known: &KnownResource| {
            (&known.resource.group, &known.resource.plural) == (&resource.group, &resource.plural)
                && (known.scope == Scope::AllWorkspaces || known.scope == *scope)
        };
        if state.resources.values().any(is_same) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        let known = KnownResource { scope: scope.clone(), resource, objects: HashMap::new() };
        state.resources.insert(number, known);
        Some(number)
    }

    /// Removes a resource with its objects.
    pub fn remove_resource(&self, resource: usize) {
        self.state().resources.remove(&resource);
    }

    /// Adds an object of a resource and returns its queue key.
    pub fn insert(&self, resource: usize, object: &Value) -> Option<Key> {
        let mut state = self.state();
        let known = state.resources.get_mut(&resource)?;
        let key = known.queue_key(resource, object);
        known.objects.insert(key.clone(), object::uid(object).to_string());
        Some(key)
    }

    /// Removes an object of a resource and returns its queue key.
    pub fn remove(&self, resource: usize, object: &Value) -> Option<Key> {
        let mut state = self.state();
        let known = state.resources.get_mut(&resource)?;
        let key = known.queue_key(resource, object);
        known.objects.remove(&key);
        Some(key)
    }

    /// Removes all objects of a resource whose uids are not present, and returns their queue keys.
    pub fn retain(&self, resource: usize, present: &HashSet<String>) -> Vec<Key> {
        let mut state = self.state();
        let Some(known) = state.resources.get_mut(&resource) else { return Vec::new() };
        let gone: Vec<Key> = known
            .objects
            .iter()
            .filter(|(_, uid)| !present.contains(*uid))
            .map(|(key, _)| key.clone())
            .collect();
        gone.iter().for_each(|key| drop(known.objects.remove(key)));
        gone
    }

    /// The queue keys of all objects.
    pub fn all(&self) -> Vec<Key> {
        self.state().resources.values().flat_map(|known| known.objects.keys().cloned()).collect()
    }

    /// The resource and the key of an object in the queue.
    pub fn target(&self, key: &Key) -> Option<(Resource, Key)> {
        let (number, namespace) = key.namespace.split_once('/')?;
        let state = self.state();
        let resource = state.resources.get(&number.parse::<usize>().ok()?)?.resource.clone();
        Some((resource, Key::new(&key.workspace, namespace, &key.name)))
    }

    fn state(&self) -> MutexGuard<'_, KnownResources> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownResource {
    fn queue_key(&self, number: usize, object: &Value) -> Key {
        let at = Key::of(object);
        Key::new(self.scope.workspace_of(&at.workspace), &format!("{number}/{}", at.namespace), &at.name)
    }
}

#[cfg(test)]
mod tests {
    use atoll_informer::resources::{CONFIG_MAPS, SECRETS};
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_known_by_resource() {
        let known = KnownObjects::default();
        let all = &Scope::AllWorkspaces;
        let maps = known.add_resource(all, CONFIG_MAPS.clone()).expect("it is new");
        let secrets = known.add_resource(all, SECRETS.clone()).expect("it is new");
        assert_eq!(known.add_resource(all, CONFIG_MAPS.clone()), None);
        let object = |uid: &str| json!({ "metadata": { "name": "a", "namespace": "n", "uid": uid } });
        let insert = |resource: usize, uid: &str| known.insert(resource, &object(uid)).expect("a resource");
        let (map, secret) = (insert(maps, "1"), insert(secrets, "2"));
        assert_ne!(map, secret);
        assert_eq!(
            known.target(&map).map(|(resource, key)| (resource.plural, key.name)),
            Some(("configmaps".into(), "a".into()))
        );
        assert_eq!(known.retain(maps, &HashSet::from(["1".to_string()])), []);
        assert_eq!(known.retain(secrets, &HashSet::new()), [secret]);
        assert_eq!(known.all(), std::slice::from_ref(&map));
        assert_eq!(known.remove(maps, &object("1")), Some(map));
        assert_eq!(known.all(), []);
    }

    #[test]
    fn workspaces_define_the_same_resource_independently() {
        let known = KnownObjects::default();
        let widgets = |version: &'static str| Resource { version: version.into(), ..CONFIG_MAPS.clone() };
        let [one, two] = ["one", "two"].map(|id| Scope::Workspace(id.into()));
        let first = known.add_resource(&one, widgets("v1")).expect("it is new");
        let second = known.add_resource(&two, widgets("v2")).expect("it is new");
        assert_eq!(known.add_resource(&one, widgets("v2")), None);
        let object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "1" } });
        for (number, workspace, version) in [(first, "one", "v1"), (second, "two", "v2")] {
            let key = known.insert(number, &object).expect("a resource");
            let (resource, at) = known.target(&key).expect("a resource");
            assert_eq!((&*resource.version, at), (version, Key::new(workspace, "n", "a")));
        }
        known.remove_resource(first);
        assert_eq!(known.insert(first, &object), None);
        assert_eq!(known.all().len(), 1);
        let again = known.add_resource(&one, widgets("v2")).expect("the other one was removed");
        assert!(again > second);
    }
}
