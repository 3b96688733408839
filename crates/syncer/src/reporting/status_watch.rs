//! Watches placed objects in the cluster: one watch per resource, selected by the mark label.

use std::sync::Arc;

use atoll_fleet::{Locator, marks, view};
use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, Resource};
use atoll_meta::object;
use serde_json::Value;

use crate::latch::Latch;
use crate::objects::mark::Mark;
use crate::objects::table::{Effect, key_of};
use crate::objects::unserved;
use crate::syncer::Syncer;

pub async fn run(syncer: Arc<Syncer>, api: ApiScope, resource: view::SyncResource, listed: Arc<Latch>) {
    let Some(registration) = syncer.current_registration() else { return };
    if !unserved::is_served(&syncer.below, &resource).await {
        // There is nothing to list, so work must not wait for it.
        listed.set();
        unserved::until_served(&syncer.below, &syncer.settings, &resource).await;
    }
    let labels = format!("{}={}", marks::CONTROL_PLANE, registration.control_plane);
    let watched = Resource {
        group: resource.group.clone().into(),
        version: resource.version.clone().into(),
        plural: resource.resource.clone().into(),
        kind: resource.kind.clone().into(),
        namespaced: resource.namespaced,
    };
    let list_watch = ListWatch::all(&watched).label_selector(&labels).discovered();
    atoll_informer::list_and_watch(&api, list_watch, |event| match event {
        ListWatchEvent::Upserted(found) => {
            let Some(key) = key_for(&syncer, &resource, &found) else { return };
            let effect = syncer.table.observe(&key, &registration.control_plane, &found);
            if effect != Effect::None {
                syncer.report(&key);
            }
            if effect == Effect::Reconcile {
                syncer.queue.add(key);
            }
        }
        ListWatchEvent::Deleted(found) => {
            if let Some(key) = key_for(&syncer, &resource, &found)
                && syncer.table.record_deleted(&key, object::uid(&found))
            {
                syncer.queue.add(key);
            }
        }
        ListWatchEvent::Listed(present, revision) => {
            let (keys, is_missing) = syncer.table.retain(&resource, present, revision);
            // The server that responds now may be another cluster: verify that before anything is created
            // again.
            if is_missing {
                syncer.gate.suspend();
            }
            keys.into_iter().for_each(|key| syncer.queue.add(key));
            listed.set();
        }
    })
    .await;
}

/// Returns the key of the object above; `None` if the object is not where the syncer would put it, such as a
/// copy with the same marks.
fn key_for(syncer: &Syncer, resource: &view::SyncResource, found: &Value) -> Option<Key> {
    let mark = Mark::of(found);
    let (namespace, name) = mark.origin();
    let is_there = match resource.namespaced {
        true => {
            let (control_plane, workspace) = (mark.control_plane.into(), mark.workspace.into());
            let locator = Locator { control_plane, workspace, namespace: namespace.into() };
            syncer.namespaces.get(&locator).is_some_and(|place| place == object::namespace(found))
        }
        false => true,
    };
    (is_there && name == object::name(found)).then(|| key_of(resource, mark.workspace, namespace, name))
}
