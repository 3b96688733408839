//! Objects of kinds that are no workloads: they are placed where their annotation or a policy says so, and stay in
//! the control plane otherwise.
//!
//! ```text
//!   discovery ─────────────► a watch of each resource, in all workspaces ─┐
//!   definitions ───────────► a watch of each, in its workspace ───────────┼─► Cache ─► Kinds, Queue
//!   a policy names a kind ─► the same watch, of all objects of the kind ──┘
//! ```
//!
//! An annotation cannot be selected, so the server adds a label for the watches that is not in the objects
//! ([`INTENT_LABEL`]). Without an intent or a policy, an object costs nothing here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::is_never_placed;
use atoll_fleet::scheduled::INTENT_LABEL;
use atoll_informer::{
    CacheContents, DefinedResources, DefinitionEvent, FollowedCache, Key, ListWatch, Resource, Scope,
    discover_built_in, list_and_watch, resources,
};
use tokio::sync::mpsc;

use crate::{Scheduler, changes, workloads};

/// Delay before a failed discovery is retried.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);
/// The least time between two looks at all definitions and policies.
const PAUSE: Duration = Duration::from_millis(250);
/// Resources with fields that decide which clusters can take an object. Of others only the metadata is watched.
const WITH_CLASSES: [(&str, &str); 2] = [("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")];

/// Running watches, with the numbers of their kinds.
type Watches = HashMap<(Scope, Resource), (usize, FollowedCache)>;

/// Watches the objects until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>) {
    let built_in = loop {
        match discover_built_in(&scheduler.api).await {
            Ok(found) => break found,
            Err(status) => {
                tracing::warn!(%status, "the resources of the root workspace cannot be discovered; retrying");
                tokio::time::sleep(DISCOVERY_DELAY).await;
            }
        }
    };
    let built_in: Vec<Resource> = built_in.into_iter().filter(is_placeable).collect();
    let (sender, events) = mpsc::unbounded_channel();
    let definitions =
        list_and_watch(&scheduler.api, ListWatch::all(&resources::CUSTOM_RESOURCE_DEFINITIONS), |event| {
            drop(sender.send(DefinitionEvent::of(event)))
        });
    tokio::join!(definitions, keep_watches(&scheduler, built_in, events));
}

async fn keep_watches(
    scheduler: &Arc<Scheduler>,
    built_in: Vec<Resource>,
    mut events: mpsc::UnboundedReceiver<DefinitionEvent>,
) {
    let (mut defined, mut watches) = (DefinedResources::default(), Watches::new());
    loop {
        set_watches(scheduler, &built_in, &defined, &mut watches);
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => defined.handle(event),
                None => return,
            },
            () = scheduler.policies.kinds_changed.notified() => {}
        }
        tokio::time::sleep(PAUSE).await;
        while let Ok(event) = events.try_recv() {
            defined.handle(event);
        }
    }
}

fn is_placeable(resource: &Resource) -> bool {
    let names = (&*resource.group, &*resource.plural);
    !is_workload(names) && !is_never_placed(names.0, names.1)
}

/// Starts the watches of these resources, and ends those of resources that are not defined any more.
fn set_watches(
    scheduler: &Arc<Scheduler>,
    built_in: &[Resource],
    defined: &DefinedResources,
    watches: &mut Watches,
) {
    let named = scheduler.policies.named_kinds();
    let everywhere = built_in.iter().map(|resource| (Scope::AllWorkspaces, resource.clone()));
    let own = defined.all().filter(|(_, resource)| is_placeable(resource));
    let own = own.map(|(key, resource)| (Scope::Workspace(key.workspace.to_string()), resource.clone()));
    let wanted: HashSet<(Scope, Resource)> = everywhere.chain(own).collect();
    let gone: Vec<(Scope, Resource)> = watches.keys().filter(|one| !wanted.contains(*one)).cloned().collect();
    for one in gone {
        if let Some((number, followed)) = watches.remove(&one) {
            forget(scheduler, number, followed);
        }
    }
    for (scope, resource) in wanted {
        let reaches = |workspace: &str| match &scope {
            Scope::AllWorkspaces => true,
            Scope::Workspace(id) => scheduler.is_below(id, workspace),
        };
        let is_named = named.iter().any(|one| one.names(&resource) && reaches(&one.workspace));
        let contents = CacheContents {
            labels: if is_named { String::new() } else { INTENT_LABEL.to_string() },
            metadata_only: !WITH_CLASSES.contains(&(&*resource.group, &*resource.plural)),
            by_discovery: scope != Scope::AllWorkspaces,
            scope: scope.clone(),
        };
        match watches.get_mut(&(scope.clone(), resource.clone())) {
            // A kind that a policy has named once is watched whole from then on: policies may come and go often.
            Some((_, followed)) if is_named => followed.set_contents(&scheduler.api, contents),
            Some(_) => {}
            None => {
                let followed = FollowedCache::new(&scheduler.api, resource.clone(), contents);
                let number = scheduler.kinds.insert(scope.clone(), followed.cache.clone());
                let follower = scheduler.clone();
                followed.cache.listen(move |change| changes::workload_changed(&follower, number, change));
                watches.insert((scope, resource), (number, followed));
            }
        }
    }
}

/// Forgets the objects of a resource that is not defined any more.
fn forget(scheduler: &Scheduler, number: usize, followed: FollowedCache) {
    scheduler.kinds.remove(number);
    // The listener refers to the scheduler.
    followed.cache.remove_listeners();
    for object in followed.cache.all() {
        let key = workloads::queue_key(number, &Key::of(&object));
        scheduler.changes.object(key.clone());
        scheduler.queue.add(key);
    }
}
