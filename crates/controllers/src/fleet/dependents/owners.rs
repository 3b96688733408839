//! Owned objects: a ConfigMap, Secret, ServiceAccount or volume claim is placed with the placed object that owns it.

use std::sync::Arc;

use atoll_fleet::marks::PLACEMENT;
use atoll_fleet::references::RESOURCES;
use atoll_fleet::scheduled::OWNED_LABEL;
use atoll_informer::{CacheContents, Change, FollowedCache, Key, Queue, Resource};
use atoll_meta::object;
use serde_json::Value;

use super::{dependent_resource, queue_key, reference_key};
use crate::context::Context;

/// The dependents that have an owner.
pub struct OwnedObjects {
    caches: Vec<FollowedCache>,
}

impl OwnedObjects {
    /// Starts the watches of all owned objects that may be dependents.
    pub fn new(context: &Context, queue: &Queue) -> OwnedObjects {
        let contents = CacheContents {
            labels: OWNED_LABEL.to_string(),
            metadata_only: true,
            ..CacheContents::default()
        };
        let resources = RESOURCES.iter().filter_map(|plural| dependent_resource(plural));
        let follow =
            |resource: &Resource| FollowedCache::new(context.api(), resource.clone(), contents.clone());
        let caches: Vec<FollowedCache> = resources.map(follow).collect();
        for followed in &caches {
            let (queue, plural) = (queue.clone(), followed.cache.resource.plural.clone());
            followed.cache.listen(move |change| {
                let at = &change.key;
                queue.add(queue_key(&at.workspace, &reference_key(&plural, &at.namespace, &at.name)));
            });
        }
        OwnedObjects { caches }
    }

    /// Adds the objects that a changed object owns, if its clusters have changed.
    pub fn owner_changed(&self, change: &Change, queue: &Queue) {
        // Most changes are those of a status. The text is compared, because it costs less than reading it.
        let text = |object: &Option<Arc<Value>>| {
            let object = object.as_deref().filter(|object| !object::is_being_deleted(object))?;
            Some(object::annotation(object, PLACEMENT)?.to_string())
        };
        if text(&change.old) == text(&change.new) {
            return;
        }
        let uid = object::uid(change.object());
        for followed in &self.caches {
            for owned in followed.cache.owned_by(&change.key, uid) {
                let (at, plural) = (Key::of(&owned), &followed.cache.resource.plural);
                queue.add(queue_key(&at.workspace, &reference_key(plural, &at.namespace, &at.name)));
            }
        }
    }
}
