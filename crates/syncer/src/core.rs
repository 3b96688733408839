//! What the parts of a syncer share.

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

/// How long work waits to see what is there already. What is not served there is never seen.
const FIRST_SIGHT: Duration = Duration::from_secs(5);

pub struct Core {
    pub settings: Settings,
    pub above: Client,
    pub below: Below,
    /// The same for what is done in turn, and for the heartbeat.
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
    /// Whether it is known which namespaces are there.
    is_loaded: AtomicBool,
    watches: Mutex<HashMap<Resource, Begun>>,
}

/// A watch of the cluster.
struct Begun {
    task: AbortHandle,
    /// Everything that is there was seen once.
    listed: Arc<Flag>,
    /// Whether somebody waited for it in vain.
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

    /// Whose syncer this is, once that is known.
    pub async fn master(&self) -> Arc<Master> {
        let mut known = self.master.subscribe();
        loop {
            if let Some(master) = known.borrow_and_update().clone() {
                return master;
            }
            if known.changed().await.is_err() {
                // Whoever shares it is gone, and so is everybody who asks.
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

    /// Everything was said once: by whom, and what, unless it was heeded already.
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
                    // Should anything go there again, it is looked at anew: it may have been given away.
                    self.spaces.doubt(&locator(&master.control_plane, &target));
                    self.queue.add(ending::key(workspace, namespace));
                }
            }
            Line::Namespace { workspace, namespace, labels } => {
                self.spaces.require(&workspace, &namespace, labels);
                self.queue.add(ending::key(&workspace, &namespace));
            }
            Line::Ending { workspace, namespace, uid, since } => {
                // Only of the one that speaks: whose it is was settled before.
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

    /// `since` is the revision above since which it is to go, if it is.
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

    /// The cluster may be written to, until then.
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
        // What failed meanwhile need not wait any longer.
        if self.trust.open(until) {
            self.table.unfinished(self.settings.drift).into_iter().for_each(|key| self.queue.add(key));
        }
        Ok(())
    }

    /// Waits until something may be done in the cluster, and it is one's turn; until what is there `of` a resource was seen, too.
    /// `None` if nothing is to be done any more.
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

    /// Says that a namespace in the cluster stays although the one above is gone.
    pub fn tell_kept(&self, namespace: &str, contents: &[String]) {
        let (cluster, why) = (&self.settings.cluster, self.why_kept(namespace, contents));
        tracing::warn!(%cluster, namespace, "the namespace stays in the cluster: {why}");
    }

    /// Why a namespace stays in the cluster although the one above is gone.
    pub fn why_kept(&self, namespace: &str, contents: &[String]) -> String {
        let cluster = &self.settings.cluster;
        format!(
            "namespace {namespace} stays in cluster {cluster} although the one above is gone, for there is something in it: {}; \
             once that is gone: atoll orphans prune --cluster {cluster}",
            contents.join(", ")
        )
    }

    /// Ends everything that was begun.
    pub fn end(&self) {
        self.trust.end();
        for (_, begun) in self.watches().drain() {
            begun.task.abort();
        }
    }

    /// Tells above what is new about an object.
    pub fn tell(&self, key: &Key) {
        if let Some(record) = self.table.news(key) {
            self.reports.tell(key.clone(), record);
        }
    }

    /// Follows what becomes of our objects of a resource.
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

    /// The resource of a kind of which there is something of ours.
    pub fn followed(&self, group: &str, kind: &str) -> Option<Resource> {
        self.watches().keys().find(|resource| resource.group == group && resource.kind == kind).cloned()
    }

    /// Returns when all objects of a resource were seen that are there, or after a while.
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
