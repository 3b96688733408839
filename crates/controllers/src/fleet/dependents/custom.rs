//! Placed custom objects, whose dependents are the objects that they own and those that their annotation
//! `atoll.dev/needs` names.
//!
//! ```text
//!   definitions ─► a watch of each, where it is defined, of the metadata of placed objects ─► Cache
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use atoll_fleet::placement::is_never_placed;
use atoll_fleet::scheduled::INTENT_LABEL;
use atoll_informer::{
    ApiScope, Cache, CacheContents, DefinedResource, DefinedResources, DefinitionEvent, FollowedCache, Key,
    ListWatch, Queue, Resource, Scope, WATCH_LIMITS, list_and_watch, resources,
};
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::mpsc;

use super::owners::OwnedObjects;
use super::{enqueue_references, index_keys};
use crate::context::Context;

/// The least time between two looks at all definitions.
const PAUSE: Duration = Duration::from_millis(250);
/// Index of custom objects by what they need. They have no kind of their own here, because they refer to nothing else.
const INDEX: fn(&Value) -> Vec<String> = |object| index_keys("", object);

/// Caches of custom objects by where their kinds are defined.
#[derive(Default)]
pub struct CustomObjects {
    workspaces: RwLock<CustomCaches>,
}

#[derive(Default)]
struct CustomCaches {
    by_scope: HashMap<Scope, HashMap<Resource, (FollowedCache, usize)>>,
    /// Whether all definitions are known.
    is_listed: bool,
}

impl CustomCaches {
    /// The caches of the custom kinds that a workspace has: first its own, then those of the nearest workspace.
    fn of(&self, api: &ApiScope, workspace: &str) -> impl Iterator<Item = &(FollowedCache, usize)> {
        let above = api.ancestry(workspace).into_iter().map(|(id, _)| Scope::Below(id));
        let scopes = std::iter::once(Scope::Workspace(workspace.to_string())).chain(above);
        scopes.filter_map(|scope| self.by_scope.get(&scope)).flat_map(|caches| caches.values())
    }
}

impl CustomObjects {
    /// The caches of the custom kinds that a workspace has, with the numbers of their indexes.
    pub fn of(&self, api: &ApiScope, workspace: &str) -> Vec<(Arc<Cache>, usize)> {
        let workspaces = self.read();
        workspaces.of(api, workspace).map(|(followed, index)| (followed.cache.clone(), *index)).collect()
    }

    /// Whether all definitions are known, so that an object that is in no cache does not exist.
    pub fn is_listed(&self) -> bool {
        self.read().is_listed
    }

    /// Watches the kinds of all workspaces until it is dropped.
    pub async fn run(&self, context: &Context, queue: &Queue, owned: &Arc<OwnedObjects>) {
        let (sender, mut events) = mpsc::unbounded_channel();
        let definitions =
            list_and_watch(context.api(), ListWatch::all(&resources::CUSTOM_RESOURCE_DEFINITIONS), |event| {
                drop(sender.send(DefinitionEvent::of(event)))
            });
        let following = async {
            let mut defined = DefinedResources::default();
            while let Some(event) = events.recv().await {
                let mut is_listed = matches!(event, DefinitionEvent::Listed(_));
                defined.handle(event);
                tokio::time::sleep(PAUSE).await;
                while let Ok(event) = events.try_recv() {
                    is_listed |= matches!(event, DefinitionEvent::Listed(_));
                    defined.handle(event);
                }
                self.set_watches(context, queue, owned, &defined);
                self.write().is_listed |= is_listed;
            }
        };
        tokio::join!(definitions, following);
    }

    /// Starts the watches of the defined resources, and ends those of others.
    fn set_watches(
        &self,
        context: &Context,
        queue: &Queue,
        owned: &Arc<OwnedObjects>,
        defined: &DefinedResources,
    ) {
        let is_placeable =
            |resource: &Resource| resource.namespaced && !is_never_placed(&resource.group, &resource.plural);
        let tenant = |workspace: &str| context.api().tenant(workspace);
        let wanted = defined.to_watch(WATCH_LIMITS, is_placeable, |_| false, tenant).watched;
        let wanted: HashSet<DefinedResource> = wanted.into_iter().collect();
        let mut workspaces = self.write();
        for (scope, caches) in &mut workspaces.by_scope {
            caches.retain(|resource, (followed, _)| {
                let defined = DefinedResource { scope: scope.clone(), resource: resource.clone() };
                let is_kept = wanted.contains(&defined);
                if !is_kept {
                    followed.cache.remove_listeners();
                }
                is_kept
            });
        }
        workspaces.by_scope.retain(|_, caches| !caches.is_empty());
        for DefinedResource { scope, resource } in wanted {
            let caches = workspaces.by_scope.entry(scope.clone()).or_default();
            if caches.contains_key(&resource) {
                continue;
            }
            let contents = CacheContents {
                scope,
                labels: INTENT_LABEL.to_string(),
                metadata_only: true,
                by_discovery: true,
            };
            let followed = FollowedCache::new(context.api(), resource.clone(), contents);
            let index = followed.cache.index(INDEX);
            let (queue, owned) = (queue.clone(), owned.clone());
            followed.cache.listen(move |change| {
                enqueue_references("", change, &queue);
                owned.owner_changed(change, &queue);
            });
            caches.insert(resource, (followed, index));
        }
    }

    /// Objects of a namespace whose kinds are not in the caches yet, as lists.
    pub async fn list_missing(
        &self,
        context: &Context,
        workspace: &str,
        namespace: &str,
    ) -> Result<Vec<Value>, Status> {
        let mut all = Vec::new();
        for (cache, _) in
            self.of(context.api(), workspace).into_iter().filter(|(cache, _)| !cache.is_synced())
        {
            let resource = &cache.resource;
            match context.api().list(resource, workspace, namespace, true).await {
                // It is not served.
                Err(status) if status.code() == 404 => {}
                listed => all.extend(listed?),
            }
        }
        Ok(all)
    }

    /// The placed objects of a namespace that are in the caches.
    pub fn list(&self, api: &ApiScope, workspace: &str, namespace: &str) -> Vec<Arc<Value>> {
        let caches = self.of(api, workspace).into_iter();
        caches.flat_map(|(cache, _)| cache.list(workspace, namespace)).collect()
    }

    /// An object by its kind.
    pub fn get(&self, api: &ApiScope, (group, kind): (&str, &str), at: &Key) -> Option<Arc<Value>> {
        let is_of_kind = |resource: &Resource| resource.group == group && resource.kind == kind;
        let workspaces = self.read();
        workspaces
            .of(api, &at.workspace)
            .map(|(followed, _)| &followed.cache)
            .find(|cache| is_of_kind(&cache.resource))
            .and_then(|cache| cache.get(at))
    }

    fn read(&self) -> RwLockReadGuard<'_, CustomCaches> {
        self.workspaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CustomCaches> {
        self.workspaces.write().unwrap_or_else(PoisonError::into_inner)
    }
}
