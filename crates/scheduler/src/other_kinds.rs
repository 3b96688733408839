//! Objects of kinds other than workloads: they are placed by their annotation, by a policy or with their
//! owners, and stay in the control plane otherwise. Those of kinds that workspaces have from clusters are placed without
//! any of these, too.
//!
//! ```text
//!   discovery ─────────────► a watch of each resource, in all workspaces ──────────┐
//!   definitions ───────────► a watch of each, in its workspace ────────────────────┼─► Cache ─► Kinds, Queue
//!   imported definitions ──► a watch of each, in its workspace and those below it ─┤
//!   a policy names a kind ─► the same watch, of all objects of the kind ───────────┘
//! ```
//!
//! Selectors cannot match annotations, so the server adds a label that exists for watches only
//! ([`INTENT_LABEL`]). An object without an intent, an owner or a policy costs nothing here, unless its kind is imported.
//!
//! A tenant may define any number of kinds, so the number of watches is limited ([`WATCH_LIMITS`]); an event of a
//! definition that is left out says so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::is_never_placed;
use atoll_fleet::scheduled::INTENT_LABEL;
use atoll_informer::{
    CacheContents, DefinedResource, DefinedResources, DefinitionEvent, FollowedCache, Key, LeftOut,
    ListWatch, Resource, Scope, WATCH_LIMITS, WORKSPACE, discover_built_in, list_and_watch, resources,
};
use atoll_placement::policy::ANY_CUSTOM_KIND;
use serde_json::json;
use tokio::sync::mpsc;

use crate::policies::NamedKind;
use crate::selected::Selected;
use crate::{Scheduler, changes, workloads};

/// Delay before a failed discovery is retried.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);
/// The least time between two scans of all definitions and policies.
const PAUSE: Duration = Duration::from_millis(250);
/// Resources with fields that decide which clusters can take an object. Of others only the metadata is watched.
const WITH_CLASSES: [(&str, &str); 2] = [("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")];

/// The reason of the event about a definition whose objects are not watched.
const NOT_WATCHED: &str = "NotWatched";
/// Most definitions of a workspace that get such an event.
const MAX_EVENTS: usize = 8;

/// The watches of all kinds.
#[derive(Default)]
struct Watches {
    /// Running watches, with the numbers of their kinds.
    running: HashMap<(Scope, Resource), (usize, FollowedCache)>,
    /// Definitions beyond the limit for which an event was written.
    reported: BTreeSet<Key>,
    /// Number of definitions that are left out, by workspace.
    left_out: HashMap<Arc<str>, usize>,
}

/// Watches the objects until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>, selected: Arc<Selected>) {
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
    tokio::join!(definitions, keep_watches(&scheduler, &selected, built_in, events));
}

async fn keep_watches(
    scheduler: &Arc<Scheduler>,
    selected: &Arc<Selected>,
    built_in: Vec<Resource>,
    mut events: mpsc::UnboundedReceiver<DefinitionEvent>,
) {
    let (mut defined, mut watches, mut is_complete) =
        (DefinedResources::default(), Watches::default(), false);
    loop {
        set_watches(scheduler, selected, &built_in, &defined, &mut watches);
        if is_complete {
            scheduler.kinds.set_complete();
        }
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => {
                    is_complete |= matches!(event, DefinitionEvent::Listed(_));
                    defined.handle(event);
                }
                None => return,
            },
            () = scheduler.policies.kinds_changed.notified() => {}
        }
        tokio::time::sleep(PAUSE).await;
        while let Ok(event) = events.try_recv() {
            is_complete |= matches!(event, DefinitionEvent::Listed(_));
            defined.handle(event);
        }
    }
}

/// Whether a policy names a kind that a workspace has.
fn is_named(scheduler: &Scheduler, named: &HashSet<NamedKind>, scope: &Scope, resource: &Resource) -> bool {
    let reaches = |workspace: &str| match scope {
        Scope::AllWorkspaces => true,
        Scope::Workspace(id) => scheduler.is_below(id, workspace),
        Scope::Below(id) => scheduler.is_below(id, workspace) || scheduler.is_below(workspace, id),
    };
    let is_custom = *scope != Scope::AllWorkspaces;
    named.iter().any(|one| one.names(resource, is_custom) && reaches(&one.workspace))
}

fn is_placeable(resource: &Resource) -> bool {
    let names = (&*resource.group, &*resource.plural);
    !is_workload(names) && !is_never_placed(names.0, names.1)
}

/// Starts the watches of these resources, and ends those of resources that are not defined any more.
fn set_watches(
    scheduler: &Arc<Scheduler>,
    selected: &Arc<Selected>,
    built_in: &[Resource],
    defined: &DefinedResources,
    watches: &mut Watches,
) {
    let named = scheduler.policies.named_kinds();
    let everywhere = built_in.iter().map(|resource| (Scope::AllWorkspaces, resource.clone()));
    // Kinds that a policy names explicitly come before all others.
    let by_name: HashSet<NamedKind> =
        named.iter().filter(|one| one.kind != ANY_CUSTOM_KIND).cloned().collect();
    let is_first =
        |defined: &DefinedResource| is_named(scheduler, &by_name, &defined.scope, &defined.resource);
    let tenant = |workspace: &str| scheduler.api.tenant(workspace);
    let limited = defined.to_watch(WATCH_LIMITS, is_placeable, is_first, tenant);
    watches.tell(scheduler, limited.left_out);
    let own = limited.watched.into_iter().map(|defined| (defined.scope, defined.resource));
    let wanted: HashSet<(Scope, Resource)> = everywhere.chain(own).collect();
    let running = &mut watches.running;
    let gone: Vec<(Scope, Resource)> = running.keys().filter(|one| !wanted.contains(*one)).cloned().collect();
    for one in gone {
        if let Some((number, followed)) = running.remove(&one) {
            forget(scheduler, number, followed);
        }
    }
    for (scope, resource) in wanted {
        let needs_all = matches!(scope, Scope::Below(_)) || is_named(scheduler, &named, &scope, &resource);
        let contents = CacheContents {
            labels: if needs_all { String::new() } else { INTENT_LABEL.to_string() },
            metadata_only: !WITH_CLASSES.contains(&(&*resource.group, &*resource.plural)),
            by_discovery: scope != Scope::AllWorkspaces,
            scope: scope.clone(),
        };
        match running.get_mut(&(scope.clone(), resource.clone())) {
            // Once a policy has named a kind, all objects of the kind stay watched: policies may come and go
            // often.
            Some((_, followed)) if needs_all => followed.set_contents(&scheduler.api, contents),
            Some(_) => {}
            None => {
                let followed = FollowedCache::new(&scheduler.api, resource.clone(), contents);
                let number = scheduler.kinds.insert(scope.clone(), followed.cache.clone());
                let follower = scheduler.clone();
                followed.cache.listen(move |change| changes::workload_changed(&follower, number, change));
                let follower = selected.clone();
                followed.cache.listen(move |change| follower.owner_changed(change));
                running.insert((scope, resource), (number, followed));
            }
        }
    }
}

impl Watches {
    /// Reports definitions beyond the limit: in the log once for a workspace, and in events of the first of
    /// them.
    fn tell(&mut self, scheduler: &Scheduler, left_out: BTreeMap<Arc<str>, Vec<LeftOut>>) {
        self.left_out.retain(|workspace, _| left_out.contains_key(workspace));
        let present: HashSet<&Key> = left_out.values().flatten().map(|one| &one.definition).collect();
        self.reported.retain(|key| present.contains(key));
        for (workspace, definitions) in left_out {
            let count = definitions.len();
            if self.left_out.insert(workspace.clone(), count).is_none() {
                let limit = WATCH_LIMITS.of_workspace;
                tracing::warn!(
                    %workspace, count, limit,
                    "the workspace defines more kinds than the scheduler watches; objects of the others are not placed"
                );
            }
            for one in definitions.into_iter().take(MAX_EVENTS) {
                if self.reported.insert(one.definition.clone()) {
                    let about = json!({ "metadata": {
                        "name": *one.definition.name, "uid": one.uid, "annotations": { WORKSPACE: *workspace },
                    } });
                    let message = not_watched(&one.kind, count);
                    let definitions = &resources::CUSTOM_RESOURCE_DEFINITIONS;
                    scheduler.writer.recorder.warning(definitions, &about, NOT_WATCHED, message);
                }
            }
        }
    }
}

/// Explains why objects of a kind are not placed.
fn not_watched(kind: &str, count: usize) -> String {
    let (of_workspace, of_tenant) = (WATCH_LIMITS.of_workspace, WATCH_LIMITS.of_tenant);
    format!(
        "{kind} objects are not placed by annotation: the scheduler watches the {of_workspace} oldest custom kinds of a \
         workspace, and {of_tenant} of all workspaces of a tenant, and {count} of this workspace are left out. Name the \
         kind in spec.objects of a PlacementPolicy, which comes before all others, or delete definitions that are not \
         used"
    )
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
