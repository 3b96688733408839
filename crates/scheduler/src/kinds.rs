//! The kinds that the scheduler places: workloads, all of which are in its caches, and all other placeable
//! kinds, of which its caches contain the objects that ask for clusters, are placed with an owner, or may be
//! named by a policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atoll_fleet::owners::MAX_OWNERS;
use atoll_informer::{ApiScope, Cache, Key, Scope};
use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::workloads;

/// Caches by number. The number of a kind is part of queue keys.
pub struct Kinds {
    /// Caches of workloads, in the order of [`workloads::kinds`].
    pub workloads: Vec<Arc<Cache>>,
    others: RwLock<OtherKinds>,
    /// Knows the workspaces above others.
    api: ApiScope,
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
    /// Numbers of the kinds that a workspace gives to itself and to those below it, by its id.
    given: HashMap<String, BTreeSet<usize>>,
    /// Whether the kinds of all workspaces are known.
    is_complete: bool,
}

impl OtherKinds {
    /// The caches of the kinds that a workspace has. Of several kinds of the same name, the one that it uses comes first:
    /// its own, or that of the nearest workspace that gives one.
    fn reaching(&self, api: &ApiScope, workspace: &str) -> impl Iterator<Item = (usize, &Arc<Cache>)> {
        let own = self.of_workspaces.get(workspace).into_iter().flatten();
        let line = if self.given.is_empty() { Vec::new() } else { api.ancestry(workspace) };
        let given: Vec<&BTreeSet<usize>> = line.iter().filter_map(|(id, _)| self.given.get(id)).collect();
        let numbers = self.everywhere.iter().chain(own).chain(given.into_iter().flatten());
        numbers.filter_map(|number| self.caches.get(number).map(|(_, cache)| (*number, cache)))
    }

    /// The numbers of the kinds of a workspace that defines them or gives them to those below it.
    fn of_scope(&mut self, scope: &Scope) -> Option<(&mut HashMap<String, BTreeSet<usize>>, String)> {
        match scope {
            Scope::AllWorkspaces => None,
            Scope::Workspace(id) => Some((&mut self.of_workspaces, id.clone())),
            Scope::Below(id) => Some((&mut self.given, id.clone())),
        }
    }
}

impl Kinds {
    pub fn new(workloads: Vec<Arc<Cache>>, api: ApiScope) -> Kinds {
        Kinds { workloads, others: RwLock::default(), api }
    }

    /// A copy whose caches no watch changes.
    pub fn detached_copy(&self) -> Kinds {
        let copy = |cache: &Arc<Cache>| Arc::new(cache.detached_copy());
        let mut others = self.read().clone();
        others.caches.values_mut().for_each(|(_, cache)| *cache = copy(cache));
        let workloads = self.workloads.iter().map(copy).collect();
        Kinds { workloads, others: RwLock::new(others), api: self.api.clone() }
    }

    /// Adds the cache of a kind that is no workload, of all workspaces or of those with its definition. Returns its
    /// number.
    pub fn insert(&self, scope: Scope, cache: Arc<Cache>) -> usize {
        let mut others = self.write();
        let number = self.workloads.len() + others.count;
        others.count += 1;
        match others.of_scope(&scope) {
            None => others.everywhere.insert(number),
            Some((by_workspace, id)) => by_workspace.entry(id).or_default().insert(number),
        };
        others.caches.insert(number, (scope, cache));
        number
    }

    pub fn remove(&self, number: usize) {
        let mut others = self.write();
        others.everywhere.remove(&number);
        if let Some((scope, _)) = others.caches.remove(&number)
            && let Some((by_workspace, id)) = others.of_scope(&scope)
            && let Some(numbers) = by_workspace.get_mut(&id)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                by_workspace.remove(&id);
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

    /// Whether workspaces have the kind with this number from a cluster.
    pub fn is_imported(&self, number: usize) -> bool {
        self.read().caches.get(&number).is_some_and(|(scope, _)| matches!(scope, Scope::Below(_)))
    }

    /// Whether objects of the kind of an owner are placed without any intent, in a workspace.
    pub fn is_placed_by_default(&self, workspace: &str, owner: &OwnerReference<'_>) -> bool {
        let Some(cache) = self.cache_of(workspace, owner) else { return false };
        let resource = (&*cache.resource.group, &*cache.resource.plural);
        self.position(workspace, resource).is_some_and(|it| it < self.workloads.len() || self.is_imported(it))
    }

    /// All caches with their numbers.
    pub fn all(&self) -> Vec<(usize, Arc<Cache>)> {
        let others = self.read();
        let others = others.caches.iter().map(|(number, (_, cache))| (*number, cache.clone()));
        self.workloads.iter().cloned().enumerate().chain(others).collect()
    }

    /// The caches of the kinds that a workspace has and that are no workloads, with their numbers.
    pub fn others_in(&self, workspace: &str) -> Vec<(usize, Arc<Cache>)> {
        self.read().reaching(&self.api, workspace).map(|(number, cache)| (number, cache.clone())).collect()
    }

    /// The number of a kind in a workspace, by group and resource.
    pub fn position(&self, workspace: &str, (group, resource): (&str, &str)) -> Option<usize> {
        let is_it = |cache: &Cache| cache.resource.group == group && cache.resource.plural == resource;
        workloads::position(group, resource).or_else(|| {
            let others = self.read();
            others.reaching(&self.api, workspace).find(|(_, cache)| is_it(cache)).map(|(number, _)| number)
        })
    }

    /// The cache of the kind of an owner, in a workspace.
    fn cache_of(&self, workspace: &str, owner: &OwnerReference<'_>) -> Option<Arc<Cache>> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let is_it = |cache: &&Arc<Cache>| cache.resource.group == group && cache.resource.kind == owner.kind;
        let workload = self.workloads.iter().find(is_it).cloned();
        workload.or_else(|| {
            let others = self.read();
            others.reaching(&self.api, workspace).map(|(_, cache)| cache).find(is_it).cloned()
        })
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
