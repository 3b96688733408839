//! A simulated fleet: nodes with pods, late reports, and the placements that decisions lead to.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_placement::cluster::{CapacityReport, ClusterState, REGION, Readiness};
use atoll_placement::decide::{PlacementDecision, decide};
use atoll_placement::demand::{CurrentShare, Demand, Evicted, Needs, ObjectKey, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::node::NodeShape;
use atoll_placement::resources::Resources;
use atoll_placement::rules::{Division, Rules};

/// A cluster as it really is.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub state: ClusterState,
    /// Size of each node, in thousandths of a core, and its pods: uids of workloads with requests.
    pub nodes: Vec<(i64, Vec<(usize, i64)>)>,
    /// Pods that found no node, by workload.
    pub pending: BTreeMap<usize, i64>,
    /// The shares that it was last asked to run, by workload.
    ran: BTreeMap<usize, i64>,
    /// The last report.
    report: Arc<CapacityReport>,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub replicas: i64,
    /// Thousandths of a core of each replica.
    pub request: i64,
    pub rules: Rules,
    pub shares: BTreeMap<Arc<str>, i64>,
    pub unplaced: i64,
    pub is_deleted: bool,
    /// Pods that were last reserved, by uid of the cluster.
    reserved: Vec<(Arc<str>, i64)>,
}

pub struct SimulatedFleet {
    pub clusters: Vec<Cluster>,
    pub workloads: Vec<Workload>,
    pub fleet: Fleet,
    /// Whether all pods have the same requests: then decisions do not depend on the order in which the ledger has
    /// learned of them.
    pub has_one_size: bool,
}

/// Amounts of everything in proportion to cores.
pub fn resources(milli_cpu: i64, pods: i64) -> Resources {
    Resources { milli_cpu, memory: milli_cpu << 22, pods, ..Resources::default() }
}

impl SimulatedFleet {
    pub fn new(has_one_size: bool) -> SimulatedFleet {
        SimulatedFleet { clusters: Vec::new(), workloads: Vec::new(), fleet: Fleet::new(), has_one_size }
    }

    pub fn add_cluster(&mut self, nodes: &[i64], limit: Option<i64>) {
        let at = self.clusters.len();
        let name: Arc<str> = format!("c{at}").into();
        let state = ClusterState {
            name: name.clone(),
            uid: name,
            workspace: "root".into(),
            registered: i64::try_from(at).unwrap_or(0),
            labels: [(REGION.to_string(), format!("r{}", at % 2))].into(),
            readiness: Readiness::Ready { since: 0 },
            limits: limit.map(|limit| ("cpu".to_string(), limit)).into_iter().collect(),
            ..ClusterState::default()
        };
        self.fleet.set_cluster(state.clone());
        let nodes = nodes.iter().map(|size| (*size, Vec::new())).collect();
        let (pending, ran, report) = (BTreeMap::new(), BTreeMap::new(), Arc::default());
        self.clusters.push(Cluster { state, nodes, pending, ran, report });
        self.report(at);
    }

    /// Sends what is free and bound at this moment.
    pub fn report(&mut self, at: usize) {
        let cluster = &self.clusters[at];
        let mut bound: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for (workload, _) in cluster.nodes.iter().flat_map(|(_, pods)| pods) {
            *bound.entry(uid(*workload)).or_default() += 1;
        }
        let shape = |(size, pods): &(i64, Vec<(usize, i64)>)| {
            let used: i64 = pods.iter().map(|(_, request)| request).sum();
            let free = resources(size - used, 110 - count(pods.len()));
            NodeShape { count: 1, free, ..NodeShape::default() }
        };
        let nodes = cluster.nodes.iter().map(shape).collect();
        let report = Arc::new(CapacityReport { nodes, bound, ..CapacityReport::default() });
        self.fleet.set_report(&cluster.state.uid, report.clone());
        self.clusters[at].report = report;
    }

    /// A node fails with its pods, and the cluster reports it.
    pub fn lose_node(&mut self, at: usize) {
        if self.clusters[at].nodes.len() > 1 {
            self.clusters[at].nodes.pop();
            self.report(at);
        }
    }

    /// The fleet as a scheduler that starts now would have it: it learns of everything in another order.
    fn learned_again(&self) -> Fleet {
        let mut fleet = Fleet::new();
        fleet.begin_changes();
        for cluster in self.clusters.iter().rev() {
            fleet.set_cluster(cluster.state.clone());
            fleet.set_report(&cluster.state.uid, cluster.report.clone());
        }
        for (at, workload) in self.workloads.iter().enumerate().rev() {
            let (object, needs) = (object(at), needs(workload));
            fleet.reserve(&object, &needs, &workload.reserved);
        }
        fleet.end_changes();
        fleet
    }

    pub fn set_state(&mut self, at: usize, change: impl FnOnce(&mut ClusterState)) {
        change(&mut self.clusters[at].state);
        self.fleet.set_cluster(self.clusters[at].state.clone());
    }

    /// The work of the controllers and the scheduler of a cluster: pods follow shares, and are bound to the node
    /// with most room.
    pub fn run(&mut self, at: usize) {
        let cluster = &mut self.clusters[at];
        cluster.pending.clear();
        for (index, workload) in self.workloads.iter().enumerate() {
            let share = workload.shares.get(&cluster.state.uid).copied().unwrap_or(0);
            cluster.ran.insert(index, share);
            let mut extra = cluster.bound(index) - share;
            for (_, pods) in &mut cluster.nodes {
                pods.retain(|(of, _)| {
                    let goes = *of == index && extra > 0;
                    extra -= i64::from(goes);
                    !goes
                });
            }
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            let share = workload.shares.get(&cluster.state.uid).copied().unwrap_or(0);
            for _ in cluster.bound(index)..share {
                let free = |(size, pods): &(i64, Vec<(usize, i64)>)| {
                    size - pods.iter().map(|(_, request)| request).sum::<i64>()
                };
                let node = cluster.nodes.iter_mut().max_by_key(|node| free(node));
                match node.filter(|node| free(node) >= workload.request && node.1.len() < 110) {
                    Some((_, pods)) => pods.push((index, workload.request)),
                    None => *cluster.pending.entry(index).or_default() += 1,
                }
            }
        }
    }

    pub fn create(&mut self, replicas: i64, request: i64, rules: Rules) -> PlacementDecision {
        let shares = BTreeMap::new();
        let (unplaced, is_deleted, reserved) = (0, false, Vec::new());
        self.workloads.push(Workload { replicas, request, rules, shares, unplaced, is_deleted, reserved });
        self.decide(self.workloads.len() - 1, true)
    }

    pub fn delete(&mut self, at: usize) {
        let workload = &mut self.workloads[at];
        workload.is_deleted = true;
        workload.replicas = 0;
        workload.unplaced = 0;
        workload.shares.clear();
        workload.reserved.clear();
        self.fleet.forget(&uid(at));
    }

    pub fn demand(&self, at: usize, may_rebalance: bool) -> Demand {
        let workload = &self.workloads[at];
        let share = |(uid, replicas): (&Arc<str>, &i64)| {
            let cluster = self.clusters.iter().find(|cluster| cluster.state.uid == *uid);
            CurrentShare {
                uid: uid.clone(),
                replicas: Some(*replicas),
                unschedulable: cluster.map_or(0, |cluster| cluster.unschedulable(at, *replicas)),
                ..CurrentShare::default()
            }
        };
        let lost = self.clusters.iter().filter(|cluster| cluster.state.readiness.is_not_ready());
        Demand {
            object: object(at),
            workspace_path: "root".into(),
            work: Work::Replicas,
            replicas: workload.replicas,
            needs: needs(workload),
            current: workload.shares.iter().map(share).collect(),
            evicted: lost.map(|cluster| Evicted::lost(&cluster.state.uid)).collect(),
            may_rebalance,
            ..Demand::default()
        }
    }

    /// Decides about a workload and writes the result at once.
    pub fn decide(&mut self, at: usize, may_rebalance: bool) -> PlacementDecision {
        if self.workloads[at].is_deleted {
            return PlacementDecision::default();
        }
        let demand = self.demand(at, may_rebalance);
        let decision = decide(&self.fleet, &demand, &self.workloads[at].rules);
        assert_eq!(decision, decide(&self.fleet, &demand, &self.workloads[at].rules), "the same input");
        if self.has_one_size {
            let again = decide(&self.learned_again(), &demand, &self.workloads[at].rules);
            assert_eq!(decision, again, "the same after a restart");
        }
        self.workloads[at].reserved = decision.reservations(&self.fleet, &demand);
        self.fleet.reserve(&demand.object, &demand.needs, &self.workloads[at].reserved);
        let workload = &mut self.workloads[at];
        workload.shares =
            decision.shares.iter().map(|share| (share.uid.clone(), share.replicas.unwrap_or(-1))).collect();
        workload.unplaced = decision.unplaced;
        // Free capacity is what is left after the decision, so that its weights are others the next time, and a
        // replica that found no place in its domain may find one among the nodes that are left.
        let rules = &self.workloads[at].rules;
        if rules.division != Division::Capacity && rules.spread.is_empty() {
            let again = decide(&self.fleet, &self.demand(at, may_rebalance), &self.workloads[at].rules);
            assert_eq!(again.shares, decision.shares, "nothing moves again without a cause");
        }
        decision
    }

    /// Requests of all shares of a cluster.
    pub fn placed(&self, cluster: &Cluster) -> i64 {
        let share = |workload: &Workload| {
            workload.shares.get(&cluster.state.uid).copied().unwrap_or(0) * workload.request
        };
        self.workloads.iter().map(share).sum()
    }

    pub fn is_settled(&self) -> bool {
        self.clusters.iter().all(|cluster| cluster.pending.is_empty())
    }
}

impl Cluster {
    /// Pods of a share that find no node. Those beyond a share that has become smaller end first.
    fn unschedulable(&self, workload: usize, share: i64) -> i64 {
        let of = |counts: &BTreeMap<usize, i64>| counts.get(&workload).copied().unwrap_or(0);
        (of(&self.pending) - (of(&self.ran) - share).max(0)).max(0)
    }

    pub fn bound(&self, workload: usize) -> i64 {
        let pods = self.nodes.iter().flat_map(|(_, pods)| pods).filter(|(of, _)| *of == workload);
        count(pods.count())
    }

    pub fn size(&self) -> i64 {
        self.nodes.iter().map(|(size, _)| size).sum()
    }
}

pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn uid(workload: usize) -> Arc<str> {
    format!("w{workload:04}").into()
}

fn object(workload: usize) -> ObjectKey {
    ObjectKey { uid: uid(workload), ..ObjectKey::default() }
}

fn needs(workload: &Workload) -> Arc<Needs> {
    Arc::new(Needs { requests: resources(workload.request, 1), ..Needs::default() })
}
