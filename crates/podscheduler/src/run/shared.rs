//! The schedulers of all workspaces, and the workspaces with work.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Cache, Change, Informers, Key, Resource, resources};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::since;
use crate::pod::{self, Pod};
use crate::queue::ClusterEvent;
use crate::scheduler::{Decision, Scheduler};
use crate::storage::Bindings;

/// Resources that a scheduler uses besides Pods and nodes.
static OTHER_RESOURCES: [&Resource; 9] = [
    &resources::NAMESPACES,
    &resources::PERSISTENT_VOLUME_CLAIMS,
    &resources::PERSISTENT_VOLUMES,
    &resources::STORAGE_CLASSES,
    &resources::POD_DISRUPTION_BUDGETS,
    &resources::SERVICES,
    &resources::REPLICATION_CONTROLLERS,
    &resources::REPLICA_SETS,
    &resources::STATEFUL_SETS,
];

/// How long the start waits for resources that may not be served.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The next step of the scheduling loop.
pub enum NextStep {
    Decision(Arc<str>, Decision),
    /// Wait for a change, at most until this time.
    Wait(Option<Instant>),
}

pub struct Schedulers {
    state: Mutex<State>,
    changes: Notify,
    /// Notified of every change of a claim.
    pub claims: Notify,
    beginning: Instant,
    name: Arc<str>,
    others: Vec<Arc<Cache>>,
    pods: Arc<Cache>,
}

#[derive(Default)]
struct State {
    schedulers: HashMap<Arc<str>, Scheduler>,
    /// Workspaces with work, in round-robin order.
    busy: VecDeque<Arc<str>>,
    is_busy: HashSet<Arc<str>>,
    /// Workspaces to check again, by time.
    later: BTreeSet<(Duration, Arc<str>)>,
}

impl State {
    fn has_work(&mut self, workspace: &Arc<str>) {
        if self.is_busy.insert(workspace.clone()) {
            self.busy.push_back(workspace.clone());
        }
    }
}

impl Schedulers {
    /// Starts to watch all resources; returns when their first lists are complete.
    pub async fn listen(informers: &Informers, name: &Arc<str>) -> Arc<Self> {
        let others: Vec<Arc<Cache>> = OTHER_RESOURCES.iter().map(|resource| informers.of(resource)).collect();
        let shared = Arc::new(Schedulers {
            state: Mutex::default(),
            changes: Notify::new(),
            claims: Notify::new(),
            beginning: Instant::now(),
            name: name.clone(),
            others,
            pods: informers.of(&resources::PODS),
        });
        for cache in &shared.others {
            let own = shared.clone();
            let plural = cache.resource.plural.clone();
            cache.listen(move |change| own.other_changed(&plural, change));
        }
        let (nodes, pods) = (informers.of(&resources::NODES), shared.pods.clone());
        let own = shared.clone();
        nodes.listen(move |change| {
            own.with(&change.key.workspace, |scheduler, now| match &change.new {
                Some(node) => scheduler.set_node(node, now),
                None => scheduler.remove_node(&change.key.name, now),
            });
        });
        let own = shared.clone();
        pods.listen(move |change| own.pod_changed(change));
        for cache in [nodes, pods] {
            cache.synced().await;
        }
        for cache in &shared.others {
            // Not every API server serves all of them.
            if tokio::time::timeout(TIMEOUT, cache.synced()).await.is_err() {
                tracing::warn!(resource = %cache.resource.plural, "the resource is not available; scheduling Pods without it");
            }
        }
        shared
    }

    pub fn now(&self) -> Duration {
        since(self.beginning)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod_changed(&self, change: &Change) {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && !pod::affects_scheduling(old, new)
        {
            return;
        }
        self.with(&change.key.workspace, |scheduler, now| match &change.new {
            Some(pod) => scheduler.set_pod(pod, now),
            None => scheduler.remove_pod(&(change.key.namespace.clone(), change.key.name.clone()), now),
        });
    }

    /// Calls a function with the scheduler of a workspace, which is created if necessary.
    fn with<T>(&self, workspace: &Arc<str>, work: impl FnOnce(&mut Scheduler, Duration) -> T) -> T {
        let mut state = self.state();
        let scheduler =
            state.schedulers.entry(workspace.clone()).or_insert_with(|| self.scheduler(workspace));
        let result = work(scheduler, self.now());
        if scheduler.is_idle() {
            state.schedulers.remove(workspace);
        } else if scheduler.waiting() > 0 {
            state.has_work(workspace);
            drop(state);
            self.changes.notify_one();
        }
        result
    }

    /// Creates a scheduler with the other objects of its workspace.
    fn scheduler(&self, workspace: &str) -> Scheduler {
        let mut scheduler = Scheduler::new(self.name.clone());
        for cache in &self.others {
            for object in cache.list(workspace, "") {
                apply(&mut scheduler, &cache.resource.plural, &object);
            }
        }
        scheduler
    }

    /// Handles a change of another object. Workspaces without nodes and Pods have no scheduler.
    fn other_changed(&self, plural: &str, change: &Change) {
        let mut state = self.state();
        let now = self.now();
        let Some(scheduler) = state.schedulers.get_mut(&change.key.workspace) else { return };
        match &change.new {
            Some(object) => apply(scheduler, plural, object),
            None => forget(scheduler, plural, change),
        }
        let event = match plural {
            "persistentvolumeclaims" => {
                self.claims.notify_waiters();
                ClusterEvent::Claim
            }
            "persistentvolumes" => ClusterEvent::Volume,
            "storageclasses" => ClusterEvent::StorageClass,
            _ => return,
        };
        scheduler.requeue_on(event, now);
        if scheduler.waiting() > 0 {
            state.has_work(&change.key.workspace);
            drop(state);
            self.changes.notify_one();
        }
    }

    /// Returns the next decision, round-robin over workspaces.
    pub fn next(&self, random: crate::Random<'_>) -> NextStep {
        let mut state = self.state();
        let now = self.now();
        while let Some((at, workspace)) = state.later.first().cloned() {
            if at > now {
                break;
            }
            state.later.pop_first();
            state.has_work(&workspace);
        }
        while let Some(workspace) = state.busy.pop_front() {
            let Some(scheduler) = state.schedulers.get_mut(&workspace) else {
                state.is_busy.remove(&workspace);
                continue;
            };
            if let Some(decision) = scheduler.next(now, random) {
                state.busy.push_back(workspace.clone());
                return NextStep::Decision(workspace, decision);
            }
            let look = scheduler.next_flush(now);
            state.is_busy.remove(&workspace);
            state.later.retain(|(_, other)| *other != workspace);
            if let Some(look) = look {
                state.later.insert((look, workspace));
            }
        }
        NextStep::Wait(state.later.first().map(|(at, _)| self.beginning + *at))
    }

    /// Waits for a change, or until the given time.
    pub async fn changed(&self, at: Option<Instant>) {
        match at {
            None => self.changes.notified().await,
            Some(at) => drop(tokio::time::timeout_at(at, self.changes.notified()).await),
        }
    }

    pub fn bound(&self, workspace: &Arc<str>, pod: &Pod) {
        self.with(workspace, |scheduler, _| scheduler.bound(pod));
    }

    /// Reverts the assumed state of a Pod whose binding failed to that of the API.
    pub fn unbound(&self, workspace: &Arc<str>, pod: &Pod, bindings: &Bindings) {
        self.with(workspace, |scheduler, now| {
            for cache in &self.others {
                let keys: Vec<Key> = match &*cache.resource.plural {
                    "persistentvolumeclaims" => {
                        let key = |claim| Key::new(workspace, pod.namespace(), claim);
                        bindings.provisions.iter().map(|claim| key(claim)).collect()
                    }
                    "persistentvolumes" => bindings
                        .static_bindings
                        .iter()
                        .map(|(_, volume)| Key::new(workspace, "", volume))
                        .collect(),
                    _ => continue,
                };
                for object in keys.iter().filter_map(|key| cache.get(key)) {
                    apply(scheduler, &cache.resource.plural, &object);
                }
            }
            scheduler.unbound(pod, now);
        });
    }

    /// Reverts the assumed eviction of a Pod that could not be deleted.
    pub fn stays(&self, workspace: &Arc<str>, key: &Key) {
        let Some(pod) = self.pods.get(key) else { return };
        self.with(workspace, |scheduler, now| scheduler.set_pod(&pod, now));
    }

    /// Whether these claims of a Pod are bound; an error if they will not be.
    pub fn claims_are_bound(
        &self,
        workspace: &Arc<str>,
        pod: &Pod,
        node: &str,
        claims: &[Box<str>],
    ) -> Result<bool, String> {
        let state = self.state();
        let Some(scheduler) = state.schedulers.get(workspace) else { return Err("pod is gone".to_owned()) };
        let mut all = true;
        for claim in claims {
            all &= scheduler.node_index.storage.is_ready(pod.namespace(), claim, node)?;
        }
        Ok(all)
    }
}

fn apply(scheduler: &mut Scheduler, plural: &str, object: &Value) {
    let node_index = &mut scheduler.node_index;
    match plural {
        "namespaces" => node_index.set_namespace(object),
        "persistentvolumeclaims" => node_index.storage.set_claim(object),
        "persistentvolumes" => node_index.storage.set_volume(object),
        "storageclasses" => node_index.storage.set_class(object),
        "poddisruptionbudgets" => node_index.budgets.set(object),
        "services" => node_index.workloads.set_service(object),
        "replicationcontrollers" => node_index.workloads.set_workload("ReplicationController", object),
        "replicasets" => node_index.workloads.set_workload("ReplicaSet", object),
        "statefulsets" => node_index.workloads.set_workload("StatefulSet", object),
        _ => {}
    }
}

fn forget(scheduler: &mut Scheduler, plural: &str, change: &Change) {
    let node_index = &mut scheduler.node_index;
    let (namespace, name) = (&*change.key.namespace, &*change.key.name);
    match plural {
        "namespaces" => node_index.remove_namespace(name),
        "persistentvolumeclaims" => node_index.storage.remove_claim(namespace, name),
        "persistentvolumes" => node_index.storage.remove_volume(name),
        "storageclasses" => node_index.storage.remove_class(name),
        "poddisruptionbudgets" => node_index.budgets.remove(namespace, name),
        "services" => node_index.workloads.remove_service(namespace, name),
        "replicationcontrollers" => {
            node_index.workloads.remove_workload("ReplicationController", namespace, name)
        }
        "replicasets" => node_index.workloads.remove_workload("ReplicaSet", namespace, name),
        "statefulsets" => node_index.workloads.remove_workload("StatefulSet", namespace, name),
        _ => {}
    }
}
