//! Inventory of the cluster: capacity and usage of its nodes, and the Pods of placed objects.

mod node;
mod node_groups;
mod quotas;
mod workload_pods;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_client::memory_limits::Charge;
use atoll_fleet::view::PodCounts;
use atoll_informer::{ApiScope, ListWatch, ListWatchEvent, list_and_watch, resources};
use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use atoll_meta::views::PodView;
use atoll_quota::Amounts;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use node::{ENTRY, InventoryNode, limited, size};
use node_groups::{Group, NodeGroups, OpenNode};
use quotas::NamespaceQuota;
use workload_pods::{MeasuredPods, OwnedKind, PodState, WorkloadPods};

pub use quotas::MappedQuotas;
pub use workload_pods::Owner;

/// Maximum number of zones that are reported for a cluster.
const ZONES: usize = 64;
/// Maximum number of objects whose bound Pods are reported in a heartbeat.
const BOUND: usize = 5_000;
/// Selects Pods that still use resources.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

#[derive(Default)]
pub struct Inventory {
    state: Mutex<NodesAndPods>,
    /// Notified when the Pods of an object have changed.
    pub changed: Notify,
}

/// A workload that is placed on the cluster.
pub struct PlacedWorkload {
    pub uid_above: String,
    pub uid_below: String,
}

#[derive(Default)]
struct NodesAndPods {
    nodes: HashMap<String, InventoryNode>,
    pods: HashMap<String, Pod>,
    /// By uid.
    quotas: HashMap<String, NamespaceQuota>,
    workloads: WorkloadPods,
    /// Whether the first list is complete.
    has_nodes: bool,
    has_pods: bool,
    has_quotas: bool,
    charge: Charge,
}

#[derive(Clone, Debug)]
struct Pod {
    /// Namespace and name, as in metrics.
    name: String,
    node: String,
    requests: Amounts,
    owner: Option<Owner>,
    state: PodState,
}

impl Pod {
    fn size(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, Owner::size);
        size(&self.requests) + self.node.len() + self.name.len() + owner + ENTRY
    }
}

impl NodesAndPods {
    /// Adds a node if the memory budget allows it. The budget records the refusal, which the heartbeat
    /// reports.
    fn add_node(&mut self, uid: &str, node: InventoryNode) {
        self.remove_node(uid);
        if self.charge.grow(node.size() + uid.len()).is_ok() {
            self.nodes.insert(uid.into(), node);
        }
    }

    fn remove_node(&mut self, uid: &str) {
        if let Some(node) = self.nodes.remove(uid) {
            self.charge.shrink(node.size() + uid.len());
        }
    }

    fn add_pod(&mut self, uid: &str, pod: Pod, reason: &str) {
        let before = self.take_pod(uid);
        let before = before.as_ref().and_then(|before| Some((before.owner.as_ref()?, &before.state)));
        let is_kept = self.charge.grow(pod.size() + uid.len()).is_ok();
        if let Some(owner) = &pod.owner {
            let same = before.filter(|(of, _)| *of == owner).map(|(_, state)| state);
            self.workloads.count(owner, same, is_kept.then_some((&pod.state, reason)));
        }
        if let Some((owner, state)) = before.filter(|(of, _)| pod.owner.as_ref() != Some(*of)) {
            self.workloads.count(owner, Some(state), None);
        }
        if is_kept {
            self.pods.insert(uid.into(), pod);
        }
    }

    fn remove_pod(&mut self, uid: &str) {
        if let Some(Pod { owner: Some(owner), state, .. }) = self.take_pod(uid) {
            self.workloads.count(&owner, Some(&state), None);
        }
    }

    fn take_pod(&mut self, uid: &str) -> Option<Pod> {
        let pod = self.pods.remove(uid)?;
        self.charge.shrink(pod.size() + uid.len());
        Some(pod)
    }

    /// Sets the controller of a ReplicaSet or Job.
    fn set_parent(&mut self, kind: OwnedKind, uid: &str, parent: Option<Owner>) {
        if self.workloads.parent_of(uid) == parent.as_ref() {
            return;
        }
        self.remove_parent(uid);
        if let Some(parent) = parent
            && self.charge.grow(parent.size() + uid.len()).is_ok()
        {
            self.workloads.set_parent(kind, uid, parent);
        }
    }

    fn remove_parent(&mut self, uid: &str) {
        if let Some(parent) = self.workloads.parent_of(uid) {
            let size = parent.size() + uid.len();
            self.charge.shrink(size);
            self.workloads.remove_parent(uid);
        }
    }
}

impl Inventory {
    /// Watches nodes, Pods and the objects between Pods and workloads for as long as it is polled.
    pub async fn run(&self, api: &ApiScope) {
        self.state().charge = Charge::new(api.client().budget().cloned());
        let nodes = list_and_watch(api, ListWatch::all(&resources::NODES), |event| self.node(event));
        let list_watch = ListWatch::all(&resources::PODS).field_selector(UNFINISHED);
        let pods = list_and_watch(api, list_watch, |event| self.pod(event));
        let list_watch = ListWatch::all(&resources::REPLICA_SETS).metadata_only();
        let replica_sets = list_and_watch(api, list_watch, |event| self.parent(event, OwnedKind::ReplicaSet));
        let list_watch = ListWatch::all(&resources::JOBS).metadata_only();
        let jobs = list_and_watch(api, list_watch, |event| self.parent(event, OwnedKind::Job));
        let quotas =
            list_and_watch(api, ListWatch::all(&resources::RESOURCE_QUOTAS), |event| self.quota(event));
        tokio::join!(nodes, pods, replica_sets, jobs, quotas);
    }

    fn node(&self, event: ListWatchEvent<'_>) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(node) => state.add_node(object::uid(&node), InventoryNode::of(&node)),
            ListWatchEvent::Deleted(node) => state.remove_node(object::uid(&node)),
            ListWatchEvent::Listed(present, _) => {
                for uid in absent(&state.nodes, present) {
                    state.remove_node(&uid);
                }
                state.has_nodes = true;
            }
        }
    }

    fn pod(&self, event: ListWatchEvent<'_>) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(pod) => {
                let requests = limited(&atoll_quota::requests(&pod, &Amounts::default()));
                let node = PodView::of(&pod).node_name().unwrap_or_default().to_string();
                let name = format!("{}/{}", object::namespace(&pod), object::name(&pod));
                let (pod_state, reason) = PodState::of(&pod);
                let owner = Owner::of(&pod);
                let counted = Pod { name, node, requests, owner, state: pod_state };
                state.add_pod(object::uid(&pod), counted, &reason);
            }
            ListWatchEvent::Deleted(pod) => state.remove_pod(object::uid(&pod)),
            ListWatchEvent::Listed(present, _) => {
                for uid in absent(&state.pods, present) {
                    state.remove_pod(&uid);
                }
                state.has_pods = true;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Records the controller of a ReplicaSet or Job.
    fn parent(&self, event: ListWatchEvent<'_>, kind: OwnedKind) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(found) => state.set_parent(kind, object::uid(&found), Owner::of(&found)),
            ListWatchEvent::Deleted(found) => state.remove_parent(object::uid(&found)),
            ListWatchEvent::Listed(present, _) => {
                for uid in state.workloads.absent(kind, present) {
                    state.remove_parent(&uid);
                }
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the Pods of the object with this uid below; `None` before the first list is complete.
    pub fn pods_of(&self, uid: &str) -> Option<PodCounts> {
        let state = self.state();
        state.has_pods.then(|| state.workloads.of(uid))
    }

    /// Returns the objects whose Pods have changed since the last call.
    pub fn take_changed(&self) -> BTreeSet<Owner> {
        self.state().workloads.take_changed()
    }

    /// Number of Pods in the cluster.
    pub fn pod_count(&self) -> usize {
        self.state().pods.len()
    }

    /// Sets the usage of Pods: millicores and bytes by namespace and name.
    pub fn set_usage(&self, usage: &HashMap<String, (i64, i64)>) {
        let mut state = self.state();
        let state = &mut *state;
        let mut sums: HashMap<&Owner, MeasuredPods> = HashMap::new();
        for pod in state.pods.values() {
            let Some(owner) = &pod.owner else { continue };
            let sum = sums.entry(owner).or_default();
            // Pods that are not ready do not show yet what they will use.
            let is_counted = pod.state.is_ready && !pod.state.is_terminating;
            if let Some((cpu, memory)) = usage.get(&pod.name).filter(|_| is_counted) {
                let request = |name: &str| pod.requests.get(name).map(|amount| units(name, amount));
                *sum = sum.and(MeasuredPods {
                    pods: 1,
                    cpu: *cpu,
                    memory: *memory,
                    requested_cpu: request("cpu").filter(|request| *request > 0),
                    requested_memory: request("memory").filter(|request| *request > 0),
                });
            }
        }
        state.workloads.set_usage(&sums);
        self.changed.notify_one();
    }

    /// Returns fields of the status of the Cluster, as far as they are known. Free capacity, bound Pods and what
    /// ResourceQuotas leave are of the same moment.
    pub fn status(&self, placed: &[PlacedWorkload], mapped: &MappedQuotas) -> Map<String, Value> {
        let state = self.state();
        let mut status = Map::new();
        if state.has_nodes {
            let nodes = state.nodes.values();
            let ready = nodes.clone().filter(|node| node.is_ready).count();
            status.insert("nodes".into(), json!({ "total": state.nodes.len(), "ready": ready }));
            status.insert("capacity".into(), sum(nodes.clone().map(|node| &node.capacity)).to_json());
            status.insert("allocatable".into(), sum(nodes.clone().map(|node| &node.allocatable)).to_json());
            if let Some(region) = most_frequent(nodes.clone().filter_map(|node| node.region.as_deref())) {
                status.insert("region".into(), region.into());
            }
            let zones: BTreeSet<&str> = nodes.filter_map(|node| node.zone.as_deref()).collect();
            let zones: Vec<&str> = zones.into_iter().take(ZONES).collect();
            if !zones.is_empty() {
                status.insert("zones".into(), json!(zones));
            }
        }
        if state.has_pods {
            let mut requested = sum(state.pods.values().map(|pod| &pod.requests));
            requested.set_count("pods", state.pods.len());
            status.insert("requested".into(), requested.to_json());
        }
        if state.has_nodes && state.has_pods {
            let NodeGroups { groups, cut_nodes, cut_labels } = node_groups(&state);
            status.insert("free".into(), groups.iter().map(Group::free_to_json).collect());
            status.insert("freeNodes".into(), groups.iter().map(Group::nodes_to_json).collect());
            let (bound, cut_bound) = bound(&state.workloads, placed);
            status.insert("bound".into(), bound.into());
            let (left, cut_quotas) = quotas::left(&state, mapped);
            if !left.is_empty() {
                status.insert("quotas".into(), left.into());
            }
            let mut cut = Map::new();
            for (name, count) in [("nodes", cut_nodes), ("bound", cut_bound), ("quotas", cut_quotas)] {
                if count > 0 {
                    cut.insert(name.into(), count.into());
                }
            }
            if !cut_labels.is_empty() {
                cut.insert("labels".into(), cut_labels.into());
            }
            if !cut.is_empty() {
                status.insert("cut".into(), cut.into());
            }
        }
        status
    }

    fn state(&self) -> MutexGuard<'_, NodesAndPods> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absent<T>(known: &HashMap<String, T>, present: &HashSet<String>) -> Vec<String> {
    known.keys().filter(|uid| !present.contains(*uid)).cloned().collect()
}

fn sum<'a>(all: impl Iterator<Item = &'a Amounts>) -> Amounts {
    let sum = all.fold(Amounts::default(), |mut sum, one| {
        sum.add(one);
        sum
    });
    limited(&sum)
}

/// Returns the most frequent value; the first by name if there are several.
fn most_frequent<'a>(said: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in said {
        *counts.entry(one).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(one, _)| one)
}

/// Returns the numbers of bound Pods of placed workloads by their uid above, and how many of them are left out.
fn bound(workloads: &WorkloadPods, placed: &[PlacedWorkload]) -> (Map<String, Value>, usize) {
    let counts = placed.iter().map(|one| (one, workloads.bound(&one.uid_below)));
    let mut counts: Vec<(&PlacedWorkload, i64)> = counts.filter(|(_, count)| *count > 0).collect();
    // Those with most Pods first.
    if counts.len() > BOUND {
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }
    let cut = counts.len().saturating_sub(BOUND);
    let kept = counts.into_iter().take(BOUND);
    (kept.map(|(one, count)| (one.uid_above.clone(), count.into())).collect(), cut)
}

/// Returns the groups of nodes that accept Pods.
fn node_groups(state: &NodesAndPods) -> NodeGroups {
    let mut taken: HashMap<&str, (Amounts, usize)> = HashMap::new();
    for pod in state.pods.values().filter(|pod| !pod.node.is_empty()) {
        let (requests, count) = taken.entry(&pod.node).or_default();
        requests.add(&pod.requests);
        *count += 1;
    }
    let open = state.nodes.values().filter(|node| node.is_ready && node.is_schedulable);
    let nodes = open.map(|node| {
        let mut left = node.allocatable.clone();
        let mut pods = Amounts::default();
        if let Some((requests, count)) = taken.get(node.name.as_str()) {
            left.subtract(requests);
            pods.set_count("pods", *count);
        }
        left.subtract(&pods);
        let free = left.iter().map(|(name, amount)| (name.to_string(), units(name, amount))).collect();
        OpenNode { labels: &node.labels, taints: &node.taints, free }
    });
    node_groups::group(&nodes.collect::<Vec<_>>())
}

fn units(name: &str, amount: &Quantity) -> i64 {
    if name == "cpu" { amount.millis() } else { amount.units() }
}

#[cfg(test)]
mod tests;
