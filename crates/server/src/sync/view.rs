//! The sync view: a stream of everything that is placed on a cluster, then of every change.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::{Drift, ObjectTarget, SyncLine, SyncResource};
use atoll_fleet::{ClusterView, Overrides, Placement, placement, shape};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::{PlacementSubscriber, RegisteredCluster};
use atoll_store::{Key, key};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::cluster_scope::ClusterScope;
use super::heartbeat::ClusterHeartbeat;
use super::namespaces::NamespaceWatch;
use super::{exclusions, parse, pauses, records};
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
) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let view = View {
        server: server.clone(),
        cluster: cluster.to_string(),
        uid: uid.clone(),
        cluster_key: Key::object(ATOLL, "clusters", workspace, "", cluster),
        overrides: Err(String::new()),
        controllers: false,
        registered: Value::Null,
        paused: BTreeMap::new(),
        terminating: HashSet::new(),
        labels: HashMap::new(),
        workspace: workspace.to_string(),
        sent: HashMap::new(),
        hashes: RandomState::new(),
        chunk: Vec::new(),
        sender: sender.clone(),
    };
    let subscriber = server.registry.placements.subscribe(cluster);
    let stopped = server.stopped();
    let (server, workspace, cluster, own) =
        (server.clone(), workspace.to_string(), cluster.to_string(), uid.clone());
    tokio::spawn(async move {
        server.open_views.open(&workspace, &cluster);
        let is_stopped = tokio::select! {
            biased;
            _ = view.run(subscriber, control_plane, uid) => false,
            () = stopped => true,
            () = sender.closed() => false,
        };
        if server.open_views.close(&workspace, &cluster) && !is_stopped {
            let heartbeat =
                ClusterHeartbeat { server: &server, workspace: &workspace, cluster: &cluster, uid: &own };
            heartbeat.record_view_closed().await;
        }
    });
    respond::with_type(StatusCode::OK, "application/json", Body::Stream(receiver))
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
    registered: Value,
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
        mut self,
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
        let cluster = self.server.registry.snapshot().get(&self.cluster_key);
        let cluster = cluster.and_then(|cluster| parse(&cluster.json()).ok()).unwrap_or_default();
        let synced = SyncLine::Synced {
            control_plane,
            uid: uid.clone(),
            workspaces,
            workspace: self.cluster_key.parts().map(|parts| parts.workspace.to_string()).unwrap_or_default(),
            id: ClusterView::of(&cluster).id().unwrap_or_default().to_string(),
            observe: ClusterView::of(&cluster).is_observed(),
        };
        self.send(&synced).await?;
        let mut namespaces = NamespaceWatch::new(&self.server);
        loop {
            self.flush().await?;
            tokio::select! {
                biased;
                () = subscriber.changed() => self.send_changes(&subscriber, false).await?,
                changes = namespaces.changes() => {
                    self.send_labels(changes.relabelled).await?;
                    self.send_terminating(changes.terminating).await?;
                }
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {
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
        let registered = self.server.registry.snapshot().get(&self.cluster_key);
        registered.and_then(|found| parse(&found.json()).ok()).is_some_and(|found| object::uid(&found) == uid)
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
            let is_changed =
                overrides != self.overrides || controllers != self.controllers || new.drift() != old.drift();
            if is_changed {
                (self.overrides, self.controllers) = (overrides, controllers);
                keys.extend(self.sent.keys().cloned());
            }
            self.registered = cluster;
        }
        // Send pauses first, so that the syncer never acts on a paused object.
        self.send_pauses(&keys).await?;
        relabelled.sort_unstable();
        self.send_labels(relabelled).await?;
        // In a deterministic order.
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort_unstable();
        for key in keys {
            let object = read(&key);
            if let Some(line) = object.as_ref().and_then(|object| self.first_labels(&key, object)) {
                self.send(&line).await?;
            }
            if let Some((workspace, namespace)) = self.terminating_namespace(&key, object.as_ref(), &read) {
                self.send(&SyncLine::Ending { workspace, namespace, uid: String::new(), since: 0 }).await?;
            }
            if let Some(line) = self.changed_line(&key, object).await {
                self.add(&line).await?;
            }
        }
        Ok(())
    }

    /// Checks refused objects again: rights may have changed, which are not watched here.
    async fn recheck_refused(&mut self) -> Result<(), ViewEnded> {
        let refused = self.sent.iter().filter(|(_, sent)| sent.hash.is_none());
        let mut keys: Vec<Key> = refused.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        for key in keys {
            let found = self.server.registry.snapshot().get(&key);
            let object = found.and_then(|found| parse(&found.json()).ok());
            if let Some(line) = self.changed_line(&key, object).await {
                self.add(&line).await?;
            }
        }
        Ok(())
    }

    /// Returns the namespace of an object that is being deleted, if the namespace is being deleted as well
    /// and this was not sent yet.
    fn terminating_namespace(
        &mut self,
        key: &Key,
        object: Option<&Value>,
        read: &dyn Fn(&Key) -> Option<Value>,
    ) -> Option<(String, String)> {
        let parts = key.parts().filter(|parts| !parts.namespace.is_empty())?;
        let place = (parts.workspace.to_string(), parts.namespace.to_string());
        if !object.is_some_and(object::is_being_deleted) {
            // The namespace may be a new one of the same name.
            if object.is_some() {
                self.terminating.remove(&place);
            }
            return None;
        }
        if self.terminating.contains(&place) || !self.scope().contains(&self.server.registry, parts.workspace)
        {
            return None;
        }
        let namespace = read(&Key::object("", "namespaces", parts.workspace, "", parts.namespace))?;
        object::is_being_deleted(&namespace).then(|| {
            self.terminating.insert(place.clone());
            place
        })
    }

    /// Returns a line with the Pod Security labels of an object's namespace, if it is the first object in it
    /// and the labels are not the defaults.
    fn first_labels(&mut self, key: &Key, object: &Value) -> Option<SyncLine> {
        let parts = key.parts().filter(|parts| !parts.namespace.is_empty())?;
        let place = (parts.workspace.to_string(), parts.namespace.to_string());
        if self.labels.contains_key(&place) {
            return None;
        }
        self.scope().share(&self.server.registry, parts.workspace, &Placement::of(object))?;
        let labels = self.labels_of(&place);
        let is_news = labels != Labels::fallback(place.0 == self.workspace);
        self.labels.insert(place.clone(), labels.clone());
        let (workspace, namespace) = place;
        is_news.then_some(SyncLine::Namespace { workspace, namespace, labels })
    }

    /// Sends changed Pod Security labels of namespaces.
    async fn send_labels(&mut self, places: Vec<(String, String)>) -> Result<(), ViewEnded> {
        for place in places {
            let Some(before) = self.labels.get(&place) else { continue };
            let labels = self.labels_of(&place);
            if labels != *before {
                self.labels.insert(place.clone(), labels.clone());
                let (workspace, namespace) = place;
                self.send(&SyncLine::Namespace { workspace, namespace, labels }).await?;
            }
        }
        Ok(())
    }

    fn labels_of(&self, (workspace, namespace): &(String, String)) -> Labels {
        let key = Key::object("", "namespaces", workspace, "", namespace);
        let namespace = self.server.registry.snapshot().get(&key);
        let namespace = namespace.and_then(|found| parse(&found.json()).ok()).unwrap_or_default();
        Labels::of(&self.registered, *workspace == self.workspace, &namespace)
    }

    fn scope(&self) -> ClusterScope<'_> {
        ClusterScope { workspace: &self.workspace, cluster: &self.cluster, uid: &self.uid }
    }

    /// Sends that namespaces are being deleted or were deleted, so that the syncer deletes what is left in
    /// them.
    async fn send_terminating(&mut self, ended: Vec<(String, String)>) -> Result<(), ViewEnded> {
        let scope = self.scope();
        let snapshot = self.server.registry.snapshot();
        let is_there = |(workspace, name): &(String, String)| {
            let found = snapshot.get(&Key::object("", "namespaces", workspace, "", name));
            let found = found.and_then(|found| parse(&found.json()).ok());
            found.is_some_and(|found| !object::is_being_deleted(&found))
        };
        let ended: Vec<(String, String)> = ended
            .into_iter()
            .filter(|place| !is_there(place) && scope.contains(&self.server.registry, &place.0))
            .collect();
        for (workspace, namespace) in ended {
            self.send(&SyncLine::Ending { workspace, namespace, uid: String::new(), since: 0 }).await?;
        }
        Ok(())
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

    /// Returns the line about an object, unless it is equal to the last one.
    async fn changed_line(&mut self, key: &Key, object: Option<Value>) -> Option<Vec<u8>> {
        let line = self.line(key, object).await?.bytes();
        let Some(sent) = self.sent.get_mut(key) else { return Some(line) };
        let hash = Some(self.hashes.hash_one(&line));
        (std::mem::replace(&mut sent.hash, hash) != hash).then_some(line)
    }

    /// Returns the line about an object, if it concerns this cluster.
    async fn line(&mut self, key: &Key, object: Option<Value>) -> Option<SyncLine> {
        let Some(object) = object else {
            return self.sent.remove(key).map(|SentObject { target, .. }| SyncLine::Forget { target });
        };
        let parts = key.parts()?;
        let (scope, registry) = (self.scope(), &self.server.registry);
        let placement = Placement::of(&object);
        let share = scope.share(registry, parts.workspace, &placement);
        if share.is_none() && !scope.is_leaving(registry, parts.workspace, &placement) {
            return self.sent.remove(key).map(|SentObject { target, .. }| SyncLine::Forget { target });
        }
        let target = target(&parts, &object);
        if target.is_namespace() {
            return self.namespace_line(key, target, &object);
        }
        // An object is sent only after the placement of its namespace is recorded.
        if let Err(status) = self.record_namespace(&parts).await {
            tracing::warn!(%status, cluster = self.cluster, object = %key, "cannot record the placement on the object's namespace; retrying");
            self.sent.entry(key.clone()).or_insert_with(|| SentObject { target, hash: None }).hash = None;
            return None;
        }
        if let Some(message) = share.and_then(|_| self.waits_for_deletion(&target, &placement)) {
            self.refuse(key, target, message).await;
            return None;
        }
        self.sent.entry(key.clone()).or_default().target.clone_from(&target);
        Some(match share {
            Some(share) if !object::is_being_deleted(&object) => {
                let mut shaped = shape::shape(&object, &self.cluster, share.replicas);
                if let Some(message) = self.pod_security_violation(&parts, &object, &shaped) {
                    self.refuse(key, target, message).await;
                    return None;
                }
                let overridden = self.overrides.as_ref().map_err(String::clone);
                let overridden = overridden.and_then(|overrides| overrides.apply(&mut shaped));
                let taken = overridden.and_then(|()| {
                    let objection = exclusions::exclusion_reason(
                        &self.server,
                        &parts,
                        &object,
                        &shaped,
                        self.controllers,
                    );
                    objection.map_or(Ok(()), Err)
                });
                if let Err(message) = taken {
                    self.refuse(key, target, message).await;
                    return None;
                }
                let drift = Drift::of(&self.registered, &object);
                SyncLine::Object { target, generation: object::generation(&object), object: shaped, drift }
            }
            _ => {
                let since = self.server.registry.placements.leaving_since(&self.cluster, &self.uid, key);
                // If it has changed meanwhile, another change follows.
                SyncLine::Remove { target, since: since? }
            }
        })
    }

    /// Records why the cluster does not get the current version of an object. The previous version stays.
    async fn refuse(&mut self, key: &Key, target: ObjectTarget, message: String) {
        let sent = self.sent.entry(key.clone()).or_default();
        sent.target.clone_from(&target);
        sent.hash = None;
        records::record_refusal(&self.server, self.scope(), target, message).await;
    }

    /// Returns how a shape violates the cluster's Pod Security level although the stored object does not.
    /// Tenants write `managedFields` themselves, and only managed fields are sent.
    fn pod_security_violation(
        &self,
        parts: &key::Parts<'_>,
        object: &Value,
        shaped: &Value,
    ) -> Option<String> {
        let registry = &self.server.registry;
        let version = object::api_version(object).rsplit('/').next().unwrap_or_default();
        let row = registry.find(Some(parts.workspace), parts.api_group(), version, parts.resource)?;
        let registered =
            RegisteredCluster { workspace: self.workspace.clone(), cluster: self.registered.clone() };
        let mut sent = object.clone();
        sent["spec"] = shaped["spec"].clone();
        let violation = registry.pod_security_violation(&row, parts.workspace, &sent, &registered)?;
        let is_new = registry.pod_security_violation(&row, parts.workspace, object, &registered).is_none();
        is_new.then(|| format!("without the fields that have no manager, it {violation}"))
    }

    /// Returns why a cluster does not get an object yet: it must run only once, and another cluster has not
    /// confirmed its deletion.
    fn waits_for_deletion(&self, target: &ObjectTarget, placement: &Placement) -> Option<String> {
        let resource = &target.resource;
        if placement.duplicate
            || placement.leaving.is_empty()
            || !placement::runs_once(&resource.group, &resource.resource)
            || records::is_reported(&self.server, self.scope(), target)
        {
            return None;
        }
        // A fence declares that nothing runs on the cluster any more.
        let is_fenced = |name: &str, uid: &str| {
            let found = self.server.registry.cluster(&target.workspace, name, uid);
            found.is_some_and(|found| atoll_fleet::placement_refusal::is_fenced(&found.cluster))
        };
        let waited_for = placement.leaving.iter().filter(|one| !is_fenced(&one.name, &one.uid));
        let names = waited_for.map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        if names.is_empty() {
            return None;
        }
        Some(format!(
            "it must not run twice, and {names} has not confirmed its deletion yet; if that cluster is gone for good: atoll cluster remove \
             {names} --lost"
        ))
    }

    /// Records on the namespace of an object that the cluster may have a copy of the namespace.
    async fn record_namespace(&self, parts: &key::Parts<'_>) -> Result<(), Status> {
        if parts.namespace.is_empty() {
            return Ok(());
        }
        let registry = &self.server.registry;
        match registry.place_namespace(parts.workspace, parts.namespace, &self.cluster, &self.uid).await {
            // The namespace does not exist.
            Err(status) if status.code() == 404 => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns the line about a namespace that the cluster may have, if the namespace is being deleted.
    fn namespace_line(&mut self, key: &Key, target: ObjectTarget, object: &Value) -> Option<SyncLine> {
        if !object::is_being_deleted(object) {
            return None;
        }
        self.sent.entry(key.clone()).or_default().target.clone_from(&target);
        let since = self.server.registry.placements.leaving_since(&self.cluster, &self.uid, key)?;
        Some(SyncLine::Ending { workspace: target.workspace, namespace: target.name, uid: target.uid, since })
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
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.send(chunk).await.map_err(|_| ViewEnded)
    }
}

fn target(parts: &key::Parts<'_>, object: &Value) -> ObjectTarget {
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
