//! The caches of a process: one for each resource, whoever asks.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::WatchEvent;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Cache, Key, Resource, World};

/// Objects for each page of a list.
const PAGE: usize = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// Ends with the last handle: what it has begun to watch is then watched no longer.
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

    /// All objects of a resource, watched from the first time that somebody asks for them.
    pub fn of(&self, resource: &Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cache, _)) = caches.get(resource) {
            return cache.clone();
        }
        let cache = Arc::new(Cache::new(resource.clone()));
        let following = tokio::spawn(follow(self.world.clone(), cache.clone())).abort_handle();
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

/// Lists, then watches from there, and begins again whenever the watch cannot go on.
async fn follow(world: World, cache: Arc<Cache>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match list(&world, &cache).await {
            Ok(revision) => {
                cache.is_synced();
                pause = FIRST_PAUSE;
                watch(&world, &cache, revision).await;
            }
            Err(status) => {
                tracing::warn!(%status, resource = %cache.resource.plural, "cannot be listed; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

/// Takes all there is and returns the revision at which it was.
async fn list(world: &World, cache: &Cache) -> Result<String, Status> {
    let path = world.everywhere(&cache.resource);
    let (mut token, mut present) = (String::new(), HashSet::new());
    loop {
        let page = world.client().get(&format!("{path}?limit={PAGE}&continue={token}")).await?;
        let Value::Object(mut page) = page else { return Err(Status::internal_error("no list")) };
        let metadata = page.remove("metadata").unwrap_or_default();
        if let Some(Value::Array(items)) = page.remove("items") {
            for item in items {
                present.insert(Key::of(&item));
                cache.store(item);
            }
        }
        token = metadata["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
            cache.retain(&present, revision.parse().unwrap_or(0));
            return Ok(revision.to_string());
        }
    }
}

/// Follows what happens after `revision`, through watches that end by themselves, until that cannot go on.
async fn watch(world: &World, cache: &Cache, mut revision: String) {
    let path = world.everywhere(&cache.resource);
    let mut pause = FIRST_PAUSE;
    loop {
        let asked = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
        let mut watch = match world.client().watch(&asked).await {
            Ok(watch) => watch,
            Err(status) if matches!(status.code(), 410 | 404) => return,
            Err(status) => {
                tracing::warn!(%status, resource = %cache.resource.plural, "cannot be watched; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
                continue;
            }
        };
        while let Some(event) = watch.next().await {
            pause = FIRST_PAUSE;
            let seen = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let seen = object::resource_version(&object).to_string();
                    cache.store(object);
                    seen
                }
                WatchEvent::Deleted(object) => {
                    cache.remove(&object);
                    object::resource_version(&object).to_string()
                }
                WatchEvent::Bookmark(object) => object::resource_version(&object).to_string(),
                // The past is gone, or something else is wrong with it.
                WatchEvent::Error(status) => {
                    tracing::debug!(%status, resource = %cache.resource.plural, "the watch ended");
                    return;
                }
            };
            if !seen.is_empty() {
                revision = seen;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}
