//! State and tasks of one syncer, shared by its parts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_fleet::view::{ObjectTarget, SyncLine, SyncResource};
use atoll_informer::{ApiScope, Key, Queue};
use atoll_meta::Status;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::connections::cluster_client::{ClusterClient, Permit};
use crate::connections::control_plane::ControlPlaneConnection;
use crate::connections::sync_view::ClusterRegistration;
use crate::guard::pauses::Pauses;
use crate::guard::write_gate::{DisconnectDetector, WriteGate};
use crate::latch::Latch;
use crate::namespaces::namespace_worker;
use crate::namespaces::{AwaitedNamespace, Namespaces, locator};
use crate::objects::reconcile::Desired;
use crate::objects::table::{Table, key_of};
use crate::reporting::capabilities::Capabilities;
use crate::reporting::endpoints::SliceWatch;
use crate::reporting::inventory::{Inventory, Owner};
use crate::reporting::reports::Reports;
use crate::reporting::status_watch;
use crate::settings::{Access, Settings};

/// How long work waits for the first list of a resource. A resource that is not served is never listed.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Syncer {
    pub settings: Settings,
    pub above: Client,
    pub below: ClusterClient,
    /// Cluster clients for work that holds a permit, and for the heartbeat.
    pub with_permit: ClusterClient,
    pub unqueued: ClusterClient,
    pub table: Table,
    pub queue: Queue,
    pub reports: Reports,
    pub connection: ControlPlaneConnection,
    pub namespaces: Namespaces,
    registration: watch::Sender<Option<Arc<ClusterRegistration>>>,
    pub gate: Arc<WriteGate>,
    pub pauses: Pauses,
    pub inventory: Inventory,
    pub slices: SliceWatch,
    pub capabilities: Capabilities,
    /// Whether the namespaces of the cluster have been read.
    is_loaded: AtomicBool,
    watches: Mutex<HashMap<SyncResource, WatchHandle>>,
}

/// The watch of a resource in the cluster.
struct WatchHandle {
    task: AbortHandle,
    /// Set when the first list is complete.
    listed: Arc<Latch>,
    /// Whether waiting for the first list has timed out.
    has_timed_out: bool,
}

impl Syncer {
    pub fn new(settings: Settings, above: Client, below: Client) -> Arc<Syncer> {
        let gate = WriteGate::new();
        let budget = below.budget().cloned();
        let below = DisconnectDetector { client: below, gate: gate.clone() };
        let below = Client::new(Arc::new(below)).charged_to(budget.clone());
        let below = ClusterClient::new(below, settings.budget.clone(), gate.clone());
        let (with_permit, unqueued) = (below.with_permit(), below.unqueued());
        Arc::new(Syncer {
            settings,
            above,
            below,
            with_permit,
            unqueued,
            table: Table::new(budget.clone()),
            queue: Queue::new(),
            reports: Reports::new(budget.clone()),
            connection: ControlPlaneConnection::default(),
            namespaces: Namespaces::new(budget),
            registration: watch::Sender::new(None),
            gate,
            pauses: Pauses::default(),
            inventory: Inventory::default(),
            slices: SliceWatch::default(),
            capabilities: Capabilities::default(),
            is_loaded: AtomicBool::new(false),
            watches: Mutex::default(),
        })
    }

    /// Waits until the registration is known and returns it.
    pub async fn registration(&self) -> Arc<ClusterRegistration> {
        let mut known = self.registration.subscribe();
        loop {
            if let Some(registration) = known.borrow_and_update().clone() {
                return registration;
            }
            if known.changed().await.is_err() {
                // The syncer was dropped, so no caller is left.
                return std::future::pending().await;
            }
        }
    }

    pub fn current_registration(&self) -> Option<Arc<ClusterRegistration>> {
        self.registration.borrow().clone()
    }

    pub fn is_other_registration(&self, registration: &ClusterRegistration) -> bool {
        let ours = |known: &Arc<ClusterRegistration>| {
            known.control_plane == registration.control_plane && known.cluster == registration.cluster
        };
        self.registration.borrow().as_ref().is_some_and(|known| !ours(known))
    }

    /// Starts a sync round with the registration and, for a new view, the lines that arrived before it was
    /// complete.
    pub fn start_round(self: &Arc<Self>, registration: ClusterRegistration, staged: Option<Vec<SyncLine>>) {
        if let Some(staged) = &staged {
            self.pauses.replace_all(staged);
        }
        self.registration.send_replace(Some(Arc::new(registration)));
        if let Some(staged) = staged {
            self.namespaces.begin_round();
            self.table.begin_round();
            self.namespaces.forget_labels();
            for line in staged {
                self.handle_line(line);
            }
            self.table.end_round();
        }
    }

    pub fn handle_line(self: &Arc<Self>, line: SyncLine) {
        match line {
            SyncLine::Object { target, generation, object, drift, held } => {
                self.namespaces.clear_terminating(&target.workspace, &target.namespace);
                let held = held && atoll_fleet::held::has_template(&object);
                let desired = Desired::present(generation, &object).with_drift(drift).with_held(held);
                self.set_desired(target, desired, 0);
            }
            SyncLine::Remove { target, since } => self.set_desired(target, Desired::Absent, since),
            SyncLine::Forget { target } => {
                self.table.forget(&target);
                let (workspace, namespace) = (&target.workspace, &target.namespace);
                if !self.table.has_namespace(workspace, namespace)
                    && let Some(registration) = self.current_registration()
                {
                    // The namespace may be given away; verify it again before the next write.
                    self.namespaces.unverify(&locator(&registration.control_plane, &target));
                    self.queue.add(namespace_worker::key(workspace, namespace));
                }
            }
            SyncLine::Namespace { workspace, namespace, labels, below } => {
                self.namespaces.require(&workspace, &namespace, labels, below);
                self.queue.add(namespace_worker::key(&workspace, &namespace));
            }
            SyncLine::Ending { workspace, namespace, uid, since } => {
                // The view belongs to this registration, which was verified before.
                self.namespaces.set_terminating(
                    &workspace,
                    &namespace,
                    (!uid.is_empty()).then_some(AwaitedNamespace { uid, since }),
                );
                self.queue.add(namespace_worker::key(&workspace, &namespace));
            }
            SyncLine::Paused { workspace, paused, why } => {
                self.pauses.set(workspace, paused.then_some(why));
                self.gate.recheck.notify_one();
                if !paused {
                    self.table
                        .pending_keys(self.settings.drift)
                        .into_iter()
                        .for_each(|key| self.queue.add(key));
                    self.namespaces.terminating_keys().into_iter().for_each(|key| self.queue.add(key));
                }
            }
            SyncLine::Synced { .. } | SyncLine::Alive => {}
        }
    }

    /// Sets the desired state. `since` is the revision above at which the removal was requested.
    fn set_desired(self: &Arc<Self>, target: ObjectTarget, desired: Desired, since: u64) {
        let resource = target.resource.clone();
        let is_present = desired != Desired::Absent;
        let key = self.table.set_desired(target, desired);
        self.table.set_removed_since(&key, since);
        if is_present {
            self.reports.retract_gone(&key);
        }
        if self.is_loaded.load(Ordering::Acquire) {
            self.watch(&resource);
        }
        self.queue.add(key);
    }

    /// Whether the cluster is only read.
    pub fn is_observing(&self, registration: &ClusterRegistration) -> bool {
        self.settings.access == Access::Observe || registration.observe
    }

    /// Opens the write gate until the given time.
    pub async fn open(
        self: &Arc<Self>,
        until: Instant,
        registration: &ClusterRegistration,
    ) -> Result<(), Status> {
        if self.is_observing(registration) {
            return Ok(());
        }
        if !self.is_loaded.load(Ordering::Acquire) {
            self.namespaces.load(&self.unqueued, &registration.control_plane).await?;
            self.is_loaded.store(true, Ordering::Release);
            for resource in self.table.resources() {
                self.watch(&resource);
            }
        }
        // Retry failed work at once.
        if self.gate.open(until) {
            self.table.pending_keys(self.settings.drift).into_iter().for_each(|key| self.queue.add(key));
        }
        Ok(())
    }

    /// Waits until the cluster may be written to, the first list of `of` is complete, and a permit is
    /// available. Returns `None` if the syncer has stopped.
    pub async fn acquire(&self, of: Option<&SyncResource>) -> Option<Permit> {
        loop {
            if !self.gate.wait_open().await {
                return None;
            }
            if let Some(resource) = of {
                self.first_list(resource).await;
            }
            let permit = self.below.acquire().await;
            if self.gate.is_open() {
                return Some(permit);
            }
        }
    }

    /// Logs that a namespace stays in the cluster although the one above was deleted.
    pub fn log_kept(&self, namespace: &str, contents: &[String]) {
        let (cluster, why) = (&self.settings.cluster, self.kept_reason(namespace, contents));
        tracing::warn!(%cluster, namespace, "the namespace stays in the cluster: {why}");
    }

    /// Returns why a namespace stays in the cluster although the one above was deleted.
    pub fn kept_reason(&self, namespace: &str, contents: &[String]) -> String {
        let cluster = &self.settings.cluster;
        format!(
            "namespace {namespace} stays in cluster {cluster} although the one above was deleted, because it is not empty: {}; \
             once that is gone: atoll orphans prune --cluster {cluster}",
            contents.join(", ")
        )
    }

    /// Stops all tasks.
    pub fn stop(&self) {
        self.gate.stop();
        for (_, watch) in self.watches().drain() {
            watch.task.abort();
        }
    }

    /// Reports an object above if its record has changed.
    pub fn report(&self, key: &Key) {
        let pods = |uid: &str| self.inventory.pods_of(uid);
        let endpoints = |uid: &str| self.slices.endpoints_of(uid);
        if let Some(record) = self.table.changed_record(key, &pods, &endpoints) {
            self.reports.report(key.clone(), record);
        }
    }

    /// Starts a watch of the placed objects of a resource.
    fn watch(self: &Arc<Self>, resource: &SyncResource) {
        let mut watches = self.watches();
        if watches.contains_key(resource) || self.gate.is_stopped() {
            return;
        }
        let listed = Arc::new(Latch::default());
        let (syncer, api) = (self.clone(), ApiScope::single(self.below.client.clone()));
        let task =
            tokio::spawn(status_watch::run(syncer, api, resource.clone(), listed.clone())).abort_handle();
        watches.insert(resource.clone(), WatchHandle { task, listed, has_timed_out: false });
    }

    /// Returns the watched resource of a kind.
    pub fn watched_resource(&self, group: &str, kind: &str) -> Option<SyncResource> {
        self.watches().keys().find(|resource| resource.group == group && resource.kind == kind).cloned()
    }

    /// Returns the key of the placed object that is this owner of Pods, if it is one.
    pub fn placed_owner(&self, owner: &Owner) -> Option<Key> {
        let locator = self.namespaces.above(&owner.namespace)?;
        let resource = self.watched_resource(&owner.group, &owner.kind)?;
        let key = key_of(&resource, &locator.workspace, &locator.namespace, &owner.name);
        let seen = self.table.task(&key)?.seen?;
        (seen.uid == owner.uid).then_some(key)
    }

    /// Waits until the first list of a resource is complete, up to a timeout.
    pub async fn first_list(&self, resource: &SyncResource) {
        let Some(listed) = self
            .watches()
            .get(resource)
            .filter(|watch| !watch.has_timed_out)
            .map(|watch| watch.listed.clone())
        else {
            return;
        };
        let seen = tokio::time::timeout(FIRST_LIST_TIMEOUT, listed.wait()).await;
        if seen.is_err()
            && let Some(watch) = self.watches().get_mut(resource)
        {
            watch.has_timed_out = true;
        }
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<SyncResource, WatchHandle>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
