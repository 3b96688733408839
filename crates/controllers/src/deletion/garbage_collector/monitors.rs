//! Watches the metadata of all resources, wherever they are served.

// upstream: pkg/controller/garbagecollector/graph_builder.go

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_informer::{
    ApiScope, Key, ListWatch, ListWatchEvent, Queue, Resource, Scope, is_imported, list_and_watch, resources,
};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::graph::{Graph, GraphNode, Work};
use super::rest_mapper::{RestMapper, discover};

/// Interval of discovery on a single API server, because extensions appear without an event.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const ROOT: &str = "root";

pub struct Monitors {
    api: ApiScope,
    graph: Arc<Mutex<Graph>>,
    rest_mapper: Arc<RestMapper>,
    queue: Queue,
    /// Number of resources that were not listed yet; `None` before the first discovery.
    unlisted: watch::Sender<Option<usize>>,
}

/// Running watches. They end when this is dropped.
#[derive(Default)]
struct RunningWatches(HashMap<(Scope, Arc<Resource>), AbortHandle>);

impl Drop for RunningWatches {
    fn drop(&mut self) {
        for task in self.0.values() {
            task.abort();
        }
    }
}

impl Monitors {
    pub fn new(
        api: ApiScope,
        graph: Arc<Mutex<Graph>>,
        rest_mapper: Arc<RestMapper>,
        queue: Queue,
    ) -> Monitors {
        Monitors { api, graph, rest_mapper, queue, unlisted: watch::Sender::new(None) }
    }

    /// Returns when all resources of the first discovery were listed.
    pub fn all_synced(&self) -> impl Future<Output = ()> + use<> {
        let mut unlisted = self.unlisted.subscribe();
        async move {
            // Fails only when the watches have ended.
            let _ = unlisted.wait_for(|unlisted| *unlisted == Some(0)).await;
        }
    }

    pub async fn run(&self) {
        let (events, definition_events) = mpsc::unbounded_channel();
        tokio::join!(self.watch_definitions(events), self.run_watches(definition_events));
    }

    /// Starts watches for discovered resources, and again whenever definitions change.
    async fn run_watches(&self, mut definition_events: mpsc::UnboundedReceiver<DefinitionEvent>) {
        let mut running = RunningWatches::default();
        let mut definitions = Definitions::default();
        let mut stale: HashSet<Scope> = HashSet::new();
        let mut shared = false;
        let mut due = tokio::time::interval(if self.api.has_workspaces() {
            RETRY_INTERVAL
        } else {
            DISCOVERY_INTERVAL
        });
        loop {
            tokio::select! {
                event = definition_events.recv() => match event {
                    Some(DefinitionEvent::There(definition)) => stale.extend(definitions.insert(definition)),
                    Some(DefinitionEvent::Gone(definition)) => stale.extend(definitions.remove(&definition)),
                    Some(DefinitionEvent::All) => {}
                    None => return,
                },
                _ = due.tick() => {}
            }
            // Definitions often arrive in groups: process all before the next discovery.
            if !definition_events.is_empty() {
                continue;
            }
            if !self.api.has_workspaces() {
                self.watch_single_server(&mut running).await;
                continue;
            }
            if !shared {
                shared = self.watch_shared(&definitions.of_workspace(ROOT), &mut running).await;
            }
            for scope in std::mem::take(&mut stale) {
                let own = definitions.of(&scope);
                if let Err(status) = self.watch_defined(&scope, &own, &mut running).await {
                    tracing::debug!(%status, ?scope, "discovery failed; retrying");
                    stale.insert(scope);
                }
            }
        }
    }

    async fn watch_definitions(&self, events: mpsc::UnboundedSender<DefinitionEvent>) {
        let definitions = &resources::CUSTOM_RESOURCE_DEFINITIONS;
        list_and_watch(&self.api, ListWatch::all(definitions).metadata_only(), move |event| {
            let event = match event {
                ListWatchEvent::Upserted(object) => DefinitionEvent::There(Definition::of(&object)),
                ListWatchEvent::Deleted(object) => DefinitionEvent::Gone(Definition::of(&object)),
                ListWatchEvent::Listed(..) => DefinitionEvent::All,
            };
            // Fails only when the receiver is gone.
            let _ = events.send(event);
        })
        .await;
    }

    /// Watches all resources of a single API server.
    async fn watch_single_server(&self, running: &mut RunningWatches) {
        match discover(&self.api, "", None, |_, _| true).await {
            Ok(table) => {
                let table = self.rest_mapper.set_shared(table);
                self.set_watches(&Scope::AllWorkspaces, &table.collected, running);
            }
            Err(status) => {
                tracing::warn!(%status, "garbage collector: discovery failed; retrying");
            }
        }
    }

    /// Watches the resources of all workspaces: those of root without its own custom resources.
    async fn watch_shared(&self, own: &HashSet<String>, running: &mut RunningWatches) -> bool {
        let root = match self.api.root(ROOT) {
            Ok(root) => root,
            Err(_) => return false,
        };
        let is_shared = |plural: &str, group: &str| !own.contains(&format!("{plural}.{group}"));
        match discover(&self.api, &root, None, is_shared).await {
            Ok(table) => {
                let table = self.rest_mapper.set_shared(table);
                self.set_watches(&Scope::AllWorkspaces, &table.collected, running);
                true
            }
            Err(status) => {
                tracing::warn!(%status, "garbage collector: discovery failed; retrying");
                false
            }
        }
    }

    /// Watches the resources of these definitions.
    async fn watch_defined(
        &self,
        scope: &Scope,
        own: &HashSet<String>,
        running: &mut RunningWatches,
    ) -> Result<(), Status> {
        let groups = own.iter().filter_map(|name| name.split_once('.')).map(|(_, group)| group.to_string());
        let groups: HashSet<String> = groups.collect();
        let is_own = |plural: &str, group: &str| own.contains(&format!("{plural}.{group}"));
        let table = match own.is_empty() {
            // The workspace may be gone with its content.
            true => super::rest_mapper::ResourceTable::default(),
            false => {
                let root = self.api.root(scope.defining().unwrap_or(ROOT))?;
                discover(&self.api, &root, Some(&groups), is_own).await?
            }
        };
        let table = self.rest_mapper.set_additional(scope, table);
        self.set_watches(scope, &table.collected, running);
        Ok(())
    }

    /// Starts watches for these resources, and ends others of the same scope.
    fn set_watches(&self, scope: &Scope, wanted: &[Arc<Resource>], running: &mut RunningWatches) {
        running.0.retain(|(own, resource), task| {
            let is_kept = own != scope || wanted.contains(resource);
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        for resource in wanted {
            running.0.entry((scope.clone(), resource.clone())).or_insert_with(|| {
                self.unlisted.send_modify(|unlisted| *unlisted = Some(unlisted.unwrap_or(0) + 1));
                self.start_watch(scope.clone(), resource.clone())
            });
        }
    }

    fn start_watch(&self, scope: Scope, resource: Arc<Resource>) -> AbortHandle {
        let (api, graph, queue) = (self.api.clone(), self.graph.clone(), self.queue.clone());
        let mut first = Some(UnlistedGuard(self.unlisted.clone()));
        tokio::spawn(async move {
            let place = |object: &Value| {
                let key = Key::of(object);
                Key::new(scope.workspace_of(&key.workspace), &key.namespace, &key.name)
            };
            let list_watch = ListWatch::all(&resource).metadata_only().discovered().within(&scope);
            list_and_watch(&api, list_watch, |event| {
                let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                let work = match event {
                    ListWatchEvent::Upserted(object) => graph.update(&resource, place(&object), &object),
                    ListWatchEvent::Deleted(object) => {
                        let (workspace, uid) = (place(&object).workspace, object::uid(&object).into());
                        graph.remove(&GraphNode { workspace, uid })
                    }
                    ListWatchEvent::Listed(present, _) => {
                        drop(first.take());
                        match &scope {
                            Scope::AllWorkspaces => graph.retain_listed(&resource, |_| true, present),
                            Scope::Workspace(id) => {
                                graph.retain_listed(&resource, |place| place == id, present)
                            }
                            Scope::Below(id) => {
                                graph.look_again(&resource, |place| is_below(&api, place, id), present)
                            }
                        }
                    }
                };
                drop(graph);
                add(&queue, work);
            })
            .await;
        })
        .abort_handle()
    }
}

/// A resource that was not listed yet; dropped after the first list, or when its watch ends.
struct UnlistedGuard(watch::Sender<Option<usize>>);

impl Drop for UnlistedGuard {
    fn drop(&mut self) {
        self.0.send_modify(|unlisted| *unlisted = unlisted.map(|count| count.saturating_sub(1)));
    }
}

enum DefinitionEvent {
    There(Definition),
    Gone(Definition),
    All,
}

/// The name of a definition, which is `plural.group`, and the workspaces that have it.
struct Definition {
    scope: Scope,
    name: String,
}

impl Definition {
    fn of(object: &Value) -> Definition {
        let Key { workspace, name, .. } = Key::of(object);
        let [workspace, name] = [workspace, name].map(|text| text.to_string());
        let scope = if is_imported(object) { Scope::Below(workspace) } else { Scope::Workspace(workspace) };
        Definition { scope, name }
    }
}

/// Names of definitions by the workspaces that have them.
#[derive(Default)]
struct Definitions(HashMap<Scope, HashSet<String>>);

impl Definitions {
    fn of(&self, scope: &Scope) -> HashSet<String> {
        self.0.get(scope).cloned().unwrap_or_default()
    }

    /// All definitions of a workspace that others do not have, or that it gives to those below it.
    fn of_workspace(&self, id: &str) -> HashSet<String> {
        let scopes = [Scope::Workspace(id.into()), Scope::Below(id.into())];
        scopes.iter().flat_map(|scope| self.of(scope)).collect()
    }

    /// Adds a definition. Returns what has changed: a workspace shows only one of each name.
    fn insert(&mut self, definition: Definition) -> Vec<Scope> {
        let other = match &definition.scope {
            Scope::Below(id) => Scope::Workspace(id.clone()),
            Scope::AllWorkspaces | Scope::Workspace(_) => {
                Scope::Below(definition.scope.defining().unwrap_or(ROOT).into())
            }
        };
        let mut changed = self.remove(&Definition { scope: other, name: definition.name.clone() });
        self.0.entry(definition.scope.clone()).or_default().insert(definition.name);
        changed.push(definition.scope);
        changed
    }

    /// Removes a definition. Returns what has changed.
    fn remove(&mut self, definition: &Definition) -> Vec<Scope> {
        let Some(names) = self.0.get_mut(&definition.scope) else { return Vec::new() };
        let is_known = names.remove(&definition.name);
        if names.is_empty() {
            self.0.remove(&definition.scope);
        }
        is_known.then(|| definition.scope.clone()).into_iter().collect()
    }
}

/// Whether a workspace is another one or below it, or may have been before it was deleted.
fn is_below(api: &ApiScope, workspace: &str, above: &str) -> bool {
    api.ancestry(workspace).iter().any(|(id, _)| id == above) || api.root(workspace).is_err()
}

/// Enqueues objects by uid and workspace.
pub fn add(queue: &Queue, work: Work) {
    for GraphNode { workspace, uid } in work {
        queue.add(Key { workspace, namespace: "".into(), name: uid });
    }
}
