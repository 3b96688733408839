//! Node lifecycle controller: marks nodes without heartbeats as unknown, and evicts their pods by taints.
//!
//! ```text
//!   Nodes ─► queue ─► taints by condition (NoSchedule), legacy labels
//!   every few seconds: Nodes, Leases ─► health ─► conditions Unknown, pods not ready
//!                                         └─► zones (eviction rate) ─► NoExecute ─► taint_eviction
//! ```

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

mod health;
mod taints;
mod zones;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Cache, Key, Next, Queue, Recorder, resources};
use atoll_meta::views::{NodeView, PodView};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::time::Instant;

use crate::context::Context;
use crate::nodes::{self, NO_EXECUTE};
use crate::settings::Settings;
use crate::shared::conditions;
use health::{GracePeriods, Health};
use zones::{DisruptionChange, Zones};

/// Number of nodes or pods that are processed concurrently.
const WORKERS: usize = 8;
/// Interval at which waiting nodes are tainted for eviction.
const EVICTION_INTERVAL: Duration = Duration::from_millis(100);
const EXCLUDE_DISRUPTION_LABEL: &str = "node.kubernetes.io/exclude-disruption";
/// Number of attempts to write a node that another writer keeps changing.
const ATTEMPTS: usize = 5;

pub async fn run(context: Context) {
    let pods = context.informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        nodes: context.informers.of(&resources::NODES),
        leases: context.informers.of(&resources::LEASES),
        by_node: pods.index(nodes::by_node),
        pods,
        state: Mutex::default(),
        recorder: context.events.recorder("node-controller"),
        settings: context.settings.clone(),
        context,
    });
    for cache in [&controller.nodes, &controller.leases, &controller.pods] {
        cache.synced().await;
    }
    let (nodes, pods) = (Queue::new(), Queue::new());
    controller.nodes.listen({
        let queue = nodes.clone();
        move |change| {
            if change.new.is_some() {
                queue.add(change.key.clone());
            }
        }
    });
    controller.pods.listen({
        let queue = pods.clone();
        move |change| {
            let node = |pod: &'_ Value| PodView::of(pod).node_name().map(String::from);
            let new = change.new.as_deref().and_then(node);
            if new.is_some() && change.old.as_deref().and_then(node) != new {
                queue.add(change.key.clone());
            }
        }
    });
    let tainting = {
        let controller = controller.clone();
        nodes.work("node taints", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.taint_by_condition(&key).await }
        })
    };
    let bound = {
        let controller = controller.clone();
        pods.work("pods on lost nodes", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync_pod(&key).await }
        })
    };
    let monitoring = {
        let controller = controller.clone();
        async move {
            loop {
                controller.monitor().await;
                tokio::time::sleep(controller.settings.node_monitor_period).await;
            }
        }
    };
    let evicting = async move {
        loop {
            tokio::time::sleep(EVICTION_INTERVAL).await;
            controller.evict_due_nodes().await;
        }
    };
    tokio::join!(tainting, bound, monitoring, evicting);
}

struct Controller {
    nodes: Arc<Cache>,
    leases: Arc<Cache>,
    pods: Arc<Cache>,
    by_node: usize,
    state: Mutex<MonitorState>,
    recorder: Recorder,
    settings: Arc<Settings>,
    context: Context,
}

#[derive(Default)]
struct MonitorState {
    known: HashMap<Key, Arc<Value>>,
    health: HashMap<Key, Health>,
    /// Zones by workspace.
    zones: BTreeMap<Arc<str>, Zones>,
    /// Nodes whose pods were not all marked not ready yet.
    pods_to_mark: HashSet<Key>,
}

impl Controller {
    fn state(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> String {
        self.context.clock.now().to_time()
    }

    /// Sets the NoSchedule taints of conditions, and the legacy labels.
    async fn taint_by_condition(&self, key: &Key) -> Result<Next, Status> {
        let wanted = |node: &Value| {
            let (taints, labels) =
                (taints::no_schedule_taints(node, &self.now()), taints::missing_labels(node));
            (taints.is_some() || !labels.is_empty()).then(|| nodes::patch(node, taints, &labels))
        };
        self.change(key, wanted).await.map(|_| Next::Done)
    }

    /// Patches a node as its current state requires. Returns whether it was changed.
    async fn change(&self, key: &Key, wanted: impl Fn(&Value) -> Option<Value>) -> Result<bool, Status> {
        let (api, kind) = (self.context.api(), &resources::NODES);
        let Some(mut node) = self.nodes.get(key) else { return Ok(false) };
        let mut outcome = Ok(false);
        for _ in 0..ATTEMPTS {
            let Some(patch) = wanted(&node) else { return Ok(false) };
            outcome = match api.patch(kind, key, "", &patch).await {
                Ok(written) => {
                    self.nodes.wrote(&written);
                    return Ok(true);
                }
                Err(status) if status.reason() == "NotFound" => return Ok(false),
                Err(status) if status.reason() == "Conflict" => Err(status),
                Err(status) => return Err(status),
            };
            node = Arc::new(api.get(kind, key).await?);
        }
        outcome
    }

    /// Taints the nodes that are due for eviction.
    async fn evict_due_nodes(&self) {
        let due: Vec<Key> =
            self.state().zones.values_mut().flat_map(|zones| zones.due(Instant::now())).collect();
        for key in due {
            let wanted = |node: &Value| {
                let ready = NodeView::of(node).condition("Ready")?;
                let (add, remove) = taints::eviction_taint(ready.status())?;
                let taints = nodes::with_taints_swapped(
                    node,
                    &[(add, NO_EXECUTE)],
                    &[(remove, NO_EXECUTE)],
                    &self.now(),
                )?;
                Some(nodes::patch(node, Some(taints), &[]))
            };
            if let Err(status) = self.change(&key, wanted).await {
                // The next monitor pass adds the node again.
                tracing::warn!(%status, %key, "tainting a node for eviction failed");
            }
        }
    }

    async fn mark_reachable(&self, key: &Key) {
        let wanted = |node: &Value| {
            Some(nodes::patch(node, Some(taints::without_eviction_taints(node, &self.now())?), &[]))
        };
        if let Err(status) = self.change(key, wanted).await {
            tracing::warn!(%status, %key, "removing the taints of a node failed; retrying");
        }
        if let Some(node) = self.nodes.get(key)
            && let Some(zones) = self.state().zones.get_mut(&key.workspace)
        {
            zones.remove(&zones::of(&node), key);
        }
    }

    async fn monitor(&self) {
        let all = self.nodes.all();
        self.record_node_changes(&all);
        let mut counts: BTreeMap<Arc<str>, BTreeMap<String, (usize, usize)>> = BTreeMap::new();
        for node in &all {
            let Some(ready) = self.check_health(node).await else { continue };
            if object::label(node, EXCLUDE_DISRUPTION_LABEL).is_some() {
                continue;
            }
            let zones = counts.entry(Key::of(node).workspace).or_default();
            let (good, bad) = zones.entry(zones::of(node)).or_default();
            *if ready == "True" { good } else { bad } += 1;
        }
        let changes: Vec<(Arc<str>, DisruptionChange)> = {
            let mut state = self.state();
            state.zones.retain(|workspace, _| counts.contains_key(workspace));
            let change = |(workspace, counts): (Arc<str>, BTreeMap<_, _>)| {
                let zones = state.zones.entry(workspace.clone()).or_default();
                (workspace, zones.update(&counts, &self.settings))
            };
            counts.into_iter().map(change).collect()
        };
        for (workspace, change) in changes {
            let nodes_of_workspace =
                || all.iter().map(|node| Key::of(node)).filter(|key| key.workspace == workspace);
            match change {
                DisruptionChange::None => {}
                DisruptionChange::StopEvictions => {
                    for key in nodes_of_workspace() {
                        self.mark_reachable(&key).await;
                    }
                }
                DisruptionChange::Resume => {
                    let (now, mut state) = (self.context.clock.now(), self.state());
                    for key in nodes_of_workspace() {
                        if let Some(health) = state.health.get_mut(&key) {
                            health.last_heartbeat = now;
                        }
                    }
                }
            }
        }
    }

    /// Records events about new and deleted nodes.
    fn record_node_changes(&self, all: &[Arc<Value>]) {
        let mut state = self.state();
        let present: HashSet<Key> = all.iter().map(|node| Key::of(node)).collect();
        let gone: Vec<Key> = state.known.keys().filter(|key| !present.contains(key)).cloned().collect();
        for key in gone {
            state.health.remove(&key);
            state.pods_to_mark.remove(&key);
            if let Some(node) = state.known.remove(&key) {
                self.record(&node, "RemovingNode", &format!("Removing Node {} from Controller", key.name));
            }
        }
        for node in all {
            let key = Key::of(node);
            let zones = state.zones.entry(key.workspace.clone()).or_default();
            zones.insert(zones::of(node), &self.settings);
            if state.known.insert(key.clone(), node.clone()).is_none() {
                self.record(node, "RegisteredNode", &format!("Registered Node {} in Controller", key.name));
            }
        }
    }

    fn record(&self, node: &Value, reason: &str, event: &str) {
        let message = format!("Node {} event: {event}", object::name(node));
        self.recorder.normal(&resources::NODES, node, reason, message);
    }

    /// Checks the health of a node and applies the consequences. Returns the status of its Ready condition,
    /// if known.
    async fn check_health(&self, node: &Arc<Value>) -> Option<String> {
        let key = Key::of(node);
        let lease = self.leases.get(&Key::new(&key.workspace, "kube-node-lease", &key.name));
        let grace_periods = GracePeriods {
            monitor: self.settings.node_monitor_grace_period,
            startup: self.settings.node_startup_grace_period,
        };
        let known = self.state().health.get(&key).cloned();
        let observation =
            health::observe(known.as_ref(), node, lease.as_deref(), self.context.clock.now(), grace_periods);
        if let Some(unknown) = &observation.unknown {
            match self.context.api().update_status(&resources::NODES, unknown).await {
                Ok(written) => self.nodes.wrote(&written),
                // The node may just have sent a heartbeat; the next pass decides.
                Err(status) => {
                    tracing::debug!(%status, %key, "setting the conditions of a node to Unknown failed");
                    return None;
                }
            }
        }
        self.state().health.insert(key.clone(), observation.health);
        let Some(ready) = observation.ready else { return Some(String::new()) };
        match taints::eviction_taint(&ready) {
            None => {
                if taints::without_eviction_taints(node, "").is_some() {
                    self.mark_reachable(&key).await;
                } else if let Some(zones) = self.state().zones.get_mut(&key.workspace) {
                    zones.remove(&zones::of(node), &key);
                }
            }
            // Swap two taints that exclude each other immediately.
            Some((add, opposite)) if nodes::has_taint(node, opposite, NO_EXECUTE) => {
                let wanted = |node: &Value| {
                    let taints = nodes::with_taints_swapped(
                        node,
                        &[(add, NO_EXECUTE)],
                        &[(opposite, NO_EXECUTE)],
                        &self.now(),
                    )?;
                    Some(nodes::patch(node, Some(taints), &[]))
                };
                if let Err(status) = self.change(&key, wanted).await {
                    tracing::warn!(%status, %key, "swapping the taints of a node failed; retrying");
                }
            }
            Some((add, _)) => {
                if !nodes::has_taint(node, add, NO_EXECUTE)
                    && let Some(zones) = self.state().zones.get_mut(&key.workspace)
                {
                    zones.add(&zones::of(node), key.clone());
                }
            }
        }
        self.mark_pods_not_ready(node, &key, &ready, observation.was_ready).await;
        Some(ready)
    }

    /// Marks the pods of a node that stopped being ready as not ready.
    async fn mark_pods_not_ready(&self, node: &Value, key: &Key, ready: &str, was_ready: bool) {
        let is_pending = self.state().pods_to_mark.contains(key);
        // A kubelet that reports the node as not ready also reports its pods.
        let has_failed = ready != "True" && was_ready;
        if has_failed {
            let message = format!("Node {} status is now: NodeNotReady", key.name);
            self.recorder.normal(&resources::NODES, node, "NodeNotReady", message);
        }
        if !has_failed && (!is_pending || ready == "True") {
            self.state().pods_to_mark.remove(key);
            return;
        }
        let mut all_marked = true;
        for pod in self.pods.by_index(self.by_node, &key.to_string()) {
            if let Err(status) = self.mark_pod_not_ready(&pod).await {
                tracing::debug!(%status, pod = object::name(&pod), "marking a pod as not ready failed; retrying");
                all_marked = false;
            }
        }
        let mut state = self.state();
        match all_marked {
            true => drop(state.pods_to_mark.remove(key)),
            false => drop(state.pods_to_mark.insert(key.clone())),
        }
    }

    async fn mark_pod_not_ready(&self, pod: &Arc<Value>) -> Result<(), Status> {
        let Some(ready) = PodView::of(pod).condition("Ready").filter(|ready| !ready.is_false()) else {
            return Ok(());
        };
        let mut condition = ready.json().clone();
        condition["status"] = "False".into();
        let mut updated = pod.as_ref().clone();
        conditions::set_in(&mut updated, condition, &self.now());
        match self.context.api().update_status(&resources::PODS, &updated).await {
            Ok(written) => self.pods.wrote(&written),
            Err(status) if status.reason() == "NotFound" => return Ok(()),
            Err(status) => return Err(status),
        }
        self.recorder.warning(&resources::PODS, pod, "NodeNotReady", "Node is not ready");
        Ok(())
    }

    /// Marks a pod that was bound to a node which is not ready.
    async fn sync_pod(&self, key: &Key) -> Result<Next, Status> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        let node = key.in_workspace(PodView::of(&pod).node_name().unwrap_or_default());
        let ready = self.state().health.get(&node).and_then(|health| health.ready.clone());
        if self.nodes.get(&node).is_some() && ready.is_some_and(|ready| ready != "True") {
            self.mark_pod_not_ready(&pod).await?;
        }
        Ok(Next::Done)
    }
}
