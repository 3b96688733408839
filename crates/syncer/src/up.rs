//! Watches placed objects in the cluster: one watch per resource, selected by the mark label.

use std::sync::Arc;

use atoll_fleet::{Locator, marks, view};
use atoll_informer::{Key, Look, Resource, Sight, World};
use atoll_meta::object;
use serde_json::Value;

use crate::core::Core;
use crate::flag::Flag;
use crate::mark::Mark;
use crate::table::{Follows, key_of};
use crate::unserved;

pub async fn follow(core: Arc<Core>, world: World, resource: view::Resource, listed: Arc<Flag>) {
    let Some(master) = core.control_plane() else { return };
    if !unserved::is_served(&core.below, &resource).await {
        // There is nothing to list, so work must not wait for it.
        listed.raise();
        unserved::until_served(&core.below, &core.settings, &resource).await;
    }
    let labels = format!("{}={}", marks::CONTROL_PLANE, master.control_plane);
    let looked_at = Resource {
        group: resource.group.clone().into(),
        version: resource.version.clone().into(),
        plural: resource.resource.clone().into(),
        kind: resource.kind.clone().into(),
        namespaced: resource.namespaced,
    };
    let look = Look::everywhere(&looked_at).labelled(&labels).discovered();
    atoll_informer::follow(&world, look, |sight| match sight {
        Sight::There(found) => {
            let Some(key) = place(&core, &resource, &found) else { return };
            let follows = core.table.saw(&key, &master.control_plane, &found);
            if follows != Follows::Nothing {
                core.tell(&key);
            }
            if follows == Follows::Work {
                core.queue.add(key);
            }
        }
        Sight::Gone(found) => {
            if let Some(key) = place(&core, &resource, &found)
                && core.table.lost(&key, object::uid(&found))
            {
                core.queue.add(key);
            }
        }
        Sight::All(present, revision) => {
            let (keys, is_missing) = core.table.retain(&resource, present, revision);
            // The server that responds now may be another cluster: verify that before anything is created
            // again.
            if is_missing {
                core.trust.doubt();
            }
            keys.into_iter().for_each(|key| core.queue.add(key));
            listed.raise();
        }
    })
    .await;
}

/// Returns the key of the object above; `None` if the object is not where the syncer would put it, such as a
/// copy with the same marks.
fn place(core: &Core, resource: &view::Resource, found: &Value) -> Option<Key> {
    let mark = Mark::of(found);
    let (namespace, name) = mark.origin();
    let is_there = match resource.namespaced {
        true => {
            let (control_plane, workspace) = (mark.control_plane.into(), mark.workspace.into());
            let locator = Locator { control_plane, workspace, namespace: namespace.into() };
            core.spaces.get(&locator).is_some_and(|place| place == object::namespace(found))
        }
        false => true,
    };
    (is_there && name == object::name(found)).then(|| key_of(resource, mark.workspace, namespace, name))
}
