//! The kinds that the scheduler places: workloads, all of which are in its caches, and all other placeable
//! kinds, of which its caches contain the objects that ask for clusters, are placed with an owner, or may be
//! named by a policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atoll_fleet::owners::MAX_OWNERS;
use atoll_informer::{Cache, Key, Scope};
use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::workloads;

/// Caches by number. The number of a kind is part of queue keys.
pub struct Kinds {
    /// Caches of workloads, in the order of [`workloads::kinds`].
    pub workloads: Vec<Arc<Cache>>,
    others: RwLock<OtherKinds>,
}

#[derive(Clone, Default)]
struct OtherKinds {
    /// Number of caches that have ever existed. A number is never used again.
    count: usize,
    caches: BTreeMap<usize, (Scope, Arc<Cache>)>,
    /// Numbers of the kinds that every workspace has.
    everywhere: BTreeSet<usize>,
    /// Numbers of the kinds that a workspace defines, by its id.
    of_workspaces: HashMap<String, BTreeSet<usize>>,
    /// Whether the kinds of all workspaces are known.
    is_complete: bool,
}

impl OtherKinds {
    /// The caches of the kinds that a workspace has.
    fn reaching(&self, workspace: &str) -> impl Iterator<Item = (usize, &Arc<Cache>)> {
        let own = self.of_workspaces.get(workspace).into_iter().flatten();
        let numbers = self.everywhere.iter().chain(own);
        numbers.filter_map(|number| self.caches.get(number).map(|(_, cache)| (*number, cache)))
    }
}

impl Kinds {
    pub fn new(workloads: Vec<Arc<Cache>>) -> Kinds {
        Kinds { workloads, others: RwLock::default() }
    }

    /// A copy whose caches no watch changes.
    pub fn detached_copy(&self) -> Kinds {
        let copy = |cache: &Arc<Cache>| Arc::new(cache.detached_copy());
        let mut others = self.read().clone();
        others.caches.values_mut().for_each(|(_, cache)| *cache = copy(cache));
        Kinds { workloads: self.workloads.iter().map(copy).collect(), others: RwLock::new(others) }
    }

    /// Adds the cache of a kind that is no workload, of all workspaces or of the one that defines it. Returns its
    /// number.
    pub fn insert(&self, scope: Scope, cache: Arc<Cache>) -> usize {
        let mut others = self.write();
        let number = self.workloads.len() + others.count;
        others.count += 1;
        match &scope {
            Scope::AllWorkspaces => others.everywhere.insert(number),
            Scope::Workspace(id) => others.of_workspaces.entry(id.clone()).or_default().insert(number),
        };
        others.caches.insert(number, (scope, cache));
        number
    }

    pub fn remove(&self, number: usize) {
        let mut others = self.write();
        others.everywhere.remove(&number);
        if let Some((Scope::Workspace(id), _)) = others.caches.remove(&number)
            && let Some(numbers) = others.of_workspaces.get_mut(&id)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                others.of_workspaces.remove(&id);
            }
        }
    }

    /// Records that the kinds of all workspaces are known.
    pub fn set_complete(&self) {
        self.write().is_complete = true;
    }

    pub fn get(&self, number: usize) -> Option<Arc<Cache>> {
        match self.workloads.get(number) {
            Some(cache) => Some(cache.clone()),
            None => self.read().caches.get(&number).map(|(_, cache)| cache.clone()),
        }
    }

    /// The cache of a queued object, with the key of the object.
    pub fn target(&self, key: &Key) -> Option<(Arc<Cache>, Key)> {
        let (number, at) = workloads::target(key)?;
        Some((self.get(number)?, at))
    }

    /// Whether a workspace defines the kind with this number.
    pub fn is_custom(&self, number: usize) -> bool {
        self.read().caches.get(&number).is_some_and(|(scope, _)| *scope != Scope::AllWorkspaces)
    }

    /// All caches with their numbers.
    pub fn all(&self) -> Vec<(usize, Arc<Cache>)> {
        let others = self.read();
        let others = others.caches.iter().map(|(number, (_, cache))| (*number, cache.clone()));
        self.workloads.iter().cloned().enumerate().chain(others).collect()
    }

    /// The caches of the kinds that a workspace has and that are no workloads, with their numbers.
    pub fn others_in(&self, workspace: &str) -> Vec<(usize, Arc<Cache>)> {
        self.read().reaching(workspace).map(|(number, cache)| (number, cache.clone())).collect()
    }

    /// The number of a kind in a workspace, by group and resource.
    pub fn position(&self, workspace: &str, (group, resource): (&str, &str)) -> Option<usize> {
        let is_it = |cache: &Cache| cache.resource.group == group && cache.resource.plural == resource;
        workloads::position(group, resource).or_else(|| {
            let others = self.read();
            others.reaching(workspace).find(|(_, cache)| is_it(cache)).map(|(number, _)| number)
        })
    }

    /// The cache of the kind of an owner, in a workspace.
    fn cache_of(&self, workspace: &str, owner: &OwnerReference<'_>) -> Option<Arc<Cache>> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let is_it = |cache: &&Arc<Cache>| cache.resource.group == group && cache.resource.kind == owner.kind;
        let workload = self.workloads.iter().find(is_it).cloned();
        workload.or_else(|| self.read().reaching(workspace).map(|(_, cache)| cache).find(is_it).cloned())
    }

    /// The owner of an object in its namespace, if it may be placed.
    pub fn owner(&self, of: &Key, owner: &OwnerReference<'_>) -> Option<Arc<Value>> {
        self.cache_of(&of.workspace, owner)?.get(&of.sibling(owner.name))
    }

    /// The resource and the key of an owner of an object in its namespace.
    pub fn owner_resource(&self, of: &Key, owner: &OwnerReference<'_>) -> Option<(Arc<Cache>, Key)> {
        Some((self.cache_of(&of.workspace, owner)?, of.sibling(owner.name)))
    }

    /// Whether all owners of an object that are placed are in the caches.
    pub fn knows_owners(&self, of: &Key, object: &Value) -> bool {
        let is_complete = self.read().is_complete;
        object::owner_references(object).take(MAX_OWNERS).all(|owner| {
            is_complete && self.cache_of(&of.workspace, &owner).is_none_or(|cache| cache.is_synced())
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, OtherKinds> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, OtherKinds> {
        self.others.write().unwrap_or_else(PoisonError::into_inner)
    }
}
