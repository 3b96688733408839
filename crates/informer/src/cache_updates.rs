//! Keeps caches up to date: those that controllers share, and those of one controller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::{ApiScope, Cache, ListWatch, ListWatchEvent, Resource, Scope, WORKSPACE, list_and_watch};

/// The objects of a resource that a cache contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheContents {
    pub scope: Scope,
    /// Label selector; empty for all objects.
    pub labels: String,
    pub metadata_only: bool,
    /// Whether the resource was found through discovery, and may disappear again.
    pub by_discovery: bool,
}

impl Default for CacheContents {
    fn default() -> Self {
        CacheContents {
            scope: Scope::AllWorkspaces,
            labels: String::new(),
            metadata_only: false,
            by_discovery: false,
        }
    }
}

/// A cache that belongs to one controller. Its watch ends when this is dropped.
pub struct FollowedCache {
    pub cache: Arc<Cache>,
    contents: CacheContents,
    following: AbortHandle,
}

impl FollowedCache {
    pub fn new(api: &ApiScope, resource: Resource, contents: CacheContents) -> FollowedCache {
        let cache = Arc::new(Cache::partial(resource));
        let following = tokio::spawn(follow(api.clone(), cache.clone(), contents.clone())).abort_handle();
        FollowedCache { cache, contents, following }
    }

    pub fn contents(&self) -> &CacheContents {
        &self.contents
    }

    /// Changes what the cache contains. It lists again, and then forgets what it no longer contains.
    pub fn set_contents(&mut self, api: &ApiScope, contents: CacheContents) {
        if self.contents != contents {
            *self = FollowedCache {
                following: tokio::spawn(follow(api.clone(), self.cache.clone(), contents.clone()))
                    .abort_handle(),
                cache: self.cache.clone(),
                contents,
            };
        }
    }
}

impl Drop for FollowedCache {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Keeps a cache up to date.
pub async fn follow(api: ApiScope, cache: Arc<Cache>, contents: CacheContents) {
    let CacheContents { scope, labels, metadata_only, by_discovery } = &contents;
    let list_watch = ListWatch {
        scope,
        labels,
        metadata_only: *metadata_only,
        by_discovery: *by_discovery,
        ..ListWatch::all(&cache.resource)
    };
    // Objects in lists of one workspace do not name it.
    let named = |mut object: Value| {
        if let Scope::Workspace(id) = scope
            && api.has_workspaces()
        {
            object::set_annotation(&mut object, WORKSPACE, id);
        }
        object
    };
    list_and_watch(&api, list_watch, |event| {
        let show = || match event {
            ListWatchEvent::Upserted(object) => cache.store(named(object)),
            ListWatchEvent::Deleted(object) => cache.remove(&named(object)),
            ListWatchEvent::Listed(present, revision) => {
                cache.retain(present, revision);
                cache.set_synced();
            }
        };
        // An index that panics because of an object must not end the watch of all others.
        if catch_unwind(AssertUnwindSafe(show)).is_err() {
            tracing::error!(resource = %cache.resource.plural, "an object cannot be stored in the cache, because an index of the cache panicked");
        }
    })
    .await;
}
