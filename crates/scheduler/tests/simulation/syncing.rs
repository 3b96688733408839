//! The work of syncers and of the control plane's watch over clusters: late, and only while clusters can be reached.

use atoll_informer::{Key, WORKSPACE, resources};
use serde_json::json;

use crate::simulated_fleet::{Event, MINUTE, SECOND, SimulatedFleet, seconds};

/// Delays of heartbeats: the latest are half a minute late.
const HEARTBEAT: (u64, u64) = (SECOND, 30 * SECOND);
/// The time without heartbeats after which a cluster is not Ready, and how much of it is left when one fails: its last
/// heartbeats may be late.
const GRACE_SECONDS: i64 = 40;
const SILENT: (u64, u64) = (5 * SECOND, 40 * SECOND);

impl SimulatedFleet {
    pub fn happen(&mut self, event: Event) {
        match event {
            Event::Sync(cluster, workload) => self.sync(cluster, workload),
            Event::Start(cluster, workload) => {
                self.clusters[cluster].start(workload);
                self.within(Event::Report(cluster, workload), (200, 2 * SECOND));
            }
            Event::Report(cluster, workload) => self.report(cluster, workload),
            Event::Heartbeat(cluster) => {
                self.clusters[cluster].has_heartbeat_due = false;
                if self.clusters[cluster].is_reachable && self.clusters[cluster].is_ready {
                    self.write_cluster(cluster);
                }
            }
            Event::Silent(cluster) => self.turn(cluster, false),
            Event::Return(cluster) => {
                self.reach(cluster);
                self.turn(cluster, true);
            }
            Event::Fence(cluster) => self.fence(cluster),
            Event::Uncordon(cluster) => {
                self.clusters[cluster].is_cordoned = false;
                self.opens(cluster);
            }
            Event::Undrain(cluster, is_removed) => self.undrain(cluster, is_removed),
            Event::Unpin(workload) => self.unpin(workload),
            Event::Chance => self.chance(),
            Event::Check => {
                self.check_all();
                self.within(Event::Check, (10 * MINUTE, 10 * MINUTE));
            }
        }
    }

    /// A cluster becomes silent. The control plane notices that a grace period after its last heartbeat.
    pub fn silence(&mut self, cluster: usize) {
        self.clusters[cluster].is_reachable = false;
        let left = SILENT.0 + self.random.below(SILENT.1 - SILENT.0 + 1);
        self.within(Event::Silent(cluster), (left, left));
        let heard = seconds(self.now() + left) - GRACE_SECONDS;
        self.api.set_silent(&self.clusters[cluster].name, Some(heard));
    }

    /// A cluster can be reached again.
    pub fn reach(&mut self, cluster: usize) {
        let below = &mut self.clusters[cluster];
        (below.is_reachable, below.is_cut) = (true, false);
        self.api.set_silent(&self.clusters[cluster].name, None);
        self.is_cut_off &= self.clusters.iter().any(|below| below.is_cut);
    }

    /// A syncer gives a workload the pods of its share.
    fn sync(&mut self, cluster: usize, workload: usize) {
        if !self.clusters[cluster].is_reachable {
            return;
        }
        let wanted = match self.workloads[workload].is_deleted {
            true => 0,
            false => self.share(workload, self.placement(workload), cluster).unwrap_or(0),
        };
        let request = self.workloads[workload].request;
        let has_more = wanted > self.clusters[cluster].bound.get(&workload).copied().unwrap_or(0);
        if has_more && self.workloads[workload].profile == crate::profiles::Profile::RunOnce {
            self.check_run_once(cluster, workload);
        }
        if self.clusters[cluster].scale(workload, wanted, request) {
            if !self.clusters[cluster].has_heartbeat_due {
                self.clusters[cluster].has_heartbeat_due = true;
                self.within(Event::Heartbeat(cluster), HEARTBEAT);
            }
            if has_more {
                self.within(Event::Start(cluster, workload), (SECOND, 20 * SECOND));
            } else {
                // Pods that wait may fit now.
                let waiting: Vec<usize> = self.clusters[cluster].pending.keys().copied().collect();
                for other in waiting.into_iter().filter(|other| *other != workload) {
                    self.within(Event::Sync(cluster, other), (SECOND, 2 * SECOND));
                }
            }
        }
        self.within(Event::Report(cluster, workload), (200, 2 * SECOND));
    }

    /// A syncer reports the pods of a workload, or that nothing of it is left.
    fn report(&mut self, cluster: usize, workload: usize) {
        if !self.clusters[cluster].is_reachable {
            return;
        }
        self.clusters[cluster].report(workload);
        let below = &self.clusters[cluster];
        let of = &self.workloads[workload];
        let count = |counts: &crate::below::Counts| counts.get(&workload).copied().unwrap_or(0);
        let (bound, ready, pending) = (count(&below.bound), count(&below.ready), count(&below.pending));
        let name = format!("{}.{}", of.uid, below.name);
        if self.placement(workload).share_of(&below.name, &below.uid).is_none() && bound == 0 && pending == 0
        {
            let key = Key::new(&of.key.workspace, &of.key.namespace, &name);
            self.api.delete(&resources::OBJECT_STATUSES, &key);
            self.confirm_removal(cluster, workload);
            return;
        }
        let total = bound + pending;
        // A record that is created again is another one.
        let key = Key::new(&of.key.workspace, &of.key.namespace, &name);
        let known = self.api.get(&resources::OBJECT_STATUSES, &key);
        let uid = match &known {
            Some(known) => atoll_meta::object::uid(known).to_string(),
            None => format!("{name}.{}", self.now()),
        };
        let record = json!({
            "metadata": {
                "name": name, "namespace": *of.key.namespace, "uid": uid,
                "annotations": { WORKSPACE: *of.key.workspace },
            },
            "spec": {
                "cluster": below.name, "clusterUID": below.uid, "namespace": *of.key.namespace,
                "name": *of.key.name, "uid": of.uid,
                "resource": { "group": *of.resource.group, "resource": *of.resource.plural },
            },
            "status": {
                "state": "Applied", "generation": 1, "observed": true, "replicas": total,
                "status": {
                    "replicas": total, "readyReplicas": ready, "availableReplicas": ready,
                    "updatedReplicas": total,
                },
                "pods": { "total": total, "ready": ready, "unschedulable": pending },
            },
        });
        self.api.put(&resources::OBJECT_STATUSES, record);
    }

    /// The control plane notices that a cluster is silent, or that it is back.
    fn turn(&mut self, cluster: usize, is_ready: bool) {
        let below = &self.clusters[cluster];
        if below.is_removed || below.is_ready == is_ready || below.is_reachable != is_ready {
            return;
        }
        let word = if is_ready { "is Ready" } else { "is not Ready" };
        self.note(format!("{} {word}", self.clusters[cluster].name));
        let now = self.now();
        let below = &mut self.clusters[cluster];
        (below.is_ready, below.changed) = (is_ready, now);
        if !is_ready {
            return self.write_cluster(cluster);
        }
        // A fenced cluster starts empty, and an administrator has opened it again.
        below.is_fenced = false;
        self.opens(cluster);
        let known: Vec<usize> = self.placed[cluster].keys().copied().collect();
        let all = self.clusters[cluster].workloads().into_iter().chain(known);
        for workload in all.collect::<std::collections::BTreeSet<usize>>() {
            self.within(Event::Sync(cluster, workload), (200, 5 * SECOND));
        }
        // Workloads that left while the cluster was away, with nothing left there.
        for workload in 0..self.workloads.len() {
            let (name, uid) = (&self.clusters[cluster].name, &self.clusters[cluster].uid);
            if self.placement(workload).leaving.iter().any(|one| one.is_of(name, uid)) {
                self.within(Event::Sync(cluster, workload), (200, 5 * SECOND));
            }
        }
    }

    /// A cluster takes new replicas from now on.
    pub fn opens(&mut self, cluster: usize) {
        let now = self.now();
        self.opened = now;
        self.clusters[cluster].changed = self.clusters[cluster].changed.max(1);
        self.note(format!("{} opens", self.clusters[cluster].name));
        self.write_cluster(cluster);
    }

    /// An administrator declares that nothing runs on a cluster any more, which is true.
    fn fence(&mut self, cluster: usize) {
        let below = &mut self.clusters[cluster];
        if below.is_ready || below.is_removed || !below.workloads().is_empty() {
            return;
        }
        below.is_fenced = true;
        self.count("fenced");
        self.note(format!("{} is fenced", self.clusters[cluster].name));
        self.write_cluster(cluster);
    }

    /// A drain ends: nothing is left on the cluster, if it could be reached.
    fn undrain(&mut self, cluster: usize, is_removed: bool) {
        let below = &self.clusters[cluster];
        if !below.is_drained {
            return;
        }
        if !below.is_ready || !below.is_reachable {
            return self.within(Event::Undrain(cluster, is_removed), (10 * MINUTE, 20 * MINUTE));
        }
        let left: Vec<usize> = self.placed[cluster].keys().copied().collect();
        for workload in left {
            self.check_drained(cluster, workload);
        }
        if is_removed && self.placed[cluster].is_empty() && self.clusters[cluster].workloads().is_empty() {
            self.count("removed");
            self.note(format!("{} is removed", self.clusters[cluster].name));
            self.clusters[cluster].is_removed = true;
            return self.api.delete(&resources::CLUSTERS, &self.cluster_key(cluster));
        }
        self.clusters[cluster].is_drained = false;
        self.opens(cluster);
    }
}
