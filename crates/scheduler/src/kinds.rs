//! The kinds that the scheduler places: workloads, all of which it knows, and every other kind that can be placed,
//! of which it knows the objects that ask for clusters or that a policy may name.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atoll_informer::{Cache, Key, Scope};

use crate::workloads;

/// Caches by number. The number of a kind is part of queue keys.
pub struct Kinds {
    /// Caches of workloads, in the order of [`workloads::kinds`].
    pub workloads: Vec<Arc<Cache>>,
    others: RwLock<Others>,
}

#[derive(Clone, Default)]
struct Others {
    /// Number of caches that there ever were. A number is never used again.
    count: usize,
    caches: BTreeMap<usize, (Scope, Arc<Cache>)>,
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
        others.caches.insert(number, (scope, cache));
        number
    }

    pub fn remove(&self, number: usize) {
        self.write().caches.remove(&number);
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

    /// All caches with their numbers.
    pub fn all(&self) -> Vec<(usize, Arc<Cache>)> {
        let others = self.read();
        let others = others.caches.iter().map(|(number, (_, cache))| (*number, cache.clone()));
        self.workloads.iter().cloned().enumerate().chain(others).collect()
    }

    /// The number of a kind in a workspace, by group and resource.
    pub fn position(&self, workspace: &str, (group, resource): (&str, &str)) -> Option<usize> {
        let serves = |scope: &Scope| match scope {
            Scope::AllWorkspaces => true,
            Scope::Workspace(id) => id == workspace,
        };
        let is_it = |cache: &Cache| cache.resource.group == group && cache.resource.plural == resource;
        workloads::position(group, resource).or_else(|| {
            let others = self.read();
            let mut others = others.caches.iter();
            others.find(|(_, (scope, cache))| serves(scope) && is_it(cache)).map(|(number, _)| *number)
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Others> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Others> {
        self.others.write().unwrap_or_else(PoisonError::into_inner)
    }
}
