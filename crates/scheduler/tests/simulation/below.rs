//! A cluster as it really is: nodes with pods, whatever the control plane knows of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Most pods of a node.
const PODS: i64 = 110;
/// Memory for each thousandth of a core.
const MEMORY: i64 = 1 << 22;

/// A number of pods by workload.
pub type Counts = BTreeMap<usize, i64>;

pub struct Node {
    /// In thousandths of a core.
    pub size: i64,
    pub used: i64,
    pods: Counts,
}

pub struct Below {
    pub name: String,
    pub uid: String,
    pub region: &'static str,
    pub nodes: Vec<Node>,
    /// Whether the control plane and the cluster can reach each other.
    pub is_reachable: bool,
    /// Whether it cannot be reached because the control plane is cut off.
    pub is_cut: bool,
    /// Whether the control plane was told that the cluster is Ready.
    pub is_ready: bool,
    pub is_cordoned: bool,
    pub is_drained: bool,
    pub is_fenced: bool,
    /// When the control plane was last told of a change of the state, in milliseconds.
    pub changed: u64,
    /// Whether the cluster was removed from the control plane.
    pub is_removed: bool,
    pub has_heartbeat_due: bool,
    /// Pods that have a node.
    pub bound: Counts,
    /// Pods that are ready.
    pub ready: Counts,
    /// Pods that the control plane was told are ready.
    pub reported: Counts,
    /// Pods that find no node.
    pub pending: Counts,
    /// Thousandths of cores that the control plane was last told of.
    pub told: i64,
    /// Replicas that are placed there beyond that, since a node has failed.
    pub excess: i64,
}

impl Below {
    pub fn new(name: String, region: &'static str, nodes: &[i64], now: u64) -> Below {
        let node = |size: &i64| Node { size: *size, used: 0, pods: Counts::new() };
        Below {
            uid: format!("uid-{name}"),
            name,
            region,
            nodes: nodes.iter().map(node).collect(),
            is_reachable: true,
            is_cut: false,
            is_ready: true,
            is_cordoned: false,
            is_drained: false,
            is_fenced: false,
            changed: now,
            is_removed: false,
            has_heartbeat_due: false,
            bound: Counts::new(),
            ready: Counts::new(),
            reported: Counts::new(),
            pending: Counts::new(),
            told: nodes.iter().sum(),
            excess: 0,
        }
    }

    pub fn size(&self) -> i64 {
        self.nodes.iter().map(|node| node.size).sum()
    }

    pub fn add_node(&mut self, size: i64) {
        self.nodes.push(Node { size, used: 0, pods: Counts::new() });
    }

    /// Whether replicas may stay: nothing makes them leave.
    pub fn is_healthy(&self) -> bool {
        self.is_ready && !self.is_drained && !self.is_fenced && !self.is_removed
    }

    /// Whether the cluster takes new replicas.
    pub fn is_open(&self) -> bool {
        self.is_healthy() && !self.is_cordoned
    }

    /// Whether a node has room for a pod.
    pub fn fits(&self, request: i64) -> bool {
        self.nodes.iter().any(|node| node.size - node.used >= request)
    }

    /// Pods of a size that certainly find a node beside `requested` thousandths of cores, wherever those are.
    pub fn certain_room(&self, requested: i64, request: i64) -> i64 {
        let lost = i64::try_from(self.nodes.len()).unwrap_or(0) * request;
        ((self.size() - requested - lost) / request).max(0)
    }

    /// Gives a workload this number of pods, on the nodes with most room. Returns whether any came or went.
    pub fn scale(&mut self, workload: usize, replicas: i64, request: i64) -> bool {
        let has = self.bound.get(&workload).copied().unwrap_or(0);
        let mut extra = (has - replicas).max(0);
        for node in &mut self.nodes {
            let Some(count) = node.pods.get_mut(&workload).filter(|_| extra > 0) else { continue };
            let gone = extra.min(*count);
            *count -= gone;
            node.used -= gone * request;
            extra -= gone;
        }
        let mut missing = (replicas - has).max(0);
        while missing > 0 {
            let fits =
                |node: &&mut Node| node.size - node.used >= request && node.pods.values().sum::<i64>() < PODS;
            let Some(node) = self.nodes.iter_mut().filter(fits).max_by_key(|node| node.size - node.used)
            else {
                break;
            };
            node.used += request;
            *node.pods.entry(workload).or_default() += 1;
            missing -= 1;
        }
        let bound = replicas - missing;
        set(&mut self.bound, workload, bound);
        set(&mut self.pending, workload, missing);
        let ready = self.ready.get(&workload).copied().unwrap_or(0).min(bound);
        set(&mut self.ready, workload, ready);
        for node in &mut self.nodes {
            node.pods.retain(|_, count| *count > 0);
        }
        bound != has
    }

    /// The last node fails with its pods. Returns the workloads that they belong to.
    pub fn lose_node(&mut self) -> Vec<usize> {
        let gone = self.nodes.pop().map(|node| node.pods).unwrap_or_default();
        for (workload, count) in &gone {
            let left = |counts: &Counts| (counts.get(workload).copied().unwrap_or(0) - count).max(0);
            let (bound, ready) = (left(&self.bound), left(&self.ready));
            set(&mut self.bound, *workload, bound);
            set(&mut self.ready, *workload, ready);
        }
        gone.into_keys().collect()
    }

    /// All pods that have a node have become ready.
    pub fn start(&mut self, workload: usize) {
        let bound = self.bound.get(&workload).copied().unwrap_or(0);
        set(&mut self.ready, workload, bound);
    }

    /// The control plane is told of the pods that are ready.
    pub fn report(&mut self, workload: usize) {
        let ready = self.ready.get(&workload).copied().unwrap_or(0);
        set(&mut self.reported, workload, ready);
    }

    /// Everything that runs here ends.
    pub fn crash(&mut self) {
        for node in &mut self.nodes {
            node.pods.clear();
            node.used = 0;
        }
        self.bound.clear();
        self.ready.clear();
        self.pending.clear();
    }

    /// Workloads with pods.
    pub fn workloads(&self) -> BTreeSet<usize> {
        self.bound.keys().chain(self.pending.keys()).copied().collect()
    }

    /// The part of a heartbeat about capacity, `free` and `bound`. Both are of the same moment.
    pub fn heartbeat(&self, uid: impl Fn(usize) -> String) -> (Value, Value) {
        let mut shapes: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for node in &self.nodes {
            *shapes.entry((node.size - node.used, PODS - node.pods.values().sum::<i64>())).or_default() += 1;
        }
        let shape = |((free, pods), count): (&(i64, i64), &i64)| {
            let resources = json!({
                "cpu": format!("{free}m"), "memory": (free * MEMORY).to_string(), "pods": pods.to_string(),
            });
            json!({ "nodes": count, "labels": {}, "taints": [], "resources": resources })
        };
        let bound: Map<String, Value> =
            self.bound.iter().map(|(workload, count)| (uid(*workload), (*count).into())).collect();
        (shapes.iter().map(shape).collect(), bound.into())
    }
}

fn set(counts: &mut Counts, workload: usize, count: i64) {
    match count {
        0 => drop(counts.remove(&workload)),
        _ => drop(counts.insert(workload, count)),
    }
}
