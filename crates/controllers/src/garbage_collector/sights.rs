//! Watches the metadata of all resources, wherever they are served.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Look, Queue, Resource, Scope, Sight, World, follow, resources};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::graph::{Graph, Node, Work};
use super::served::{Served, discover};

/// Interval of discovery on a single API server, because extensions appear without an event.
const DISCOVERY: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);
const ROOT: &str = "root";

pub struct Sights {
    world: World,
    graph: Arc<Mutex<Graph>>,
    served: Arc<Served>,
    queue: Queue,
    /// Number of resources that were not listed yet; `None` before the first discovery.
    unseen: watch::Sender<Option<usize>>,
}

/// Running watches. They end when this is dropped.
#[derive(Default)]
struct Looking(HashMap<(Scope, Arc<Resource>), AbortHandle>);

impl Drop for Looking {
    fn drop(&mut self) {
        for task in self.0.values() {
            task.abort();
        }
    }
}

impl Sights {
    pub fn new(world: World, graph: Arc<Mutex<Graph>>, served: Arc<Served>, queue: Queue) -> Sights {
        Sights { world, graph, served, queue, unseen: watch::Sender::new(None) }
    }

    /// Returns when all resources of the first discovery were listed.
    pub fn all_seen(&self) -> impl Future<Output = ()> + use<> {
        let mut unseen = self.unseen.subscribe();
        async move {
            // Fails only when the watches have ended.
            let _ = unseen.wait_for(|unseen| *unseen == Some(0)).await;
        }
    }

    pub async fn run(&self) {
        let (told, defined) = mpsc::unbounded_channel();
        tokio::join!(self.follow_definitions(told), self.look_around(defined));
    }

    /// Starts watches for discovered resources, and again whenever definitions change.
    async fn look_around(&self, mut defined: mpsc::UnboundedReceiver<Defined>) {
        let mut looking = Looking::default();
        // Definitions by workspace, as `plural.group`.
        let mut definitions: HashMap<String, HashSet<String>> = HashMap::new();
        let mut stale: HashSet<String> = HashSet::new();
        let mut shared = false;
        let mut due = tokio::time::interval(if self.world.has_workspaces() { PAUSE } else { DISCOVERY });
        loop {
            tokio::select! {
                news = defined.recv() => match news {
                    Some(Defined::There(workspace, name)) => {
                        definitions.entry(workspace.clone()).or_default().insert(name);
                        stale.insert(workspace);
                    }
                    Some(Defined::Gone(workspace, name)) => {
                        definitions.entry(workspace.clone()).or_default().remove(&name);
                        stale.insert(workspace);
                    }
                    Some(Defined::All) => {}
                    None => return,
                },
                _ = due.tick() => {}
            }
            // Definitions often arrive in groups: process all before the next discovery.
            if !defined.is_empty() {
                continue;
            }
            if !self.world.has_workspaces() {
                self.look_at_one(&mut looking).await;
                continue;
            }
            if !shared {
                let own = definitions.get(ROOT).cloned().unwrap_or_default();
                shared = self.look_at_shared(&own, &mut looking).await;
            }
            for workspace in std::mem::take(&mut stale) {
                let own = definitions.get(&workspace).cloned().unwrap_or_default();
                if let Err(status) = self.look_at_workspace(&workspace, &own, &mut looking).await {
                    tracing::debug!(%status, workspace, "discovery failed; retrying");
                    stale.insert(workspace);
                }
            }
        }
    }

    async fn follow_definitions(&self, told: mpsc::UnboundedSender<Defined>) {
        let definitions = &resources::CUSTOM_RESOURCE_DEFINITIONS;
        follow(&self.world, Look::everywhere(definitions).metadata(), move |sight| {
            let place = |object: &Value| {
                let key = Key::of(object);
                (key.workspace.to_string(), key.name.to_string())
            };
            let news = match sight {
                Sight::There(object) => {
                    let (workspace, name) = place(&object);
                    Defined::There(workspace, name)
                }
                Sight::Gone(object) => {
                    let (workspace, name) = place(&object);
                    Defined::Gone(workspace, name)
                }
                Sight::All(..) => Defined::All,
            };
            // Fails only when the receiver is gone.
            let _ = told.send(news);
        })
        .await;
    }

    /// Watches all resources of a single API server.
    async fn look_at_one(&self, looking: &mut Looking) {
        match discover(&self.world, "", None, |_, _| true).await {
            Ok(table) => {
                let table = self.served.set_shared(table);
                self.look(&Scope::Everywhere, &table.collected, looking);
            }
            Err(status) => {
                tracing::warn!(%status, "garbage collector: discovery failed; retrying");
            }
        }
    }

    /// Watches the resources of all workspaces: those of root without its own custom resources.
    async fn look_at_shared(&self, own: &HashSet<String>, looking: &mut Looking) -> bool {
        let root = match self.world.root(ROOT) {
            Ok(root) => root,
            Err(_) => return false,
        };
        let is_shared = |plural: &str, group: &str| !own.contains(&format!("{plural}.{group}"));
        match discover(&self.world, &root, None, is_shared).await {
            Ok(table) => {
                let table = self.served.set_shared(table);
                self.look(&Scope::Everywhere, &table.collected, looking);
                true
            }
            Err(status) => {
                tracing::warn!(%status, "garbage collector: discovery failed; retrying");
                false
            }
        }
    }

    async fn look_at_workspace(
        &self,
        workspace: &str,
        own: &HashSet<String>,
        looking: &mut Looking,
    ) -> Result<(), Status> {
        let groups = own.iter().filter_map(|name| name.split_once('.')).map(|(_, group)| group.to_string());
        let groups: HashSet<String> = groups.collect();
        let is_own = |plural: &str, group: &str| own.contains(&format!("{plural}.{group}"));
        let root = match self.world.root(workspace) {
            Ok(root) => root,
            // The workspace is gone with its content.
            Err(_) if own.is_empty() => {
                self.look(&Scope::Workspace(workspace.into()), &[], looking);
                return Ok(());
            }
            Err(status) => return Err(status),
        };
        let table = match own.is_empty() {
            true => super::served::Table::default(),
            false => discover(&self.world, &root, Some(&groups), is_own).await?,
        };
        let table = self.served.set_own(workspace, table);
        self.look(&Scope::Workspace(workspace.into()), &table.collected, looking);
        Ok(())
    }

    /// Starts watches for these resources, and ends others of the same scope.
    fn look(&self, scope: &Scope, wanted: &[Arc<Resource>], looking: &mut Looking) {
        looking.0.retain(|(own, resource), task| {
            let is_kept = own != scope || wanted.contains(resource);
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        for resource in wanted {
            looking.0.entry((scope.clone(), resource.clone())).or_insert_with(|| {
                self.unseen.send_modify(|unseen| *unseen = Some(unseen.unwrap_or(0) + 1));
                self.follow(scope.clone(), resource.clone())
            });
        }
    }

    fn follow(&self, scope: Scope, resource: Arc<Resource>) -> AbortHandle {
        let (world, graph, queue) = (self.world.clone(), self.graph.clone(), self.queue.clone());
        let mut first = Some(Unseen(self.unseen.clone()));
        tokio::spawn(async move {
            let workspace = match &scope {
                Scope::Everywhere => None,
                Scope::Workspace(id) => Some(id.clone()),
            };
            let place = |object: &Value| {
                let key = Key::of(object);
                match &workspace {
                    Some(workspace) => Key::new(workspace, &key.namespace, &key.name),
                    None => key,
                }
            };
            let look = Look::everywhere(&resource).metadata().discovered().within(&scope);
            follow(&world, look, |sight| {
                let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                let work = match sight {
                    Sight::There(object) => graph.there(&resource, place(&object), &object),
                    Sight::Gone(object) => {
                        let (workspace, uid) = (place(&object).workspace, object::uid(&object).into());
                        graph.gone(&Node { workspace, uid })
                    }
                    Sight::All(present, _) => {
                        drop(first.take());
                        graph.all(&resource, workspace.as_deref(), present)
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
struct Unseen(watch::Sender<Option<usize>>);

impl Drop for Unseen {
    fn drop(&mut self) {
        self.0.send_modify(|unseen| *unseen = unseen.map(|count| count.saturating_sub(1)));
    }
}

enum Defined {
    There(String, String),
    Gone(String, String),
    All,
}

/// Enqueues objects by uid and workspace.
pub fn add(queue: &Queue, work: Work) {
    for Node { workspace, uid } in work {
        queue.add(Key { workspace, namespace: "".into(), name: uid });
    }
}
