//! The informer caches of a process: one for each resource, shared by all controllers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Cache, Look, Resource, Sight, World, follow};

/// Starts caches on demand. Dropping it stops all watches.
pub struct Informers {
    world: World,
    caches: Mutex<HashMap<Resource, (Arc<Cache>, tokio::task::AbortHandle)>>,
}

impl Informers {
    pub fn new(world: World) -> Arc<Informers> {
        Arc::new(Informers { world, caches: Mutex::default() })
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the cache of a resource. The first call starts its watch.
    pub fn of(&self, resource: &Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cache, _)) = caches.get(resource) {
            return cache.clone();
        }
        let cache = Arc::new(Cache::new(resource.clone()));
        let following = tokio::spawn(keep(self.world.clone(), cache.clone())).abort_handle();
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

/// Keeps a cache up to date.
async fn keep(world: World, cache: Arc<Cache>) {
    follow(&world, Look::everywhere(&cache.resource), |sight| match sight {
        Sight::There(object) => cache.store(object),
        Sight::Gone(object) => cache.remove(&object),
        Sight::All(present, revision) => {
            cache.retain(present, revision);
            cache.is_synced();
        }
    })
    .await;
}
