//! State and tasks of one syncer, shared by its parts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_fleet::view::{Line, Resource, Target};
use atoll_informer::{Key, Queue, World};
use atoll_meta::Status;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::below::{Below, Turn};
use crate::contact::Contact;
use crate::ending;
use crate::flag::Flag;
use crate::pauses::Pauses;
use crate::reconcile::Wanted;
use crate::reports::Reports;
use crate::settings::{Access, Settings};
use crate::spaces::{Held, Spaces, locator};
use crate::table::Table;
use crate::trust::{Noticing, Trust};
use crate::up;
use crate::view::Master;

/// How long work waits for the first list of a resource. A resource that is not served is never listed.
const FIRST_SIGHT: Duration = Duration::from_secs(5);

pub struct Core {
    pub settings: Settings,
    pub above: Client,
    pub below: Below,
    /// Cluster clients for work that holds a permit, and for the heartbeat.
    pub in_turn: Below,
    pub vital: Below,
    pub table: Table,
    pub queue: Queue,
    pub reports: Reports,
    pub contact: Contact,
    pub spaces: Spaces,
    master: watch::Sender<Option<Arc<Master>>>,
    pub trust: Arc<Trust>,
    pub pauses: Pauses,
    /// Whether the namespaces of the cluster have been read.
    is_loaded: AtomicBool,
    watches: Mutex<HashMap<Resource, Begun>>,
}

/// The watch of a resource in the cluster.
struct Begun {
    task: AbortHandle,
    /// Set when the first list is complete.
    listed: Arc<Flag>,
    /// Whether waiting for the first list has timed out.
    is_late: bool,
}

impl Core {
    pub fn new(settings: Settings, above: Client, below: Client) -> Arc<Core> {
        let trust = Trust::new();
        let budget = below.budget().cloned();
        let below = Noticing { client: below, trust: trust.clone() };
        let below = Client::new(Arc::new(below)).charged_to(budget.clone());
        let below = Below::new(below, settings.budget.clone(), trust.clone());
        let (in_turn, vital) = (below.in_turn(), below.out_of_turn());
        Arc::new(Core {
            settings,
            above,
            below,
            in_turn,
            vital,
            table: Table::new(budget.clone()),
            queue: Queue::new(),
            reports: Reports::new(budget.clone()),
            contact: Contact::default(),
            spaces: Spaces::new(budget),
            master: watch::Sender::new(None),
            trust,
            pauses: Pauses::default(),
            is_loaded: AtomicBool::new(false),
            watches: Mutex::default(),
        })
    }

    /// Waits until the registration is known and returns it.
    pub async fn master(&self) -> Arc<Master> {
        let mut known = self.master.subscribe();
        loop {
            if let Some(master) = known.borrow_and_update().clone() {
                return master;
            }
            if known.changed().await.is_err() {
                // The syncer was dropped, so no caller is left.
                return std::future::pending().await;
            }
        }
    }

    pub fn control_plane(&self) -> Option<Arc<Master>> {
        self.master.borrow().clone()
    }

    pub fn is_anothers(&self, master: &Master) -> bool {
        let ours = |known: &Arc<Master>| {
            known.control_plane == master.control_plane && known.cluster == master.cluster
        };
        self.master.borrow().as_ref().is_some_and(|known| !ours(known))
    }

    /// Starts a sync round with the registration and, for a new view, the lines that arrived before it was
    /// complete.
    pub fn begin(self: &Arc<Self>, master: Master, staged: Option<Vec<Line>>) {
        if let Some(staged) = &staged {
            self.pauses.begin(staged);
        }
        self.master.send_replace(Some(Arc::new(master)));
        if let Some(staged) = staged {
            self.spaces.begin_round();
            self.table.begin_round();
            self.spaces.forget_labels();
            for line in staged {
                self.heed(line);
            }
            self.table.end_round();
        }
    }

    pub fn heed(self: &Arc<Self>, line: Line) {
        match line {
            Line::Object { target, generation, object, drift } => {
                self.spaces.unend(&target.workspace, &target.namespace);
                self.want(target, Wanted::present(generation, &object).drifting(drift), 0);
            }
            Line::Remove { target, since } => self.want(target, Wanted::Absent, since),
            Line::Forget { target } => {
                self.table.forget(&target);
                let (workspace, namespace) = (&target.workspace, &target.namespace);
                if !self.table.has_namespace(workspace, namespace)
                    && let Some(master) = self.control_plane()
                {
                    // The namespace may be given away; verify it again before the next write.
                    self.spaces.doubt(&locator(&master.control_plane, &target));
                    self.queue.add(ending::key(workspace, namespace));
                }
            }
            Line::Namespace { workspace, namespace, labels } => {
                self.spaces.require(&workspace, &namespace, labels);
                self.queue.add(ending::key(&workspace, &namespace));
            }
            Line::Ending { workspace, namespace, uid, since } => {
                // The view belongs to this registration, which was verified before.
                self.spaces.end(&workspace, &namespace, (!uid.is_empty()).then_some(Held { uid, since }));
                self.queue.add(ending::key(&workspace, &namespace));
            }
            Line::Paused { workspace, paused, why } => {
                self.pauses.heed(workspace, paused.then_some(why));
                self.trust.doubts.notify_one();
                if !paused {
                    self.table
                        .unfinished(self.settings.drift)
                        .into_iter()
                        .for_each(|key| self.queue.add(key));
                    self.spaces.endings().into_iter().for_each(|key| self.queue.add(key));
                }
            }
            Line::Synced { .. } | Line::Alive => {}
        }
    }

    /// Sets the desired state. `since` is the revision above at which the removal was requested.
    fn want(self: &Arc<Self>, target: Target, wanted: Wanted, since: u64) {
        let resource = target.resource.clone();
        let is_present = wanted != Wanted::Absent;
        let key = self.table.want(target, wanted);
        self.table.leaves(&key, since);
        if is_present {
            self.reports.unsay_gone(&key);
        }
        if self.is_loaded.load(Ordering::Acquire) {
            self.watch(&resource);
        }
        self.queue.add(key);
    }

    /// Opens the write gate until the given time.
    pub async fn open(self: &Arc<Self>, until: Instant, master: &Master) -> Result<(), Status> {
        if self.settings.access == Access::Observe || master.observe {
            return Ok(());
        }
        if !self.is_loaded.load(Ordering::Acquire) {
            self.spaces.load(&self.vital, &master.control_plane).await?;
            self.is_loaded.store(true, Ordering::Release);
            for resource in self.table.resources() {
                self.watch(&resource);
            }
        }
        // Retry failed work at once.
        if self.trust.open(until) {
            self.table.unfinished(self.settings.drift).into_iter().for_each(|key| self.queue.add(key));
        }
        Ok(())
    }

    /// Waits until the cluster may be written to, the first list of `of` is complete, and a permit is
    /// available. Returns `None` if the syncer has stopped.
    pub async fn turn(&self, of: Option<&Resource>) -> Option<Turn> {
        loop {
            if !self.trust.opened().await {
                return None;
            }
            if let Some(resource) = of {
                self.sighted(resource).await;
            }
            let turn = self.below.turn().await;
            if self.trust.is_open() {
                return Some(turn);
            }
        }
    }

    /// Logs that a namespace stays in the cluster although the one above was deleted.
    pub fn tell_kept(&self, namespace: &str, contents: &[String]) {
        let (cluster, why) = (&self.settings.cluster, self.why_kept(namespace, contents));
        tracing::warn!(%cluster, namespace, "the namespace stays in the cluster: {why}");
    }

    /// Returns why a namespace stays in the cluster although the one above was deleted.
    pub fn why_kept(&self, namespace: &str, contents: &[String]) -> String {
        let cluster = &self.settings.cluster;
        format!(
            "namespace {namespace} stays in cluster {cluster} although the one above was deleted, because it is not empty: {}; \
             once that is gone: atoll orphans prune --cluster {cluster}",
            contents.join(", ")
        )
    }

    /// Stops all tasks.
    pub fn end(&self) {
        self.trust.end();
        for (_, begun) in self.watches().drain() {
            begun.task.abort();
        }
    }

    /// Reports an object above if its record has changed.
    pub fn tell(&self, key: &Key) {
        if let Some(record) = self.table.news(key) {
            self.reports.tell(key.clone(), record);
        }
    }

    /// Starts a watch of the placed objects of a resource.
    fn watch(self: &Arc<Self>, resource: &Resource) {
        let mut watches = self.watches();
        if watches.contains_key(resource) || self.trust.is_over() {
            return;
        }
        let listed = Arc::new(Flag::default());
        let (core, world) = (self.clone(), World::one(self.below.client.clone()));
        let task = tokio::spawn(up::follow(core, world, resource.clone(), listed.clone())).abort_handle();
        watches.insert(resource.clone(), Begun { task, listed, is_late: false });
    }

    /// Returns the watched resource of a kind.
    pub fn followed(&self, group: &str, kind: &str) -> Option<Resource> {
        self.watches().keys().find(|resource| resource.group == group && resource.kind == kind).cloned()
    }

    /// Waits until the first list of a resource is complete, up to a timeout.
    pub async fn sighted(&self, resource: &Resource) {
        let Some(listed) =
            self.watches().get(resource).filter(|begun| !begun.is_late).map(|begun| begun.listed.clone())
        else {
            return;
        };
        let seen = tokio::time::timeout(FIRST_SIGHT, listed.up()).await;
        if seen.is_err()
            && let Some(begun) = self.watches().get_mut(resource)
        {
            begun.is_late = true;
        }
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Resource, Begun>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
