//! The simulated fleet: clusters with their syncers, workloads, and everything that is still to happen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_informer::{Clock, Key, Resource, WORKSPACE, resources};
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, set_placement};
use crate::below::{Below, Counts};
use crate::profiles::Profile;
use crate::random::Random;

/// The time at which simulations begin, in seconds since 1970.
const BEGIN: i64 = 1_800_000_000;
pub const SECOND: u64 = 1000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
/// Most lines about the past that a failure shows.
const LINES: usize = 60;

/// A clock that follows tokio's, which is paused.
pub struct SimulatedClock(Instant);

impl SimulatedClock {
    pub fn new() -> SimulatedClock {
        SimulatedClock(Instant::now())
    }

    /// Milliseconds since the begin.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The moment of a time in milliseconds.
    pub fn instant(&self, millis: u64) -> Instant {
        self.0 + std::time::Duration::from_millis(millis)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.0.elapsed();
        Timestamp::new(BEGIN + i64::try_from(elapsed.as_secs()).unwrap_or(0), elapsed.subsec_nanos())
    }
}

pub struct Workload {
    pub key: Key,
    pub uid: String,
    pub resource: &'static Resource,
    pub profile: Profile,
    pub replicas: i64,
    /// Thousandths of a core of each replica.
    pub request: i64,
    /// The name of the cluster in its annotation.
    pub pinned: Option<String>,
    pub is_deleted: bool,
    /// When its user last changed it, in milliseconds.
    pub changed: u64,
    /// When its placement was last written.
    pub written: u64,
    pub placement: Placement,
    /// Clusters that have a share of it, by position.
    pub on: BTreeSet<usize>,
}

/// Something that happens at a time. Numbers are positions of clusters and workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A syncer learns of a share.
    Sync(usize, usize),
    /// Pods become ready.
    Start(usize, usize),
    /// A syncer reports the pods of a share.
    Report(usize, usize),
    Heartbeat(usize),
    /// The control plane notices that a cluster is silent.
    Silent(usize),
    /// A cluster can be reached again.
    Return(usize),
    Fence(usize),
    Uncordon(usize),
    /// A drain ends; whether the cluster is then removed.
    Undrain(usize, bool),
    /// The user of a workload removes its annotation.
    Unpin(usize),
    /// Something by chance.
    Chance,
    /// Everything that is at rest is checked.
    Check,
}

pub struct SimulatedFleet {
    pub api: Arc<Api>,
    pub clock: Arc<SimulatedClock>,
    pub random: Random,
    pub clusters: Vec<Below>,
    pub by_name: BTreeMap<String, usize>,
    pub workloads: Vec<Workload>,
    pub by_key: BTreeMap<Key, usize>,
    later: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    /// Pods of the shares of each cluster.
    pub placed: Vec<Counts>,
    /// Whether chance still has its way.
    pub is_calm: bool,
    /// Whether everything must be placed by now.
    pub is_final: bool,
    /// Whether most clusters cannot be reached because the control plane is cut off.
    pub is_cut_off: bool,
    /// When a cluster last opened or changed its size, in milliseconds.
    pub opened: u64,
    /// Times at which objects began to move for the sake of balance, by workspace.
    pub balanced: BTreeMap<Arc<str>, VecDeque<u64>>,
    /// When moves in a workspace may have reached the hourly cap.
    pub capped: BTreeMap<Arc<str>, u64>,
    /// When the simulation began, by the real clock.
    pub begun: std::time::Instant,
    pub tally: BTreeMap<&'static str, u64>,
    pub problems: Vec<String>,
    past: VecDeque<String>,
    /// A digest of everything that was written.
    pub digest: u64,
}

impl SimulatedFleet {
    pub fn new(seed: u64) -> SimulatedFleet {
        let clock = Arc::new(SimulatedClock::new());
        SimulatedFleet {
            api: Arc::new(Api::new(clock.clone())),
            clock,
            random: Random::new(seed),
            clusters: Vec::new(),
            by_name: BTreeMap::new(),
            workloads: Vec::new(),
            by_key: BTreeMap::new(),
            later: BinaryHeap::new(),
            sequence: 0,
            placed: Vec::new(),
            is_calm: false,
            is_final: false,
            is_cut_off: false,
            opened: 0,
            balanced: BTreeMap::new(),
            capped: BTreeMap::new(),
            begun: std::time::Instant::now(),
            tally: BTreeMap::new(),
            problems: Vec::new(),
            past: VecDeque::new(),
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.millis()
    }

    /// Lets an event happen after a random delay between two times in milliseconds.
    pub fn within(&mut self, event: Event, (least, most): (u64, u64)) {
        let at = self.now() + least + self.random.below(most - least + 1);
        self.sequence += 1;
        self.later.push(Reverse((at, self.sequence, event)));
    }

    /// When the next event happens.
    pub fn due(&self) -> Option<u64> {
        self.later.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event that is due.
    pub fn take_due(&mut self) -> Option<Event> {
        let now = self.now();
        self.due().filter(|at| *at <= now)?;
        self.later.pop().map(|Reverse((_, _, event))| event)
    }

    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Records something for the people who read about a failure.
    pub fn note(&mut self, text: String) {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let line = format!("{} {text}", time_of(self.now()));
        self.digest =
            line.bytes().fold(self.digest, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        if std::env::var_os("ATOLL_VERBOSE").is_some() {
            println!("{line}");
        }
        self.past.push_back(line);
        if self.past.len() > LINES {
            self.past.pop_front();
        }
    }

    pub fn problem(&mut self, text: String) {
        let line = format!("{} {text}", time_of(self.now()));
        self.problems.push(line);
    }

    /// The last events.
    pub fn past(&self) -> String {
        self.past.iter().map(|line| format!("  {line}\n")).collect()
    }

    pub fn cluster_key(&self, at: usize) -> Key {
        Key::new("root", "", &self.clusters[at].name)
    }

    /// Registers a cluster that has just joined.
    pub fn join(&mut self, region: &'static str, nodes: &[i64]) -> usize {
        let at = self.clusters.len();
        let name = format!("c{at:04}");
        self.note(format!("{name} joins in {region} with nodes {nodes:?}"));
        let now = self.now();
        let below = Below::new(name.clone(), region, nodes, now);
        let created = self.clock.now().to_time();
        let cluster = json!({
            "metadata": {
                "name": name, "uid": below.uid, "creationTimestamp": created,
                "labels": { "topology.kubernetes.io/region": region },
                "annotations": { WORKSPACE: "root" },
            },
            "spec": { "taints": [], "unschedulable": false },
            "status": {},
        });
        self.clusters.push(below);
        self.placed.push(Counts::new());
        self.by_name.insert(name, at);
        self.opened = now;
        self.api.put(&resources::CLUSTERS, self.reported(at, cluster));
        at
    }

    /// A Cluster with everything that its heartbeat says.
    fn reported(&self, at: usize, mut cluster: Value) -> Value {
        let below = &self.clusters[at];
        let (free, bound) = below.heartbeat(|workload| self.workloads[workload].uid.clone());
        let status = if below.is_ready { "True" } else { "False" };
        let reason = if below.is_ready { "Synced" } else { "Unreachable" };
        cluster["status"]["free"] = free;
        cluster["status"]["bound"] = bound;
        cluster["status"]["conditions"] = json!([{
            "type": "Ready", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": Timestamp::new(seconds(below.changed), 0).to_time(),
        }]);
        cluster
    }

    /// Writes the state of a cluster, with a heartbeat if it can be reached.
    pub fn write_cluster(&mut self, at: usize) {
        let key = self.cluster_key(at);
        let Some(mut cluster) = self.api.get(&resources::CLUSTERS, &key) else { return };
        self.tell_size(at);
        let below = &self.clusters[at];
        let mut taints = Vec::new();
        if below.is_drained {
            taints.push(json!({ "key": atoll_scheduler::DRAIN, "effect": "NoExecute" }));
        }
        if below.is_fenced {
            taints.push(json!({ "key": atoll_fleet::cluster::FENCED, "effect": "NoExecute" }));
        }
        cluster["spec"] = json!({ "taints": taints, "unschedulable": below.is_cordoned || below.is_drained });
        let known = cluster["status"].clone();
        let mut written = self.reported(at, cluster);
        if !self.clusters[at].is_reachable {
            for field in ["free", "bound"] {
                written["status"][field] = known[field].clone();
            }
        }
        self.api.put(&resources::CLUSTERS, written);
    }

    /// A heartbeat tells the size of a cluster. What is placed there may stay if it has become smaller.
    fn tell_size(&mut self, at: usize) {
        let (requested, now) = (self.requested(at), self.now());
        let below = &mut self.clusters[at];
        if below.is_reachable {
            if below.told != below.size() {
                self.opened = now;
            }
            (below.told, below.excess) = (below.size(), requested);
        }
    }

    pub fn placement(&self, workload: usize) -> &Placement {
        &self.workloads[workload].placement
    }

    /// Reads the placement of a workload again.
    pub fn read_placement(&mut self, workload: usize) {
        let Workload { key, resource, .. } = &self.workloads[workload];
        let found = self.api.get(resource, key).map(|object| Placement::of(&object));
        self.workloads[workload].placement = found.unwrap_or_default();
    }

    /// The pods of the share of a cluster; `None` without a share.
    pub fn share(&self, workload: usize, placement: &Placement, cluster: usize) -> Option<i64> {
        let below = &self.clusters[cluster];
        let share = placement.share_of(&below.name, &below.uid)?;
        Some(share.replicas.unwrap_or(self.workloads[workload].replicas))
    }

    /// Updates what the clusters of a workload are asked to run, and lets their syncers learn of it.
    pub fn follow(&mut self, workload: usize) {
        self.read_placement(workload);
        let placement = self.placement(workload).clone();
        let position = |name: &str| self.by_name.get(name).copied();
        let leaving: BTreeSet<usize> =
            placement.leaving.iter().filter_map(|one| position(&one.name)).collect();
        let shares = placement.clusters.iter().filter_map(|share| position(&share.name));
        let near: BTreeSet<usize> = shares
            .chain(leaving.iter().copied())
            .chain(self.workloads[workload].on.iter().copied())
            .collect();
        for cluster in near {
            let wanted = self.share(workload, &placement, cluster);
            let known = self.placed[cluster].get(&workload).copied();
            if wanted == known && !leaving.contains(&cluster) {
                continue;
            }
            match wanted {
                Some(pods) => {
                    self.placed[cluster].insert(workload, pods);
                    self.workloads[workload].on.insert(cluster);
                }
                None => {
                    self.placed[cluster].remove(&workload);
                    self.workloads[workload].on.remove(&cluster);
                }
            }
            self.within(Event::Sync(cluster, workload), (200, 3 * SECOND));
        }
    }

    /// Confirms that nothing of a workload is left on a cluster.
    pub fn confirm_removal(&mut self, cluster: usize, workload: usize) {
        let Workload { key, resource, .. } = &self.workloads[workload];
        let (name, uid) = (&self.clusters[cluster].name, &self.clusters[cluster].uid);
        let Some(mut object) = self.api.get(resource, key) else { return };
        let placement = Placement::of(&object);
        if placement.leaving.iter().any(|one| one.is_of(name, uid)) {
            set_placement(&mut object, &placement.confirm_removed(name, uid, false));
            self.api.put(resource, object);
            self.read_placement(workload);
        }
    }
}

/// A time of the simulation in seconds since 1970.
pub fn seconds(millis: u64) -> i64 {
    BEGIN + i64::try_from(millis / SECOND).unwrap_or(0)
}

/// A time of the simulation, for people.
pub fn time_of(millis: u64) -> String {
    let seconds = millis / SECOND;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("day {days} {hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, millis % SECOND)
}
