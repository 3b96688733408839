//! Places objects as their intents ask, such as labels that name a cluster. Any dialect with intents can run
//! this controller.
//!
//! ```text
//!   watch of each placeable resource (of a custom one: where it is defined), selected by intent ─► Queue ─► decide (pure) ─► …/placement
//!   a Cluster or a dialect ConfigMap changes ─► all of these objects again
//!   refused ─► one cluster after the other, as a dry run ─► those that accept it, and an event
//! ```
//!
//! An intent has precedence over policies and over placement without any intent. Placements by hand, by
//! annotation or as a dependent stay. Workloads are left to the scheduler, if the server has one. Nothing is
//! watched before a workspace enables the dialect.

mod decide;
mod known;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::Share;
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_fleet::scheduled::is_left_to_scheduler;
use atoll_fleet::{Placement, placed_by};
use atoll_informer::{
    Cache, Change, DefinedResource, DefinedResources, DefinitionEvent, Key, ListWatch, ListWatchEvent, Next,
    Queue, Resource, Scope, list_and_watch, resources,
};
use atoll_meta::{Status, names, object};
use atoll_registry::dialect::{Intent, intent};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::decide::{Wanted, decide, is_changed};
use self::known::KnownObjects;
use crate::{ControllerContext, events};

const WORKERS: usize = 8;
/// Delay before a paused placement is retried, because there is no event when the pause ends.
const PAUSED_DELAY: Duration = Duration::from_secs(1);
/// Delay before a failed discovery is retried.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);
/// Delay before a definition in a workspace that is not known yet is looked at again.
const UNKNOWN_WORKSPACE_DELAY: Duration = Duration::from_secs(1);
const PLACEMENT: &str = "placement";
/// The placement subresource as a dry run.
const DRY_RUN: &str = "placement?dryRun=All";

struct Controller {
    context: ControllerContext,
    /// The `by` of its placements.
    by: &'static str,
    clusters: Arc<Cache>,
    known: KnownObjects,
    queue: Queue,
}

/// Runs the controller until it is dropped. Ends at once if the dialect places nothing.
pub async fn run(context: ControllerContext) {
    let Some(by) = context.dialect.placed_by() else { return };
    let name = context.dialect.name();
    let mut changes = context.enabled.subscribe();
    while !context.enabled.is_used(name) {
        if changes.changed().await.is_err() {
            return;
        }
    }
    let (clusters, queue) = (context.informers.of(&resources::CLUSTERS), Queue::new());
    clusters.synced().await;
    let controller =
        Arc::new(Controller { context, by, clusters, known: KnownObjects::default(), queue: queue.clone() });
    let listener = controller.clone();
    controller.clusters.listen(move |change| {
        if terms_changed(change) {
            listener.enqueue_all();
        }
    });
    let worker = controller.clone();
    let working = queue.work("placements by intent", WORKERS, move |key| {
        let controller = worker.clone();
        async move { controller.sync(&key).await }
    });
    let enabling = async {
        while changes.changed().await.is_ok() {
            controller.enqueue_all();
        }
    };
    tokio::join!(controller.clone().watch_all(), working, enabling);
}

/// Whether a change of a Cluster matters for placements: whether it accepts new objects, from which
/// workspaces, and with which Pod Security level.
fn terms_changed(change: &Change) -> bool {
    let terms = |cluster: &Value| {
        let spec = &cluster["spec"];
        (placement_refusal(cluster), spec["workspaces"].clone(), spec["podSecurity"].clone())
    };
    change.old.as_deref().map(terms) != change.new.as_deref().map(terms)
}

impl Controller {
    fn enqueue_all(&self) {
        self.known.all().into_iter().for_each(|key| self.queue.add(key));
    }

    /// Watches the placeable resources that every workspace has, those of the dialect, and those that
    /// workspaces with the dialect define.
    async fn watch_all(self: Arc<Self>) {
        let built_in = loop {
            match crate::resources::discover(self.context.api()).await {
                Ok(found) => break found,
                Err(status) => {
                    tracing::warn!(%status, "the resources of the root workspace cannot be discovered; retrying");
                    tokio::time::sleep(DISCOVERY_DELAY).await;
                }
            }
        };
        let mut watches = JoinSet::new();
        for resource in built_in {
            self.watch_once(&mut watches, Scope::AllWorkspaces, resource, false);
        }
        // The dialect's own kinds have no CustomResourceDefinition, and root shows them only if it enables the
        // dialect itself.
        for resource in self.context.dialect.definitions().iter().filter_map(crate::resources::defined) {
            self.watch_once(&mut watches, Scope::AllWorkspaces, resource, true);
        }
        let (sender, mut events) = mpsc::unbounded_channel();
        let api = self.context.api().clone();
        watches.spawn(async move {
            list_and_watch(&api, ListWatch::all(&resources::CUSTOM_RESOURCE_DEFINITIONS), |event| {
                let _ = sender.send(DefinitionEvent::of(event));
            })
            .await;
        });
        let mut changes = self.context.enabled.subscribe();
        let (mut defined, mut running) = (DefinedResources::default(), HashMap::new());
        loop {
            let is_complete = self.watch_defined(&defined, &mut running, &mut watches);
            // Forget the results of ended watches.
            while watches.try_join_next().is_some() {}
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => defined.handle(event),
                    None => return,
                },
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(UNKNOWN_WORKSPACE_DELAY), if !is_complete => {}
            }
            while let Ok(event) = events.try_recv() {
                defined.handle(event);
            }
        }
    }

    /// Watches the custom resources of workspaces with the dialect, each in the workspaces that have it by the same
    /// definition, and ends other watches. Returns false if a workspace is not known yet.
    fn watch_defined(
        self: &Arc<Self>,
        defined: &DefinedResources,
        running: &mut HashMap<(Key, DefinedResource), (usize, AbortHandle)>,
        watches: &mut JoinSet<()>,
    ) -> bool {
        let api = self.context.api();
        let is_complete = defined.all().all(|(key, _)| api.root(&key.workspace).is_ok())
            && self.context.enabled.are_known(api, self.context.dialect.name());
        let enabled = defined.all().filter(|(_, defined)| {
            crate::resources::is_placeable(&defined.resource)
                && match &defined.scope {
                    Scope::Below(id) => self.context.is_enabled_in_line(id),
                    Scope::Workspace(id) => self.context.is_enabled(id),
                    Scope::AllWorkspaces => true,
                }
        });
        let wanted: HashSet<(Key, DefinedResource)> =
            enabled.map(|(key, defined)| (key.clone(), defined.clone())).collect();
        running.retain(|one, (number, watch)| {
            let is_kept = wanted.contains(one);
            if !is_kept {
                watch.abort();
                self.known.remove_resource(*number);
            }
            is_kept
        });
        for one in wanted {
            let Entry::Vacant(entry) = running.entry(one) else { continue };
            let (_, DefinedResource { scope, resource }) = entry.key().clone();
            if let Some(watch) = self.watch_once(watches, scope, resource, true) {
                entry.insert(watch);
            }
        }
        is_complete
    }

    /// Watches a resource, unless it is watched already.
    fn watch_once(
        self: &Arc<Self>,
        watches: &mut JoinSet<()>,
        scope: Scope,
        resource: Resource,
        is_defined: bool,
    ) -> Option<(usize, AbortHandle)> {
        let number = self.known.add_resource(&scope, resource.clone())?;
        let controller = self.clone();
        let watch = watches.spawn(async move {
            let label = intent::label(controller.context.dialect.name());
            let all = ListWatch::all(&resource).label_selector(&label).metadata_only().within(&scope);
            let list_watch = if is_defined { all.discovered() } else { all };
            list_and_watch(controller.context.api(), list_watch, |event| {
                let changed = match event {
                    ListWatchEvent::Upserted(object) => {
                        Vec::from_iter(controller.known.insert(number, &object))
                    }
                    ListWatchEvent::Deleted(object) => {
                        Vec::from_iter(controller.known.remove(number, &object))
                    }
                    ListWatchEvent::Listed(present, _) => controller.known.retain(number, present),
                };
                changed.into_iter().for_each(|key| controller.queue.add(key));
            })
            .await;
        });
        Some((number, watch))
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some((resource, at)) = self.known.target(key) else { return Ok(Next::Done) };
        let api = self.context.api();
        // A workspace that is not known yet is an error, and retried.
        api.root(&at.workspace)?;
        if !self.context.is_enabled(&at.workspace) || &*at.namespace == SYSTEM_NAMESPACE {
            return Ok(Next::Done);
        }
        let found = match api.get(&resource, &at).await {
            Err(status) if status.code() == 404 => return Ok(Next::Done),
            found => found?,
        };
        let intents = self.context.dialect.intents(&found);
        let exists = |name: &str| self.cluster_exists(&resource, &at, name);
        let current = Placement::of(&found);
        let target = Target { resource: &resource, at: &at, object: &found };
        if let Some(message) = unknown(&resource, &current, &intents, &exists) {
            self.report(&target, &message).await?;
        }
        if self.is_left_to_scheduler(&target).await? {
            return Ok(Next::Done);
        }
        let wanted = match decide(&found, &current, self.by, &intents, &exists) {
            Some(wanted) if is_changed(&current, self.by, &wanted.all()) => wanted,
            _ => return Ok(Next::Done),
        };
        match self.place(&target, &wanted.all(), PLACEMENT).await {
            Err(status) if is_refusal(&status) => {
                self.place_accepted(&target, &current, wanted, status).await
            }
            outcome => after(outcome),
        }
    }

    /// Whether a scheduler of the server follows the intents of an object: it does so for workloads, which move without
    /// a gap.
    async fn is_left_to_scheduler(&self, target: &Target<'_>) -> Result<bool, Status> {
        let resource = (&*target.resource.group, &*target.resource.plural);
        if !is_left_to_scheduler(resource, target.object) {
            return Ok(false);
        }
        let api = self.context.api();
        let path = format!("{}/{PLACEMENT}", api.path(target.resource, target.at)?);
        match api.client().get(&path).await {
            // It was deleted.
            Err(status) if status.code() == 404 => Ok(true),
            placement => Ok(placement?["status"]["scheduled"] == true),
        }
    }

    /// Whether a Cluster of this name can be used: cluster-scoped objects are placed only from the registering
    /// workspace.
    fn cluster_exists(&self, resource: &Resource, at: &Key, name: &str) -> bool {
        let mut line = self.context.api().ancestry(&at.workspace);
        line.truncate(if resource.namespaced { line.len() } else { 1 });
        names::name_is_dns_label(name, false).is_empty()
            && line.iter().any(|(id, _)| self.clusters.get(&Key::new(id, "", name)).is_some())
    }

    /// Places an object on those clusters that accept it, and reports why others do not.
    async fn place_accepted(
        &self,
        target: &Target<'_>,
        current: &Placement,
        wanted: Wanted<'_>,
        refused: Status,
    ) -> Result<Next, Status> {
        let (mut accepted, mut refusals) = (wanted.kept.clone(), Vec::new());
        for (intent, share) in wanted.added {
            let tried: Vec<Share> = wanted.kept.iter().cloned().chain([share.clone()]).collect();
            match self.place(target, &tried, DRY_RUN).await {
                Ok(()) => accepted.push(share),
                // The Cluster was deleted; the object waits for another one.
                Err(status) if status.has_cause("FieldValueNotFound") => {}
                Err(status) if is_refusal(&status) => refusals.push(refusal(&intent, &status)),
                outcome => return after(outcome),
            }
        }
        let mut next = Ok(Next::Done);
        if is_changed(current, self.by, &accepted) {
            match self.place(target, &accepted, PLACEMENT).await {
                // Each cluster alone is accepted, but not all of them.
                Err(status) if is_refusal(&status) => refusals.push(status.message().to_string()),
                outcome => next = after(outcome),
            }
        } else if refusals.is_empty() {
            let object = &*target.at.name;
            tracing::debug!(status = %refused, object, "no cluster of a refused placement accepts the object");
        }
        if !refusals.is_empty() {
            self.report(target, &refusals.join("; ")).await?;
        }
        next
    }

    /// Writes an event about refusals. In a namespace that is being deleted, there are none.
    async fn report(&self, target: &Target<'_>, message: &str) -> Result<(), Status> {
        let (about, clock) = ((target.at, target.object), &*self.context.clock);
        match events::write_refusal(self.context.api(), clock, target.resource, about, message).await {
            Err(status) if matches!(status.code(), 403 | 404) => {
                tracing::debug!(%status, object = %target.at.name, "the event about a refused placement cannot be written");
                Ok(())
            }
            written => written,
        }
    }

    /// Writes a placement; `subresource` is [`PLACEMENT`] or [`DRY_RUN`].
    async fn place(&self, target: &Target<'_>, shares: &[Share], subresource: &str) -> Result<(), Status> {
        let (uid, revision) = (object::uid(target.object), object::resource_version(target.object));
        let patch = json!({
            "metadata": { "uid": uid, "resourceVersion": revision },
            "spec": { "clusters": shares, "by": self.by },
        });
        self.context.api().patch(target.resource, target.at, subresource, &patch).await.map(drop)
    }
}

/// The object that is placed.
struct Target<'a> {
    resource: &'a Resource,
    at: &'a Key,
    object: &'a Value,
}

/// Names the clusters that do not exist. Workloads that an intent may place have a condition that says so.
fn unknown(
    resource: &Resource,
    current: &Placement,
    intents: &[Intent<'_>],
    exists: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let is_free = current.clusters.is_empty() || placed_by::yields_to_labels(&current.by);
    if is_free && is_workload((&resource.group, &resource.plural)) {
        return None;
    }
    let is_unknown =
        |intent: &&Intent<'_>| current.share(intent.cluster).is_none() && !exists(intent.cluster);
    let told = intents.iter().filter(is_unknown).map(|intent| {
        format!("its {} names the cluster {:?}, which does not exist", intent.source, intent.cluster)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{}; see: atoll cluster list", told.join("; ")))
}

/// Whether a placement was refused for a reason that a retry does not change. It is tried again when the object
/// or a Cluster changes.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), 403 | 422) && !status.has_cause(CAUSE)
}

fn refusal(intent: &Intent<'_>, status: &Status) -> String {
    format!("its {} is not followed: {}", intent.source, status.message())
}

/// The next step after a write.
fn after(outcome: Result<(), Status>) -> Result<Next, Status> {
    match outcome {
        Ok(()) => Ok(Next::Done),
        // Placement changes are paused.
        Err(status) if status.has_cause(CAUSE) => Ok(Next::After(PAUSED_DELAY)),
        // The object was deleted or changed.
        Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
        Err(status) => Err(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_do_not_exist_are_named() {
        use atoll_registry::dialect::IntentSource;
        let exists = |name: &str| name == "east";
        let intents = |names: &[&'static str]| -> Vec<Intent<'static>> {
            names.iter().map(|&cluster| Intent { source: IntentSource::Label("l"), cluster }).collect()
        };
        let on = |by: &str| Placement {
            clusters: vec![Share::on("gone", "1")],
            by: by.into(),
            ..Placement::default()
        };
        let (map, web) = (&resources::CONFIG_MAPS, &resources::DEPLOYMENTS);
        let nowhere = Placement::default();
        for (resource, current, names, is_told) in [
            (map, &nowhere, &["east"][..], false),
            (map, &nowhere, &["misspelt"], true),
            // It stays on a cluster that is gone.
            (map, &on("label"), &["gone"], false),
            (web, &nowhere, &["misspelt"], false),
            (web, &on("default"), &["misspelt"], false),
            (web, &on("annotation"), &["misspelt"], true),
            (web, &on("hand"), &["misspelt"], true),
        ] {
            let told = unknown(resource, current, &intents(names), &exists);
            assert_eq!(told.is_some(), is_told, "{} {current:?} {names:?}", resource.kind);
        }
    }

    #[test]
    fn only_relevant_changes_of_clusters_count() {
        let change = |old: Option<Value>, new: Option<Value>| Change {
            key: Key::new("w", "", "east"),
            old: old.map(Arc::new),
            new: new.map(Arc::new),
        };
        let open = json!({ "metadata": {}, "spec": {} });
        let seen = json!({ "metadata": {}, "spec": {}, "status": { "nodes": 3 } });
        let closed = json!({ "metadata": {}, "spec": { "unschedulable": true } });
        let limited = json!({ "metadata": {}, "spec": { "workspaces": ["team"] } });
        for (old, new, expected) in [
            (None, Some(&open), true),
            (Some(&open), Some(&seen), false),
            (Some(&seen), Some(&closed), true),
            (Some(&closed), Some(&open), true),
            (Some(&open), Some(&limited), true),
            (Some(&open), None, true),
        ] {
            assert_eq!(terms_changed(&change(old.cloned(), new.cloned())), expected, "{old:?} {new:?}");
        }
    }
}
