//! The sync view: a stream of everything that is placed on a cluster, then of every change.

mod access_secrets;
mod namespace_lines;
mod object_lines;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::{ObjectTarget, SyncLine, SyncResource};
use atoll_fleet::{ClusterView, Overrides};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::PlacementSubscriber;
use atoll_registry::{Burst, Turn, run_in_place};
use atoll_store::{Key, key};
use atoll_watch::Object;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::access_secrets::AccessSecrets;
use super::cluster_scope::ClusterScope;
use super::dialects;
use super::heartbeat::ClusterHeartbeat;
use super::lasting_access::LastingAccess;
use super::namespaces::NamespaceWatch;
use super::open_views::OpenView;
use super::{exclusions, parse, pauses};
use crate::Server;
use crate::body::Body;
use crate::respond;

/// Interval of keepalive lines, by which broken connections are detected.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Chunks that may be queued for a slow connection. Further changes of an object are merged.
const MAX_QUEUED_CHUNKS: usize = 4;
/// Maximum size of a chunk of lines that are ready at the same time.
const CHUNK_BYTES: usize = 64 << 10;

pub fn handle(
    server: &Arc<Server>,
    workspace: &str,
    cluster: &str,
    control_plane: String,
    uid: String,
    access: LastingAccess,
) -> Result<Response<Body>, Status> {
    let open = OpenView::open(server, workspace, cluster)?;
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let mut view = View {
        server: server.clone(),
        cluster: cluster.to_string(),
        uid: uid.clone(),
        cluster_key: Key::object(ATOLL, "clusters", workspace, "", cluster),
        overrides: Err(String::new()),
        controllers: false,
        registered: Arc::default(),
        burst: Burst::default(),
        paused: BTreeMap::new(),
        terminating: HashSet::new(),
        labels: HashMap::new(),
        workspace: workspace.to_string(),
        sent: HashMap::new(),
        access: AccessSecrets::default(),
        open,
        hashes: RandomState::new(),
        chunk: Vec::new(),
        sender: sender.clone(),
    };
    let subscriber = server.registry.placements.subscribe(cluster);
    let stopped = server.stopped();
    let (server, workspace, cluster, own) =
        (server.clone(), workspace.to_string(), cluster.to_string(), uid.clone());
    tokio::spawn(async move {
        let is_stopped = tokio::select! {
            biased;
            _ = view.run(subscriber, control_plane, uid) => false,
            () = access.ended() => false,
            () = stopped => true,
            () = sender.closed() => false,
        };
        if view.open.close() && !is_stopped {
            let heartbeat =
                ClusterHeartbeat { server: &server, workspace: &workspace, cluster: &cluster, uid: &own };
            heartbeat.record_connections().await;
        }
    });
    Ok(respond::with_type(StatusCode::OK, "application/json", Body::Stream(receiver)))
}

struct View {
    server: Arc<Server>,
    cluster: String,
    /// The UID of the Cluster.
    uid: String,
    /// The key of the Cluster.
    cluster_key: Key,
    /// Overrides of the Cluster, or why they are invalid.
    overrides: Result<Overrides, String>,
    /// Whether controllers are allowed in the cluster.
    controllers: bool,
    /// The Cluster, as last read.
    registered: Arc<Value>,
    /// Work since there was last nothing to send.
    burst: Burst,
    /// Pauses, as last sent.
    paused: BTreeMap<String, String>,
    /// Namespaces that were sent as being deleted, with their workspaces.
    terminating: HashSet<(String, String)>,
    /// Pod Security labels of namespaces below, by workspace and namespace: as last sent, or the defaults.
    labels: HashMap<(String, String), Labels>,
    /// ID of the registering workspace.
    workspace: String,
    /// Sent objects. They are kept because the UID of a deleted object is needed.
    sent: HashMap<Key, SentObject>,
    /// The accounts of workloads, and the Secrets with their tokens.
    access: AccessSecrets,
    open: OpenView,
    hashes: RandomState,
    chunk: Vec<u8>,
    sender: mpsc::Sender<Bytes>,
}

/// The last line that was sent about an object.
#[derive(Default)]
struct SentObject {
    target: ObjectTarget,
    /// Hash of the line, if one was sent. Most changes of an object are status changes, which are not sent.
    hash: Option<u64>,
}

/// The client is gone, or the Cluster is no longer registered.
struct ViewEnded;

impl View {
    async fn run(
        &mut self,
        subscriber: Arc<PlacementSubscriber>,
        control_plane: String,
        uid: String,
    ) -> Result<(), ViewEnded> {
        self.send_changes(&subscriber, true).await?;
        // Includes the workspace of the Cluster: older syncers give plain namespace names to the only
        // workspace.
        let workspaces = self.sent.values().map(|sent| sent.target.workspace.clone());
        let workspaces: BTreeSet<String> = workspaces.chain([self.workspace.clone()]).collect();
        let workspaces = workspaces.into_iter().collect();
        let cluster = self.registered.clone();
        let synced = SyncLine::Synced {
            control_plane,
            uid: uid.clone(),
            workspaces,
            workspace: self.cluster_key.parts().map(|parts| parts.workspace.to_string()).unwrap_or_default(),
            id: ClusterView::of(&cluster).id().unwrap_or_default().to_string(),
            observe: ClusterView::of(&cluster).is_observed(),
        };
        self.send(&synced).await?;
        let mut namespaces = NamespaceWatch::new(&self.server, &self.workspace);
        let mut keepalive_at = Instant::now() + KEEPALIVE_INTERVAL;
        loop {
            self.check_access().await?;
            self.flush().await?;
            self.burst.end();
            tokio::select! {
                biased;
                () = subscriber.changed() => self.send_changes(&subscriber, false).await?,
                changes = namespaces.changes() => {
                    self.send_labels(changes.relabelled).await?;
                    self.send_terminating(changes.terminating).await?;
                }
                () = tokio::time::sleep_until(self.access.next_check()) => {}
                () = tokio::time::sleep_until(keepalive_at) => {
                    keepalive_at = Instant::now() + KEEPALIVE_INTERVAL;
                    self.send(&SyncLine::Alive).await?;
                    self.recheck_refused().await?;
                }
            }
            // The view ends when the Cluster is deleted or recreated.
            if !self.is_registered(&uid) {
                return Err(ViewEnded);
            }
        }
    }

    fn is_registered(&self, uid: &str) -> bool {
        let registered = self.server.registry.own_cluster(&self.workspace, &self.cluster);
        registered.is_some_and(|found| object::uid(&found) == uid)
    }

    /// Sends everything that has changed.
    async fn send_changes(
        &mut self,
        subscriber: &PlacementSubscriber,
        is_first: bool,
    ) -> Result<(), ViewEnded> {
        let (mut keys, revision) = subscriber.take();
        self.server.registry.cache.wait_for(revision).await;
        let snapshot = self.server.registry.snapshot();
        let read = |key: &Key| snapshot.get(key).and_then(|object| parse(&object.json()).ok());
        let mut relabelled = Vec::new();
        // A deleted cluster keeps its objects unchanged.
        if (is_first || keys.remove(&self.cluster_key))
            && let Some(cluster) = read(&self.cluster_key)
        {
            let overrides = Overrides::of(&cluster);
            let controllers = exclusions::allows_controllers(&cluster);
            let (old, new) = (ClusterView::of(&self.registered), ClusterView::of(&cluster));
            if new.pod_security() != old.pod_security() {
                relabelled.extend(self.labels.keys().cloned());
            }
            let is_changed = overrides != self.overrides
                || controllers != self.controllers
                || new.drift() != old.drift()
                || new.mode() != old.mode();
            if is_changed {
                (self.overrides, self.controllers) = (overrides, controllers);
                keys.extend(self.sent.keys().cloned());
            }
            self.registered = Arc::new(cluster);
        }
        // A dialect that was enabled or disabled may change the metadata of all shares.
        let enabling: HashSet<String> =
            keys.iter().filter_map(dialects::enabling_workspace).map(str::to_owned).collect();
        if !enabling.is_empty() {
            let affected = self.sent.keys().filter(|key| self.is_below(key, &enabling));
            let affected: Vec<Key> = affected.cloned().collect();
            keys.extend(affected);
        }
        // Send pauses first, so that the syncer never acts on a paused object.
        self.send_pauses(&keys).await?;
        relabelled.sort_unstable();
        self.send_labels(relabelled).await?;
        // In a deterministic order.
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort_unstable();
        for key in keys {
            let object = self.read(&key, snapshot.get(&key)).await;
            if let Some(object) = object.as_deref()
                && let Some(line) = self.first_labels(&key, object).await
            {
                self.send(&line).await?;
            }
            let terminating = self.terminating_namespace(&key, object.as_deref()).await;
            if let Some((workspace, namespace)) = terminating {
                self.send(&SyncLine::Ending { workspace, namespace, uid: String::new(), since: 0 }).await?;
            }
            self.access.note_changed(&key);
            self.send_object(&key, object).await?;
        }
        self.send_changed_secrets().await
    }

    /// Sends the line about an object, if it has changed.
    async fn send_object(&mut self, key: &Key, object: Option<Arc<Value>>) -> Result<(), ViewEnded> {
        let line = self.changed_line(key, object).await;
        self.send_needed_secret(key).await?;
        match line {
            Some(line) => self.add(&line).await,
            None => Ok(()),
        }
    }

    /// Checks refused objects again: rights may have changed, which are not watched here.
    async fn recheck_refused(&mut self) -> Result<(), ViewEnded> {
        let refused = self.sent.iter().filter(|(_, sent)| sent.hash.is_none());
        let mut keys: Vec<Key> = refused.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        self.send_again(keys).await?;
        self.send_changed_secrets().await
    }

    /// Sends the lines about objects that have not changed, as far as the lines have.
    async fn send_again(&mut self, keys: Vec<Key>) -> Result<(), ViewEnded> {
        for key in keys {
            let found = self.server.registry.snapshot().get(&key);
            let object = self.read(&key, found).await;
            self.send_object(&key, object).await?;
        }
        Ok(())
    }

    /// Parses an object in a turn of its tenant. The views of its clusters share the result.
    async fn read(&mut self, key: &Key, found: Option<Arc<Object>>) -> Option<Arc<Value>> {
        let found = found?;
        let _turn = self.begin(key, found.size()).await;
        run_in_place(found.size(), || self.server.registry.placements.parsed.parse(&found))
    }

    /// Begins work on an object, in a turn of its tenant if the view has much to do.
    async fn begin(&mut self, key: &Key, size: usize) -> Option<Turn> {
        let workspace = key.parts().map_or(self.workspace.as_str(), |parts| parts.workspace);
        self.burst.begin(&self.server.registry, workspace, size).await
    }

    /// Whether an object is in one of these workspaces or below one of them.
    fn is_below(&self, key: &Key, workspaces: &HashSet<String>) -> bool {
        let ancestry = key.parts().map(|parts| self.server.registry.ancestry(parts.workspace));
        ancestry.into_iter().flatten().any(|workspace| workspaces.contains(&workspace))
    }

    fn scope(&self) -> ClusterScope<'_> {
        ClusterScope { workspace: &self.workspace, cluster: &self.cluster, uid: &self.uid }
    }

    async fn send_pauses(&mut self, keys: &HashSet<Key>) -> Result<(), ViewEnded> {
        let workspaces = || {
            let sent = self.sent.values().map(|sent| sent.target.workspace.clone());
            let more = keys.iter().filter_map(|key| key.parts()).map(|parts| parts.workspace.to_string());
            sent.chain(more).collect()
        };
        let home = self.cluster_key.parts().map(|parts| parts.workspace.to_string()).unwrap_or_default();
        let paused = pauses::for_view(&self.server, &self.cluster, &self.registered, &home, workspaces);
        let before = std::mem::replace(&mut self.paused, paused.clone());
        for workspace in before.keys().filter(|workspace| !paused.contains_key(*workspace)) {
            self.send(&SyncLine::Paused { workspace: workspace.clone(), paused: false, why: String::new() })
                .await?;
        }
        for (workspace, why) in paused {
            if before.get(&workspace) != Some(&why) {
                self.send(&SyncLine::Paused { workspace, paused: true, why }).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, line: &SyncLine) -> Result<(), ViewEnded> {
        self.add(&line.bytes()).await
    }

    async fn add(&mut self, line: &[u8]) -> Result<(), ViewEnded> {
        self.chunk.extend_from_slice(line);
        if self.chunk.len() >= CHUNK_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), ViewEnded> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        if !self.open.track(self.sent.len() + self.access.len()) {
            return Err(ViewEnded);
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.send(chunk).await.map_err(|_| ViewEnded)
    }
}

pub fn target(parts: &key::Parts<'_>, object: &Value) -> ObjectTarget {
    let group = parts.api_group();
    let version = object::api_version(object).rsplit('/').next().unwrap_or_default();
    ObjectTarget {
        resource: SyncResource {
            group: group.to_string(),
            version: version.to_string(),
            resource: parts.resource.to_string(),
            kind: object::kind(object).to_string(),
            namespaced: !parts.namespace.is_empty(),
        },
        workspace: parts.workspace.to_string(),
        namespace: parts.namespace.to_string(),
        name: parts.name.to_string(),
        uid: object::uid(object).to_string(),
    }
}
