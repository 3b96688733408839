//! Random events: clusters fail, join, close and grow; users create, scale, move and delete workloads.

use std::collections::BTreeSet;

use atoll_fleet::Placement;
use atoll_informer::{Key, WORKSPACE, resources};
use atoll_placement::intent::ANNOTATION;
use serde_json::json;

use crate::profiles::Profile;
use crate::simulated_fleet::{Event, HOUR, MINUTE, SECOND, SimulatedFleet, Workload};

const REGIONS: [&str; 4] = ["north", "east", "south", "west"];
/// Workspaces by id, which are also their names.
pub const WORKSPACES: [&str; 4] =
    ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb", "ccccccccccccccc", "ddddddddddddddd"];
/// Most cores of a workload on one cluster, in thousandths.
const MOST_OF_ONE: i64 = 6000;

impl SimulatedFleet {
    /// Time between two events, in milliseconds: about three for each cluster and day.
    fn pause(&self) -> u64 {
        24 * HOUR / (3 * self.clusters.len().max(1) as u64)
    }

    /// One random event, and when the next one follows.
    pub fn chance(&mut self) {
        if self.is_calm {
            return;
        }
        let pause = self.pause();
        self.within(Event::Chance, (1, 2 * pause));
        match self.random.below(100) {
            0..=5 => self.fail(),
            6..=7 => self.cut(),
            8..=9 => self.cordon(),
            10 => self.drain(),
            11 => self.new_cluster(),
            12 => self.grow(),
            13..=30 => self.create(),
            31..=40 => self.remove(),
            41..=45 => self.pin(),
            46 => self.fail_region(),
            47 => self.surge(),
            48 => self.lose_node(),
            _ => self.rescale(),
        }
    }

    pub fn new_cluster(&mut self) {
        let region = *self.random.pick(&REGIONS);
        let count = 2 + self.random.below(4);
        let nodes: Vec<i64> = (0..count).map(|_| *self.random.pick(&[4000, 8000, 16_000])).collect();
        self.count("joined");
        self.join(region, &nodes);
    }

    /// A cluster that is open, by chance.
    fn any_cluster(&mut self) -> Option<usize> {
        let at = self.random.below(self.clusters.len() as u64) as usize;
        let below = &self.clusters[at];
        (below.is_open() && below.is_reachable).then_some(at)
    }

    /// Most of the fleet works, so that everything has room.
    fn may_close(&self) -> bool {
        let alive = self.clusters.iter().filter(|below| !below.is_removed);
        let (open, all) = alive.fold((0, 0), |(open, all), below| {
            (open + usize::from(below.is_open() && below.is_reachable), all + 1)
        });
        open * 10 > all * 8
    }

    /// A cluster fails: it crashes, or only cannot be reached.
    fn fail(&mut self) {
        let Some(at) = self.any_cluster().filter(|_| self.may_close()) else { return };
        if self.random.chance(40) {
            return self.crash(at, (20 * MINUTE, 8 * HOUR));
        }
        let longest = *self.random.pick(&[30 * SECOND, 5 * MINUTE, 2 * HOUR]);
        self.lose(at, (10 * SECOND, longest));
    }

    /// Everything on a cluster ends, and it returns after a time.
    fn crash(&mut self, at: usize, lasts: (u64, u64)) {
        self.note(format!("{} crashes", self.clusters[at].name));
        self.count("crashed");
        self.silence(at);
        self.clusters[at].crash();
        self.within(Event::Fence(at), (5 * MINUTE, 30 * MINUTE));
        self.within(Event::Return(at), lasts);
    }

    /// A cluster cannot be reached for a time.
    fn lose(&mut self, at: usize, lasts: (u64, u64)) {
        self.note(format!("{} cannot be reached", self.clusters[at].name));
        self.count("unreachable");
        self.silence(at);
        self.within(Event::Return(at), lasts);
    }

    /// All clusters of a region fail at once: they crash, or only cannot be reached. They return together.
    fn fail_region(&mut self) {
        let region = *self.random.pick(&REGIONS);
        let is_there = |at: &usize| {
            let below = &self.clusters[*at];
            below.region == region && !below.is_removed && below.is_reachable && below.is_ready
        };
        let all: Vec<usize> = (0..self.clusters.len()).filter(is_there).collect();
        let known = self.clusters.iter().filter(|below| !below.is_removed).count();
        // More of them would be a reason for the control plane to suspect itself.
        if !self.may_close() || all.len() * 3 > known {
            return;
        }
        self.count("region failed");
        let (crashes, lasts) = (self.random.chance(30), MINUTE * (2 + self.random.below(180)));
        for at in all {
            match crashes {
                true => self.crash(at, (lasts, lasts + 20 * SECOND)),
                false => self.lose(at, (lasts, lasts + 20 * SECOND)),
            }
        }
    }

    /// Many users need more at once.
    fn surge(&mut self) {
        self.count("surged");
        for _ in 0..10 {
            self.create();
            self.rescale();
        }
    }

    /// The network of the control plane fails: most clusters become silent at once, and return together.
    fn cut(&mut self) {
        if !self.may_close() || self.random.chance(80) {
            return;
        }
        self.count("cut off");
        self.note("the control plane is cut off".to_string());
        let lasts = SECOND * (60 + self.random.below(1200));
        for at in 0..self.clusters.len() {
            let below = &self.clusters[at];
            if below.is_removed || !below.is_reachable || self.random.chance(15) {
                continue;
            }
            self.clusters[at].is_cut = true;
            self.silence(at);
            self.within(Event::Return(at), (lasts, lasts + 20 * SECOND));
        }
        let counted = self.clusters.iter().filter(|below| !below.is_removed && !below.is_fenced);
        self.is_cut_off = counted.clone().filter(|below| below.is_cut).count() * 2 > counted.count();
    }

    fn cordon(&mut self) {
        let Some(at) = self.any_cluster().filter(|_| self.may_close()) else { return };
        self.count("cordoned");
        self.note(format!("{} is cordoned", self.clusters[at].name));
        self.clusters[at].is_cordoned = true;
        self.write_cluster(at);
        self.within(Event::Uncordon(at), (10 * MINUTE, 4 * HOUR));
    }

    fn drain(&mut self) {
        let Some(at) = self.any_cluster().filter(|_| self.may_close()) else { return };
        self.count("drained");
        self.note(format!("{} is drained", self.clusters[at].name));
        let now = self.now();
        let below = &mut self.clusters[at];
        (below.is_drained, below.changed) = (true, now);
        self.write_cluster(at);
        let is_removed = self.random.chance(50);
        self.within(Event::Undrain(at, is_removed), (HOUR, 3 * HOUR));
    }

    /// A node fails with its pods, which then run on others, or wait.
    fn lose_node(&mut self) {
        let Some(at) = self.any_cluster().filter(|at| self.clusters[*at].nodes.len() > 2) else { return };
        self.count("node failed");
        self.note(format!("{} loses a node", self.clusters[at].name));
        for workload in self.clusters[at].lose_node() {
            self.within(Event::Sync(at, workload), (200, 2 * SECOND));
        }
        self.clusters[at].has_heartbeat_due = true;
        self.within(Event::Heartbeat(at), (SECOND, 30 * SECOND));
    }

    /// A cluster gets another node.
    fn grow(&mut self) {
        let Some(at) = self.any_cluster() else { return };
        self.count("grown");
        self.clusters[at].add_node(8000);
        self.opens(at);
    }

    pub fn create(&mut self) {
        let number = self.workloads.len();
        let profile = *self.random.pick(&Profile::ALL);
        let request = *self.random.pick(&[100, 250, 500, 1000]);
        let replicas = self.any_replicas(profile, request);
        let workspace = *self.random.pick(&WORKSPACES);
        // Some namespaces have several workloads.
        let namespace = format!("n{}", self.random.below(1 + number as u64 / 2));
        self.create_in(workspace, &namespace, profile, (replicas, request));
    }

    /// A user creates a workload, whose replicas request so many thousandths of a core.
    pub fn create_in(
        &mut self,
        workspace: &str,
        namespace: &str,
        profile: Profile,
        (replicas, request): (i64, i64),
    ) {
        let number = self.workloads.len();
        let name = format!("w{number:05}");
        let key = Key::new(workspace, namespace, &name);
        let (uid, resource, now) = (format!("uid-{name}"), profile.resource(), self.now());
        self.note(format!("{key} is created: {profile:?}, {replicas} of {request}m"));
        let requests = json!({ "cpu": format!("{request}m"), "memory": (request << 22).to_string() });
        let labels = json!({ "app": name, "profile": profile.label() });
        let container = json!({ "name": "main", "image": "main", "resources": { "requests": requests } });
        let object = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid, "generation": 1, "labels": labels,
                "annotations": { WORKSPACE: workspace },
            },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        });
        let (pinned, is_deleted) = (None, false);
        self.by_key.insert(key.clone(), number);
        self.workloads.push(Workload {
            key,
            uid,
            resource,
            profile,
            replicas,
            request,
            pinned,
            is_deleted,
            changed: now,
            written: now,
            placement: Placement::default(),
            on: BTreeSet::new(),
        });
        self.count("created");
        self.api.put(resource, object);
    }

    fn any_replicas(&mut self, profile: Profile, request: i64) -> i64 {
        let most = if profile.is_single() { MOST_OF_ONE / request } else { 24 };
        self.random.below(most.min(24) as u64 + 1) as i64
    }

    /// A workload that exists, by chance.
    fn any_workload(&mut self) -> Option<usize> {
        let at = self.random.below(self.workloads.len() as u64) as usize;
        (!self.workloads[at].is_deleted).then_some(at)
    }

    /// Changes a workload as its user does.
    fn change(&mut self, workload: usize, change: impl FnOnce(&mut serde_json::Value)) {
        let now = self.now();
        self.workloads[workload].changed = now;
        let Workload { key, resource, .. } = &self.workloads[workload];
        self.api.change(resource, key, change);
        self.follow(workload);
    }

    fn rescale(&mut self) {
        let Some(at) = self.any_workload() else { return };
        let replicas = self.any_replicas(self.workloads[at].profile, self.workloads[at].request);
        self.count("scaled");
        self.note(format!("{} is scaled to {replicas}", self.workloads[at].key));
        self.workloads[at].replicas = replicas;
        self.change(at, |object| object["spec"]["replicas"] = replicas.into());
    }

    fn remove(&mut self) {
        let Some(at) = self.any_workload() else { return };
        self.count("deleted");
        self.note(format!("{} is deleted", self.workloads[at].key));
        let Workload { key, resource, .. } = &self.workloads[at];
        self.api.delete(resource, key);
        self.workloads[at].is_deleted = true;
        self.follow(at);
    }

    /// A user names the cluster of a workload.
    fn pin(&mut self) {
        let (Some(at), Some(cluster)) = (self.any_workload(), self.any_cluster()) else { return };
        let room = self.clusters[cluster].size() - self.requested(cluster);
        let workload = &self.workloads[at];
        if workload.pinned.is_some() || workload.replicas * workload.request > room / 2 {
            return;
        }
        let name = self.clusters[cluster].name.clone();
        self.count("pinned");
        self.note(format!("{} is pinned to {name}", self.workloads[at].key));
        self.workloads[at].pinned = Some(name.clone());
        self.change(at, |object| object["metadata"]["annotations"][ANNOTATION] = name.into());
        self.within(Event::Unpin(at), (10 * MINUTE, 5 * HOUR));
    }

    pub fn unpin(&mut self, at: usize) {
        if self.workloads[at].is_deleted || self.workloads[at].pinned.take().is_none() {
            return;
        }
        self.note(format!("{} is not pinned any more", self.workloads[at].key));
        self.change(at, |object| atoll_meta::object::remove_annotation(object, ANNOTATION));
    }

    /// Ends all faults, so that everything can come to rest.
    pub fn heal(&mut self) {
        self.is_calm = true;
        for at in 0..self.workloads.len() {
            self.unpin(at);
        }
        for at in 0..self.clusters.len() {
            if self.clusters[at].is_removed {
                continue;
            }
            let below = &mut self.clusters[at];
            (below.is_cordoned, below.is_drained) = (false, false);
            self.reach(at);
            match self.clusters[at].is_ready {
                true => self.opens(at),
                false => self.happen(Event::Return(at)),
            }
        }
    }

    /// Users move what has outgrown its cluster and may not leave it by itself.
    pub fn move_outgrown(&mut self) {
        for at in 0..self.workloads.len() {
            let of = &self.workloads[at];
            let placed: i64 = self.placed_pods(at);
            let is_stuck = self.clusters.iter().any(|below| below.pending.contains_key(&at));
            if of.is_deleted || (placed >= of.replicas && !is_stuck) || !self.is_bound(at) {
                continue;
            }
            let room =
                |cluster: &usize| self.clusters[*cluster].certain_room(self.requested(*cluster), of.request);
            let open = (0..self.clusters.len()).filter(|cluster| self.clusters[*cluster].is_open());
            let Some(cluster) = open.max_by_key(room) else { continue };
            let (name, key) = (self.clusters[cluster].name.clone(), of.key.clone());
            self.count("moved by users");
            self.note(format!("{key} is moved to {name}"));
            self.workloads[at].pinned = Some(name.clone());
            self.change(at, |object| object["metadata"]["annotations"][ANNOTATION] = name.into());
        }
    }

    /// Writes the policies of all profiles.
    pub fn write_policies(&self) {
        for profile in Profile::ALL {
            let Some(spec) = profile.policy() else { continue };
            let metadata = json!({
                "name": profile.label(), "uid": format!("policy-{}", profile.label()), "generation": 1,
                "annotations": { WORKSPACE: "root" },
            });
            self.api
                .put(&resources::CLUSTER_PLACEMENT_POLICIES, json!({ "metadata": metadata, "spec": spec }));
        }
    }
}
