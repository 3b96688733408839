//! Cache of all objects of one resource, as last seen through the API.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atoll_meta::object;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Key, Resource};

/// Index function: returns the index values of an object.
pub type Index = fn(&Value) -> Vec<String>;

/// An added, changed or deleted object. `old` and `new` are never both `None`.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

impl Change {
    /// Returns the object, or its last state if it was deleted.
    pub fn object(&self) -> &Arc<Value> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an object")
    }
}

/// Number of deleted objects that are remembered, so that a late response does not bring one of them back.
const REMEMBERED: usize = 4096;

type Listener = Box<dyn Fn(&Change) + Send + Sync>;

pub struct Cache {
    pub resource: Resource,
    state: RwLock<CacheState>,
    /// Locked while the state changes and while listeners run, so that all listeners see all changes in
    /// order.
    listeners: Mutex<Vec<Listener>>,
    synced: watch::Sender<bool>,
}

#[derive(Default)]
struct CacheState {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Keys of objects by the uid of their owners.
    owned: HashMap<String, BTreeSet<Key>>,
    indices: Vec<(Index, HashMap<String, BTreeSet<Key>>)>,
    /// Uids of objects whose deletion was requested and has not been observed yet.
    deleting_uids: HashSet<String>,
    /// Uids of the most recently deleted objects.
    deleted: HashSet<String>,
    /// The same uids in the order of their deletion.
    deleted_order: VecDeque<String>,
    /// Whether the cache contains selected objects only: one that is removed may come back.
    is_partial: bool,
}

impl Cache {
    pub(crate) fn new(resource: Resource) -> Cache {
        Cache {
            resource,
            state: RwLock::default(),
            listeners: Mutex::default(),
            synced: watch::Sender::new(false),
        }
    }

    /// A cache of selected objects.
    pub(crate) fn partial(resource: Resource) -> Cache {
        let cache = Cache::new(resource);
        cache.write().is_partial = true;
        cache
    }

    /// Returns a copy with the same objects and indices, without listeners. No watch changes it: it is there to try
    /// out changes with [`Cache::wrote`].
    pub fn detached_copy(&self) -> Cache {
        let state = self.read();
        let copy = CacheState {
            objects: state.objects.clone(),
            owned: state.owned.clone(),
            indices: state.indices.clone(),
            ..CacheState::default()
        };
        Cache {
            resource: self.resource.clone(),
            state: RwLock::new(copy),
            listeners: Mutex::default(),
            synced: watch::Sender::new(true),
        }
    }

    /// Removes all listeners, which may refer to the owner of this cache.
    pub fn remove_listeners(&self) {
        self.listeners().clear();
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns the objects in a namespace, or in the whole workspace if `namespace` is empty, sorted by name.
    pub fn list(&self, workspace: &str, namespace: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let from = Key::new(workspace, namespace, "");
        let inside = |key: &Key| {
            *key.workspace == *workspace && (namespace.is_empty() || *key.namespace == *namespace)
        };
        let range = state.objects.range((Bound::Included(from), Bound::Unbounded));
        range.take_while(|(key, _)| inside(key)).map(|(_, object)| object.clone()).collect()
    }

    /// Returns all objects of all workspaces.
    pub fn all(&self) -> Vec<Arc<Value>> {
        self.read().objects.values().cloned().collect()
    }

    /// Returns the objects with an owner reference to `uid` in the workspace and namespace of `owner`.
    /// Objects elsewhere are ignored, because any writer can put any uid into an owner reference.
    pub fn owned_by(&self, owner: &Key, uid: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let keys = state.owned.get(uid).into_iter().flatten();
        let keys = keys.filter(|key| key.workspace == owner.workspace && key.namespace == owner.namespace);
        keys.filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// Number of objects with an owner reference to `uid`, also of those that are elsewhere.
    pub fn count_owned(&self, uid: &str) -> usize {
        self.read().owned.get(uid).map_or(0, BTreeSet::len)
    }

    /// Adds an index and returns its number. Adding the same function again returns the same number.
    pub fn index(&self, index: Index) -> usize {
        let mut state = self.write();
        if let Some(known) = state.indices.iter().position(|(known, _)| std::ptr::fn_addr_eq(*known, index)) {
            return known;
        }
        let mut found: HashMap<String, BTreeSet<Key>> = HashMap::new();
        for (key, object) in &state.objects {
            for value in index(object) {
                found.entry(value).or_default().insert(key.clone());
            }
        }
        state.indices.push((index, found));
        state.indices.len() - 1
    }

    /// Returns the objects with the given value in an index.
    pub fn by_index(&self, index: usize, value: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let keys = state.indices.get(index).and_then(|(_, found)| found.get(value)).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// Number of objects with the given value in an index.
    pub fn count_by_index(&self, index: usize, value: &str) -> usize {
        self.read().indices.get(index).and_then(|(_, found)| found.get(value)).map_or(0, BTreeSet::len)
    }

    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `listener` for every object in the cache and for every later change. It must be fast and may
    /// read the cache, but not change it.
    pub fn listen(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let mut listeners = self.listeners();
        for (key, object) in self.read().objects.clone() {
            listener(&Change { key, old: None, new: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        // This fails only if the cache was dropped.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Stores the response to a write, which the watch will deliver later.
    pub fn wrote(&self, object: &Value) {
        self.store(object.clone());
    }

    /// Marks an object as being deleted after its deletion was requested and accepted, whatever older watch
    /// events still arrive.
    pub fn deleting(&self, key: &Key, uid: &str) {
        let listeners = self.listeners();
        let mut state = self.write();
        let Some(old) = state.objects.get(key).filter(|object| object::uid(object) == uid).cloned() else {
            return;
        };
        state.deleting_uids.insert(uid.into());
        if object::is_being_deleted(&old) {
            return;
        }
        let new = Arc::new(with_deletion_timestamp(old.as_ref().clone()));
        state.objects.insert(key.clone(), new.clone());
        drop(state);
        notify(&listeners, &Change { key: key.clone(), old: Some(old), new: Some(new) });
    }

    /// Stores an object, unless the cache has a newer version.
    pub(crate) fn store(&self, mut object: Value) {
        let listeners = self.listeners();
        let mut state = self.write();
        let key = Key::of(&object);
        let old = state.objects.get(&key).cloned();
        let is_old = old.as_ref().is_some_and(|old| !is_newer(&object, old));
        if is_old || state.deleted.contains(object::uid(&object)) {
            return;
        }
        // managedFields take up to half of an object's memory, and no controller reads them.
        object::remove_metadata(&mut object, "managedFields");
        if state.deleting_uids.contains(object::uid(&object)) && !object::is_being_deleted(&object) {
            object = with_deletion_timestamp(object);
        }
        let new = Arc::new(object);
        state.replace(&key, old.as_deref(), Some(&new));
        drop(state);
        notify(&listeners, &Change { key, old, new: Some(new) });
    }

    /// Removes a deleted object.
    pub(crate) fn remove(&self, object: &Value) {
        let listeners = self.listeners();
        let mut state = self.write();
        let key = Key::of(object);
        let Some(old) = state.objects.get(&key).cloned() else { return };
        // An object with the same name has been created since.
        if object::uid(&old) != object::uid(object) && is_newer(&old, object) {
            return;
        }
        state.replace(&key, Some(&old), None);
        drop(state);
        notify(&listeners, &Change { key, old: Some(old), new: None });
    }

    /// Removes all objects whose uid is not in `present`, except those newer than `revision`, which were
    /// written after the list.
    pub(crate) fn retain(&self, present: &HashSet<String>, revision: u64) {
        let listeners = self.listeners();
        let mut state = self.write();
        let deleted: Vec<(Key, Arc<Value>)> = state
            .objects
            .iter()
            .filter(|(_, object)| !present.contains(object::uid(object)) && revision_of(object) <= revision)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, old) in &deleted {
            state.replace(key, Some(old), None);
        }
        drop(state);
        for (key, old) in deleted {
            notify(&listeners, &Change { key, old: Some(old), new: None });
        }
    }

    pub(crate) fn set_synced(&self) {
        self.synced.send_replace(true);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, CacheState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn replace(&mut self, key: &Key, old: Option<&Value>, new: Option<&Arc<Value>>) {
        if let Some(old) = old {
            for owner in object::owner_references(old) {
                forget(&mut self.owned, owner.uid, key);
            }
            for (index, found) in &mut self.indices {
                for value in index(old) {
                    forget(found, &value, key);
                }
            }
        }
        let Some(new) = new else {
            if let Some(old) = old {
                self.record_deletion(object::uid(old));
            }
            self.objects.remove(key);
            return;
        };
        for owner in object::owner_references(new) {
            self.owned.entry(owner.uid.into()).or_default().insert(key.clone());
        }
        for (index, found) in &mut self.indices {
            for value in index(new) {
                found.entry(value).or_default().insert(key.clone());
            }
        }
        self.objects.insert(key.clone(), new.clone());
    }

    fn record_deletion(&mut self, uid: &str) {
        self.deleting_uids.remove(uid);
        if self.is_partial {
            return;
        }
        if self.deleted.insert(uid.into()) {
            self.deleted_order.push_back(uid.into());
        }
        if self.deleted_order.len() > REMEMBERED
            && let Some(oldest) = self.deleted_order.pop_front()
        {
            self.deleted.remove(&oldest);
        }
    }
}

fn forget(found: &mut HashMap<String, BTreeSet<Key>>, value: &str, key: &Key) {
    if let Some(keys) = found.get_mut(value) {
        keys.remove(key);
        if keys.is_empty() {
            found.remove(value);
        }
    }
}

/// Calls all listeners. One that panics because of an object must not end the watch of all others.
fn notify(listeners: &[Listener], change: &Change) {
    for listener in listeners {
        if catch_unwind(AssertUnwindSafe(|| listener(change))).is_err() {
            tracing::error!(key = %change.key, "a controller panicked while it was notified of an object");
        }
    }
}

/// Sets a deletion timestamp on an object. The real one is not known yet, so the creation timestamp is used.
fn with_deletion_timestamp(mut object: Value) -> Value {
    let since = object::creation_timestamp(&object).unwrap_or_default().to_string();
    object::set_deletion_timestamp(&mut object, &since);
    object
}

/// Compares resource versions, which are increasing numbers for one resource.
fn is_newer(one: &Value, than: &Value) -> bool {
    revision_of(one) > revision_of(than)
}

fn revision_of(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
