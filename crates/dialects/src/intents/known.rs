//! The objects with an intent, as last seen.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_informer::{Key, Resource};
use atoll_meta::object;
use serde_json::Value;

/// Objects by resource. Their queue keys contain the number of the resource before the namespace.
#[derive(Default)]
pub struct KnownObjects {
    resources: Mutex<Vec<KnownResource>>,
}

struct KnownResource {
    resource: Resource,
    /// Uids by queue key.
    objects: HashMap<Key, String>,
}

impl KnownObjects {
    /// Adds a resource and returns its number; `None` if it is known in some version.
    pub fn add_resource(&self, resource: Resource) -> Option<usize> {
        let mut resources = self.resources();
        let is_same = |known: &KnownResource| {
            (&known.resource.group, &known.resource.plural) == (&resource.group, &resource.plural)
        };
        if resources.iter().any(is_same) {
            return None;
        }
        resources.push(KnownResource { resource, objects: HashMap::new() });
        Some(resources.len() - 1)
    }

    /// Adds an object of a resource and returns its queue key.
    pub fn insert(&self, resource: usize, object: &Value) -> Key {
        let key = queue_key(resource, object);
        if let Some(known) = self.resources().get_mut(resource) {
            known.objects.insert(key.clone(), object::uid(object).to_string());
        }
        key
    }

    /// Removes an object of a resource and returns its queue key.
    pub fn remove(&self, resource: usize, object: &Value) -> Key {
        let key = queue_key(resource, object);
        if let Some(known) = self.resources().get_mut(resource) {
            known.objects.remove(&key);
        }
        key
    }

    /// Removes all objects of a resource whose uids are not present, and returns their queue keys.
    pub fn retain(&self, resource: usize, present: &HashSet<String>) -> Vec<Key> {
        let mut resources = self.resources();
        let Some(known) = resources.get_mut(resource) else { return Vec::new() };
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
        self.resources().iter().flat_map(|known| known.objects.keys().cloned()).collect()
    }

    /// The resource and the key of an object in the queue.
    pub fn target(&self, key: &Key) -> Option<(Resource, Key)> {
        let (index, namespace) = key.namespace.split_once('/')?;
        let resources = self.resources();
        let resource = resources.get(index.parse::<usize>().ok()?)?.resource.clone();
        Some((resource, Key::new(&key.workspace, namespace, &key.name)))
    }

    fn resources(&self) -> MutexGuard<'_, Vec<KnownResource>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn queue_key(resource: usize, object: &Value) -> Key {
    let at = Key::of(object);
    Key::new(&at.workspace, &format!("{resource}/{}", at.namespace), &at.name)
}

#[cfg(test)]
mod tests {
    use atoll_informer::resources::{CONFIG_MAPS, SECRETS};
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_known_by_resource() {
        let known = KnownObjects::default();
        let maps = known.add_resource(CONFIG_MAPS.clone()).expect("it is new");
        let secrets = known.add_resource(SECRETS.clone()).expect("it is new");
        assert_eq!(known.add_resource(CONFIG_MAPS.clone()), None);
        let object = |uid: &str| json!({ "metadata": { "name": "a", "namespace": "n", "uid": uid } });
        let (map, secret) = (known.insert(maps, &object("1")), known.insert(secrets, &object("2")));
        assert_ne!(map, secret);
        assert_eq!(
            known.target(&map).map(|(resource, key)| (resource.plural, key.name)),
            Some(("configmaps".into(), "a".into()))
        );
        assert_eq!(known.retain(maps, &HashSet::from(["1".to_string()])), []);
        assert_eq!(known.retain(secrets, &HashSet::new()), [secret]);
        assert_eq!(known.all(), std::slice::from_ref(&map));
        assert_eq!(known.remove(maps, &object("1")), map);
        assert_eq!(known.all(), []);
    }
}
