//! All nodes with their Pods, updated incrementally.

// upstream: pkg/scheduler/backend/cache/cache.go
// upstream: pkg/scheduler/backend/cache/node_tree.go
// upstream: pkg/scheduler/backend/queue/nominator.go

mod existing_affinity;
mod tallies;
mod topology;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

pub use existing_affinity::{ExistingAffinity, TermEffect};
pub use tallies::{ClassNumber, CountedPods, Tallies};
pub use topology::{NO_DOMAIN, Topologies, Topology};

use crate::budgets::Budgets;
use crate::labels::Labels;
use crate::node::Node;
use crate::pod::{Pod, Port};
use crate::pod_affinity::Namespaces;
use crate::resources::Resources;
use crate::storage::Storage;
use crate::workloads::Workloads;

/// Resources and ports that the Pods of a node use.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    pub requested: Resources,
    /// Requests with defaults for containers without requests (`NonZeroRequested`).
    pub assumed: Resources,
    pub pods: i64,
    pub ports: Vec<Port>,
}

impl NodeUsage {
    pub fn add(&mut self, pod: &Pod) {
        self.requested.add(&pod.demand.requests);
        self.assumed.add(&pod.demand.assumed);
        self.pods += 1;
        self.ports.extend(pod.demand.ports.iter().cloned());
    }

    pub fn remove(&mut self, pod: &Pod) {
        self.requested.subtract(&pod.demand.requests);
        self.assumed.subtract(&pod.demand.assumed);
        self.pods -= 1;
        for port in &pod.demand.ports {
            if let Some(index) = self.ports.iter().position(|own| own == port) {
                self.ports.swap_remove(index);
            }
        }
    }
}

/// Entry of a node. Its Pods may be known before and after the node itself.
#[derive(Debug)]
pub struct Slot {
    name: Arc<str>,
    pub node: Option<Node>,
    pub usage: NodeUsage,
    pub pods: Vec<AssignedPod>,
    /// Pods that are nominated to this node.
    pub nominated: Vec<Arc<Pod>>,
}

/// A Pod that is assigned to a node.
#[derive(Clone, Debug)]
pub struct AssignedPod {
    pub pod: Arc<Pod>,
    class: ClassNumber,
}

/// Namespace and name of a Pod.
pub type PodKey = (Arc<str>, Arc<str>);

/// The nodes of one cluster.
#[derive(Debug, Default)]
pub struct NodeIndex {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// Entries of nodes in round-robin order over zones; `None` if it must be computed again.
    order: Option<Vec<usize>>,
    nodes: usize,
    placed: HashMap<PodKey, usize>,
    nominated: HashMap<PodKey, usize>,
    pub(crate) namespaces: Namespaces,
    pub(crate) topologies: Topologies,
    pub(crate) tallies: Tallies,
    pub(crate) existing_affinity: ExistingAffinity,
    pub storage: Storage,
    pub workloads: Workloads,
    pub budgets: Budgets,
    /// Position at which the next search for feasible nodes starts.
    pub(crate) next: usize,
}

impl NodeIndex {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Whether no Pod is assigned to any node.
    pub fn has_no_pods(&self) -> bool {
        self.placed.is_empty()
    }

    /// Returns a node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.slots[*self.by_name.get(name)?].as_ref()?.node.as_ref()
    }

    /// Adds or updates a node.
    pub fn set_node(&mut self, node: Node) {
        let index = self.slot(&node.name);
        let nodes = self.nodes;
        let Some(slot) = &mut self.slots[index] else { return };
        let same_place = slot.node.as_ref().is_some_and(|old| old.place() == node.place());
        if slot.node.as_ref().is_none_or(|old| old.labels != node.labels) {
            self.topologies.set(index, Some(&node.labels), nodes);
        }
        if slot.node.is_none() {
            self.nodes += 1;
        }
        slot.node = Some(node);
        if !same_place {
            self.order = None;
        }
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        let Some(index) = self.by_name.get(name).copied() else { return };
        let Some(slot) = &mut self.slots[index] else { return };
        if slot.node.take().is_some() {
            self.nodes -= 1;
            self.order = None;
            self.topologies.set(index, None, self.nodes);
        }
        self.free_if_empty(index);
    }

    /// Adds or updates a Pod on its node.
    pub fn set_pod(&mut self, pod: Arc<Pod>) {
        let key = (pod.namespace().clone(), pod.name.clone());
        self.remove_pod(&key.0, &key.1);
        let Some(node) = &pod.node else { return };
        let index = self.slot(node);
        self.placed.insert(key, index);
        let class = self.tallies.add(&pod.class, index, &self.namespaces);
        self.existing_affinity.add(&pod.demand.affinity, index);
        self.storage.add_pod(&pod);
        if let Some(slot) = &mut self.slots[index] {
            slot.usage.add(&pod);
            slot.pods.push(AssignedPod { pod, class });
        }
    }

    /// Removes a Pod from its node.
    pub fn remove_pod(&mut self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<Pod>> {
        let index = self.placed.remove(&(namespace.clone(), name.clone()))?;
        let slot = self.slots[index].as_mut()?;
        let position = slot
            .pods
            .iter()
            .position(|placed| placed.pod.name == *name && placed.pod.namespace() == namespace)?;
        let AssignedPod { pod, class } = slot.pods.swap_remove(position);
        slot.usage.remove(&pod);
        self.tallies.remove(class, index);
        self.existing_affinity.remove(&pod.demand.affinity, index);
        self.storage.remove_pod(&pod);
        self.free_if_empty(index);
        Some(pod)
    }

    /// Returns a Pod that is assigned to a node.
    pub fn pod(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Arc<Pod>> {
        let index = self.placed.get(&(namespace.clone(), name.clone()))?;
        let slot = self.slots[*index].as_ref()?;
        let mut pods = slot.pods.iter().map(|placed| &placed.pod);
        pods.find(|pod| pod.name == *name && pod.namespace() == namespace)
    }

    /// Sets or clears the nominated node of a Pod.
    pub fn nominate(&mut self, pod: &Arc<Pod>, node: Option<&Arc<str>>) {
        let key = (pod.namespace().clone(), pod.name.clone());
        if let Some(index) = self.nominated.remove(&key) {
            if let Some(slot) = &mut self.slots[index] {
                slot.nominated.retain(|other| other.name != pod.name || other.namespace() != pod.namespace());
            }
            self.free_if_empty(index);
        }
        if let Some(node) = node {
            let index = self.slot(node);
            self.nominated.insert(key, index);
            for term in &pod.demand.affinity.required_anti {
                self.track_topology(&term.topology);
            }
            if let Some(slot) = &mut self.slots[index] {
                slot.nominated.push(pod.clone());
            }
        }
    }

    pub fn set_namespace(&mut self, namespace: &Value) {
        let name = atoll_meta::object::name(namespace);
        let labels = Labels::of(namespace);
        if self.namespaces.get(name) != Some(&labels) {
            self.namespaces.insert(name.into(), labels);
            self.tallies.namespaces_changed();
        }
    }

    pub fn remove_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.tallies.namespaces_changed();
        }
    }

    fn slot(&mut self, name: &Arc<str>) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let slot = Slot {
            name: name.clone(),
            node: None,
            usage: NodeUsage::default(),
            pods: Vec::new(),
            nominated: Vec::new(),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        };
        self.by_name.insert(name.clone(), index);
        index
    }

    /// Frees an empty entry.
    fn free_if_empty(&mut self, index: usize) {
        let is_empty =
            |slot: &mut Slot| slot.node.is_none() && slot.pods.is_empty() && slot.nominated.is_empty();
        if let Some(slot) = self.slots[index].take_if(is_empty) {
            self.by_name.remove(&slot.name);
            self.free.push(index);
        }
    }

    /// Sorts the nodes in round-robin order over zones.
    pub(crate) fn sort_by_zone(&mut self) {
        if self.order.is_some() {
            return;
        }
        let mut zones: Vec<Vec<usize>> = Vec::new();
        let mut known = HashMap::new();
        for (index, node) in self.all_nodes() {
            let place = node.place();
            let zone = *known.entry(place).or_insert_with(|| {
                zones.push(Vec::new());
                zones.len() - 1
            });
            zones[zone].push(index);
        }
        let longest = zones.iter().map(Vec::len).max().unwrap_or_default();
        let mut order = Vec::with_capacity(self.nodes);
        for turn in 0..longest {
            order.extend(zones.iter().filter_map(|slots| slots.get(turn)));
        }
        self.order = Some(order);
    }

    /// Returns the entries of all nodes in order.
    pub(crate) fn order(&self) -> &[usize] {
        self.order.as_deref().unwrap_or_default()
    }

    /// Returns all nodes with the numbers of their entries.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((index, slot.as_ref()?.node.as_ref()?)))
    }

    /// Returns the node of an entry, with its usage.
    pub(crate) fn at(&self, index: usize) -> Option<(&Node, &Slot)> {
        let slot = self.slots.get(index)?.as_ref()?;
        Some((slot.node.as_ref()?, slot))
    }

    pub(crate) fn slot_of(&self, name: &str) -> Option<usize> {
        let index = *self.by_name.get(name)?;
        self.at(index).map(|_| index)
    }

    /// Starts to track the values of a topology label.
    pub(crate) fn track_topology(&mut self, topology: &Arc<str>) {
        if !self.topologies.contains(topology) {
            let slots = self.slots.iter().enumerate();
            let nodes =
                slots.filter_map(|(index, slot)| Some((index, &slot.as_ref()?.node.as_ref()?.labels)));
            self.topologies.insert(topology, nodes);
        }
    }

    /// Starts to track the topology labels in affinity terms of existing and nominated Pods.
    pub(crate) fn track_existing_affinity(&mut self) {
        let topologies = self.existing_affinity.topologies().filter(|key| !self.topologies.contains(key));
        for topology in topologies.cloned().collect::<Vec<_>>() {
            self.track_topology(&topology);
        }
    }

    /// Starts to count Pods.
    pub(crate) fn track_count(&mut self, counted: &CountedPods) {
        let slots = &self.slots;
        self.tallies.prepare(counted, &self.namespaces, || {
            let slots = slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_ref()?)));
            slots.flat_map(|(index, slot)| slot.pods.iter().map(move |placed| (placed.class, index)))
        });
    }
}
