//! Inventory of the cluster: capacity and usage of its nodes, kept as totals.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_client::memory_limits::Charge;
use atoll_informer::{ApiScope, ListWatch, ListWatchEvent, list_and_watch, resources};
use atoll_meta::object;
use atoll_meta::quantity::{Format, Quantity};
use atoll_meta::views::{NodeView, PodView, TaintView};
use atoll_quota::Amounts;
use serde_json::{Map, Value, json};

/// Maximum number of rows of free capacity.
const ROWS: usize = 16;
/// Maximum number of zones and resources that are reported for a cluster.
const ZONES: usize = 64;
const RESOURCES: usize = 64;
/// Maximum lengths of a label value and of a qualified resource name; longer ones are ignored.
const LABEL: usize = 63;
const RESOURCE: usize = 317;
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Selects Pods that still use resources.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

#[derive(Default)]
pub struct Inventory {
    state: Mutex<NodesAndPods>,
}

#[derive(Default)]
struct NodesAndPods {
    nodes: HashMap<String, Node>,
    pods: HashMap<String, Pod>,
    /// Whether the first list is complete.
    has_nodes: bool,
    has_pods: bool,
    charge: Charge,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    capacity: Amounts,
    allocatable: Amounts,
    is_ready: bool,
    /// Whether Pods can be scheduled there.
    is_schedulable: bool,
    region: Option<String>,
    zone: Option<String>,
}

#[derive(Clone, Debug)]
struct Pod {
    node: String,
    requests: Amounts,
}

impl Node {
    fn of(node: &Value) -> Node {
        let view = NodeView::of(node);
        let excludes_pods = |taint: TaintView<'_>| matches!(taint.effect(), "NoSchedule" | "NoExecute");
        Node {
            name: object::name(node).into(),
            capacity: limited(&Amounts::read(view.capacity())),
            allocatable: limited(&Amounts::read(view.allocatable())),
            is_ready: view.is_ready(),
            is_schedulable: !view.is_unschedulable() && !view.taints().any(excludes_pods),
            region: label(node, REGION),
            zone: label(node, ZONE),
        }
    }
}

impl Node {
    /// Estimates the memory of the entry.
    fn size(&self) -> usize {
        let texts = [Some(&self.name), self.region.as_ref(), self.zone.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        size(&self.capacity) + size(&self.allocatable) + texts + ENTRY
    }
}

impl Pod {
    fn size(&self) -> usize {
        size(&self.requests) + self.node.len() + ENTRY
    }
}

/// Memory of a map entry in addition to its content.
const ENTRY: usize = 256;
/// Memory of an amount.
const AMOUNT: usize = 96;

fn label(node: &Value, name: &str) -> Option<String> {
    object::label(node, name).filter(|value| value.len() <= LABEL).map(str::to_string)
}

/// Limits the number of resources, because a cluster may report any number of them.
fn limited(amounts: &Amounts) -> Amounts {
    let short = amounts.iter().filter(|(name, _)| name.len() <= RESOURCE);
    // Native resources first.
    let (others, own): (Vec<_>, Vec<_>) = short.partition(|(name, _)| name.contains('/'));
    let mut limited = Amounts::default();
    for (name, amount) in own.into_iter().chain(others).take(RESOURCES) {
        limited.set(name, amount.clone());
    }
    limited
}

fn size(amounts: &Amounts) -> usize {
    amounts.iter().map(|(name, _)| name.len() + AMOUNT).sum()
}

impl NodesAndPods {
    /// Adds a node if the memory budget allows it. The budget records the refusal, which the heartbeat
    /// reports.
    fn add_node(&mut self, uid: &str, node: Node) {
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

    fn add_pod(&mut self, uid: &str, pod: Pod) {
        self.remove_pod(uid);
        if self.charge.grow(pod.size() + uid.len()).is_ok() {
            self.pods.insert(uid.into(), pod);
        }
    }

    fn remove_pod(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            self.charge.shrink(pod.size() + uid.len());
        }
    }
}

impl Inventory {
    /// Watches nodes and Pods for as long as it is polled.
    pub async fn run(&self, api: &ApiScope) {
        self.state().charge = Charge::new(api.client().budget().cloned());
        let nodes = list_and_watch(api, ListWatch::all(&resources::NODES), |event| self.node(event));
        let list_watch = ListWatch::all(&resources::PODS).field_selector(UNFINISHED);
        let pods = list_and_watch(api, list_watch, |event| self.pod(event));
        tokio::join!(nodes, pods);
    }

    fn node(&self, event: ListWatchEvent<'_>) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(node) => state.add_node(object::uid(&node), Node::of(&node)),
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
                state.add_pod(object::uid(&pod), Pod { node, requests });
            }
            ListWatchEvent::Deleted(pod) => state.remove_pod(object::uid(&pod)),
            ListWatchEvent::Listed(present, _) => {
                for uid in absent(&state.pods, present) {
                    state.remove_pod(&uid);
                }
                state.has_pods = true;
            }
        }
    }

    /// Returns fields of the status of the Cluster, as far as they are known.
    pub fn status(&self) -> Map<String, Value> {
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
            status.insert("free".into(), free(&state).into());
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

/// Free amounts of a node: millicores, bytes, Pods, and units of other resources.
type Free = BTreeMap<String, i64>;

fn free(state: &NodesAndPods) -> Vec<Value> {
    let mut taken: HashMap<&str, (Amounts, usize)> = HashMap::new();
    for pod in state.pods.values().filter(|pod| !pod.node.is_empty()) {
        let (requests, count) = taken.entry(&pod.node).or_default();
        requests.add(&pod.requests);
        *count += 1;
    }
    let open = state.nodes.values().filter(|node| node.is_ready && node.is_schedulable);
    let rows = open.map(|node| {
        let mut left = node.allocatable.clone();
        let mut pods = Amounts::default();
        if let Some((requests, count)) = taken.get(node.name.as_str()) {
            left.subtract(requests);
            pods.set_count("pods", *count);
        }
        left.subtract(&pods);
        left.iter().map(|(name, amount)| (name.to_string(), units(name, amount))).collect::<Free>()
    });
    rounded(&rows.collect::<Vec<_>>()).into_iter().map(|(row, nodes)| to_json(&row, nodes)).collect()
}

fn units(name: &str, amount: &Quantity) -> i64 {
    if name == "cpu" { amount.millis() } else { amount.units() }
}

fn to_json(row: &Free, nodes: usize) -> Value {
    let mut said = Map::new();
    for (name, amount) in row.iter().filter(|(_, amount)| **amount > 0) {
        let quantity = match name.as_str() {
            "cpu" => Quantity::from_millis(*amount, Format::DecimalSi),
            _ if is_bytes(name) => Quantity::new(*amount, Format::BinarySi),
            _ => Quantity::new(*amount, Format::DecimalSi),
        };
        // Pods and nodes are numbers, everything else is a quantity.
        let value = if name == "pods" { (*amount).into() } else { Value::String(quantity.to_string()) };
        said.insert(name.clone(), value);
    }
    said.insert("nodes".into(), nodes.into());
    Value::Object(said)
}

fn is_bytes(name: &str) -> bool {
    name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-")
}

/// Groups nodes with similar free amounts, rounded down as far as needed to get few rows.
fn rounded(nodes: &[Free]) -> Vec<(Free, usize)> {
    for round in [round_fine, round_coarse] {
        let mut rows: BTreeMap<Free, usize> = BTreeMap::new();
        for node in nodes {
            let row = node.iter().map(|(name, amount)| (name.clone(), round(name, *amount))).collect();
            *rows.entry(row).or_default() += 1;
        }
        if rows.len() <= ROWS {
            return largest_first(rows.into_iter().collect());
        }
    }
    let mut rows: BTreeMap<Free, usize> = BTreeMap::new();
    for node in nodes {
        let row = node.iter().map(|(name, amount)| (name.clone(), round_coarse(name, *amount))).collect();
        *rows.entry(row).or_default() += 1;
    }
    let mut rows = largest_first(rows.into_iter().collect());
    // The last row has the minimum of all remaining rows.
    let rest = rows.split_off(ROWS - 1);
    let count = rest.iter().map(|(_, nodes)| nodes).sum();
    let least = rest.into_iter().map(|(row, _)| row).reduce(|mut least, row| {
        for (name, amount) in &mut least {
            *amount = (*amount).min(row.get(name).copied().unwrap_or(0));
        }
        least
    });
    rows.extend(least.map(|row| (row, count)));
    rows
}

fn largest_first(mut rows: Vec<(Free, usize)>) -> Vec<(Free, usize)> {
    let size = |row: &Free| (row.get("cpu").copied(), row.get("memory").copied());
    rows.sort_by(|(one, _), (other, _)| size(other).cmp(&size(one)).then_with(|| other.cmp(one)));
    rows
}

/// Rounds down to whole cores, gibibytes and tens of Pods; smaller amounts less coarsely.
fn round_fine(name: &str, amount: i64) -> i64 {
    const GIBIBYTE: i64 = 1 << 30;
    let (action, small) = match name {
        "cpu" => (1000, 100),
        "pods" => (10, 1),
        _ if is_bytes(name) => (GIBIBYTE, GIBIBYTE / 8),
        _ => (1, 1),
    };
    let action = if amount >= action { action } else { small };
    amount.max(0) / action * action
}

/// Rounds down to a power of two of the same units.
fn round_coarse(name: &str, amount: i64) -> i64 {
    let unit = match name {
        "cpu" => 1000,
        "pods" => 10,
        _ if is_bytes(name) => 1 << 30,
        _ => 1,
    };
    match amount / unit {
        whole if whole >= 1 => (1 << (63 - whole.leading_zeros())) * unit,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
