//! All objects of one resource, as the API last showed them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atoll_meta::object;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Key, Resource};

/// What somebody wants to look objects up by: the words under which an object is to be found.
pub type Index = fn(&Value) -> Vec<String>;

/// An object has come, changed or gone. Never both `None`.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

impl Change {
    /// The object, or what it was before it went.
    pub fn object(&self) -> &Arc<Value> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an object")
    }
}

/// Objects that are remembered to be gone, lest an answer that is late brings one of them back.
const REMEMBERED: usize = 4096;

type Listener = Box<dyn Fn(&Change) + Send + Sync>;

pub struct Cache {
    pub resource: Resource,
    state: RwLock<State>,
    /// Held while the state changes and while listeners hear of it, so that all hear all changes in order.
    listeners: Mutex<Vec<Listener>>,
    synced: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    /// By the uid of whom they belong to.
    owned: HashMap<String, BTreeSet<Key>>,
    indices: Vec<(Index, HashMap<String, BTreeSet<Key>>)>,
    /// Uids of objects whose deletion was asked for and is not seen yet.
    doomed: HashSet<String>,
    /// Uids of the last objects that went.
    gone: HashSet<String>,
    /// The same in the order in which they went.
    graves: VecDeque<String>,
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

    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.read().objects.get(key).cloned()
    }

    /// What is in a namespace; an empty one for all of the workspace. In the order of names.
    pub fn list(&self, workspace: &str, namespace: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let from = Key::new(workspace, namespace, "");
        let inside = |key: &Key| {
            *key.workspace == *workspace && (namespace.is_empty() || *key.namespace == *namespace)
        };
        let range = state.objects.range((Bound::Included(from), Bound::Unbounded));
        range.take_while(|(key, _)| inside(key)).map(|(_, object)| object.clone()).collect()
    }

    /// Everything, of all workspaces.
    pub fn all(&self) -> Vec<Arc<Value>> {
        self.read().objects.values().cloned().collect()
    }

    /// Objects that name `uid` as an owner, in the workspace and the namespace of `owner`. Those of others do not belong to it:
    /// anybody can write any uid into a reference.
    pub fn owned_by(&self, owner: &Key, uid: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let keys = state.owned.get(uid).into_iter().flatten();
        let keys = keys.filter(|key| key.workspace == owner.workspace && key.namespace == owner.namespace);
        keys.filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// Adds a way to look objects up. Asked for again, it is the same one.
    pub fn index(&self, index: Index) -> usize {
        let mut state = self.write();
        if let Some(known) = state.indices.iter().position(|(known, _)| std::ptr::fn_addr_eq(*known, index)) {
            return known;
        }
        let mut found: HashMap<String, BTreeSet<Key>> = HashMap::new();
        for (key, object) in &state.objects {
            for word in index(object) {
                found.entry(word).or_default().insert(key.clone());
            }
        }
        state.indices.push((index, found));
        state.indices.len() - 1
    }

    /// Objects that are found under `word` in an index.
    pub fn found(&self, index: usize, word: &str) -> Vec<Arc<Value>> {
        let state = self.read();
        let keys = state.indices.get(index).and_then(|(_, found)| found.get(word)).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells `listener` of what is there already and of every change from then on. It must be quick, and may read the
    /// cache but not change it.
    pub fn listen(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let mut listeners = self.listeners();
        for (key, object) in self.read().objects.clone() {
            listener(&Change { key, old: None, new: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    /// Returns when everything that was there at the beginning has been seen.
    pub async fn synced(&self) {
        // Fails only when the cache is gone, and then nobody asks.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Takes the answer to a write, which the watch will tell of later.
    pub fn wrote(&self, object: &Value) {
        self.store(object.clone());
    }

    /// Takes notice that an object's deletion was asked for and granted: it is being deleted from now on, whatever
    /// news about its past are still under way.
    pub fn deleting(&self, key: &Key, uid: &str) {
        let listeners = self.listeners();
        let mut state = self.write();
        let Some(old) = state.objects.get(key).filter(|object| object::uid(object) == uid).cloned() else {
            return;
        };
        state.doomed.insert(uid.into());
        if object::is_being_deleted(&old) {
            return;
        }
        let new = Arc::new(doomed(old.as_ref().clone()));
        state.objects.insert(key.clone(), new.clone());
        drop(state);
        tell(&listeners, &Change { key: key.clone(), old: Some(old), new: Some(new) });
    }

    /// Takes an object as the API shows it, unless something newer is known.
    pub(crate) fn store(&self, mut object: Value) {
        let listeners = self.listeners();
        let mut state = self.write();
        let key = Key::of(&object);
        let old = state.objects.get(&key).cloned();
        let is_old = old.as_ref().is_some_and(|old| !is_newer(&object, old));
        if is_old || state.gone.contains(object::uid(&object)) {
            return;
        }
        // Who manages which field takes half of an object's space, and no controller asks.
        object::remove_metadata(&mut object, "managedFields");
        if state.doomed.contains(object::uid(&object)) && !object::is_being_deleted(&object) {
            object = doomed(object);
        }
        let new = Arc::new(object);
        state.replace(&key, old.as_deref(), Some(&new));
        drop(state);
        tell(&listeners, &Change { key, old, new: Some(new) });
    }

    /// The object is gone, as of its last revision.
    pub(crate) fn remove(&self, object: &Value) {
        let listeners = self.listeners();
        let mut state = self.write();
        let key = Key::of(object);
        let Some(old) = state.objects.get(&key).cloned() else { return };
        // One of the same name has been made since.
        if object::uid(&old) != object::uid(object) && is_newer(&old, object) {
            return;
        }
        state.replace(&key, Some(&old), None);
        drop(state);
        tell(&listeners, &Change { key, old: Some(old), new: None });
    }

    /// Only what has a uid in `present` is left, and what is newer than `revision`: it was written since.
    pub(crate) fn retain(&self, present: &HashSet<String>, revision: u64) {
        let listeners = self.listeners();
        let mut state = self.write();
        let gone: Vec<(Key, Arc<Value>)> = state
            .objects
            .iter()
            .filter(|(_, object)| !present.contains(object::uid(object)) && revision_of(object) <= revision)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, old) in &gone {
            state.replace(key, Some(old), None);
        }
        drop(state);
        for (key, old) in gone {
            tell(&listeners, &Change { key, old: Some(old), new: None });
        }
    }

    pub(crate) fn is_synced(&self) {
        self.synced.send_replace(true);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn replace(&mut self, key: &Key, old: Option<&Value>, new: Option<&Arc<Value>>) {
        if let Some(old) = old {
            for owner in object::owner_references(old) {
                forget(&mut self.owned, owner.uid, key);
            }
            for (index, found) in &mut self.indices {
                for word in index(old) {
                    forget(found, &word, key);
                }
            }
        }
        let Some(new) = new else {
            if let Some(old) = old {
                self.bury(object::uid(old));
            }
            self.objects.remove(key);
            return;
        };
        for owner in object::owner_references(new) {
            self.owned.entry(owner.uid.into()).or_default().insert(key.clone());
        }
        for (index, found) in &mut self.indices {
            for word in index(new) {
                found.entry(word).or_default().insert(key.clone());
            }
        }
        self.objects.insert(key.clone(), new.clone());
    }

    fn bury(&mut self, uid: &str) {
        self.doomed.remove(uid);
        if self.gone.insert(uid.into()) {
            self.graves.push_back(uid.into());
        }
        if self.graves.len() > REMEMBERED
            && let Some(oldest) = self.graves.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }
}

fn forget(found: &mut HashMap<String, BTreeSet<Key>>, word: &str, key: &Key) {
    if let Some(keys) = found.get_mut(word) {
        keys.remove(key);
        if keys.is_empty() {
            found.remove(word);
        }
    }
}

fn tell(listeners: &[Listener], change: &Change) {
    for listener in listeners {
        listener(change);
    }
}

/// The object with the mark of one that is being deleted. When that began nobody has said yet.
fn doomed(mut object: Value) -> Value {
    let since = object::creation_timestamp(&object).unwrap_or_default().to_string();
    object::set_deletion_timestamp(&mut object, &since);
    object
}

/// Revisions of one resource are numbers that grow.
fn is_newer(one: &Value, than: &Value) -> bool {
    revision_of(one) > revision_of(than)
}

fn revision_of(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
