//! The informer caches of a process: one for each resource, shared by all controllers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache_updates::{CacheContents, follow};
use crate::{ApiScope, Cache, Resource};

/// Starts caches on demand. Dropping it stops all watches.
pub struct Informers {
    api: ApiScope,
    caches: Mutex<HashMap<Resource, (Arc<Cache>, tokio::task::AbortHandle)>>,
}

impl Informers {
    pub fn new(api: ApiScope) -> Arc<Informers> {
        Arc::new(Informers { api, caches: Mutex::default() })
    }

    pub fn api(&self) -> &ApiScope {
        &self.api
    }

    /// Returns the cache of a resource. The first call starts its watch.
    pub fn of(&self, resource: &Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cache, _)) = caches.get(resource) {
            return cache.clone();
        }
        let cache = Arc::new(Cache::new(resource.clone()));
        let following =
            tokio::spawn(follow(self.api.clone(), cache.clone(), CacheContents::default())).abort_handle();
        caches.insert(resource.clone(), (cache.clone(), following));
        cache
    }
}

impl Drop for Informers {
    fn drop(&mut self) {
        let caches = self.caches.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, following) in caches.values() {
            following.abort();
        }
    }
}
