//! Invariants of every moment, and invariants of workloads and clusters that are at rest. Capacity is judged by the
//! nodes of the clusters, and not by the scheduler's account of them.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_fleet::placement::{Share, names_of};

use crate::api::PlacementWrite;
use crate::profiles::Profile;
use crate::simulated_fleet::{HOUR, MINUTE, SECOND, SimulatedFleet};

/// The time after which a workload is where it belongs.
const REST: u64 = 10 * MINUTE;
/// The time after a cluster has opened within which workloads move there.
const CAUSE: u64 = 10 * MINUTE;
/// The least cap on objects that move within an hour for the sake of balance, and the part of all objects.
const LEAST_CAP: usize = 60;
const PART: usize = 10;

impl SimulatedFleet {
    /// Checks all placements that were written since the last call, and lets syncers follow them.
    pub fn observe(&mut self) {
        for write in self.api.take_writes() {
            let Some(&workload) = self.by_key.get(&write.key) else { continue };
            let (shares, target) = (names_of(&write.after.clusters), names_of(&write.after.target));
            let before = names_of(&write.before.clusters);
            self.note(format!("{} {before} -> {shares} {} {target}", write.key, write.after.phase));
            self.count("placements");
            self.check_write(workload, &write);
            let now = self.now();
            self.workloads[workload].written = now;
            self.follow(workload);
            for share in &write.after.clusters {
                if let Some(&cluster) = self.by_name.get(&share.name) {
                    self.check_room(cluster);
                }
            }
        }
        for refusal in self.api.take_refusals() {
            self.count("refused");
            self.note(format!("refused: {refusal}"));
        }
    }

    /// Thousandths of cores that the shares of a cluster request.
    pub fn requested(&self, cluster: usize) -> i64 {
        let of = |(workload, pods): (&usize, &i64)| pods * self.workloads[*workload].request;
        self.placed[cluster].iter().map(of).sum()
    }

    fn check_room(&mut self, cluster: usize) {
        let (requested, below) = (self.requested(cluster), &mut self.clusters[cluster]);
        below.excess = below.excess.min(requested);
        let size = below.told.max(below.excess);
        if requested > size {
            let name = self.clusters[cluster].name.clone();
            self.problem(format!("{name} is overcommitted: {requested}m of {size}m are placed there"));
        }
    }

    fn pods(&self, workload: usize, shares: &[Share]) -> BTreeMap<usize, i64> {
        let replicas = self.workloads[workload].replicas;
        let of = |share: &Share| Some((*self.by_name.get(&share.name)?, share.replicas.unwrap_or(replicas)));
        shares.iter().filter_map(of).collect()
    }

    fn check_write(&mut self, workload: usize, write: &PlacementWrite) {
        let PlacementWrite { key, before, after } = write;
        let is_moving = |placement: &Placement| !matches!(placement.phase.as_str(), "" | "away");
        let goes_to = if is_moving(after) { &after.target } else { &after.clusters };
        let (was, is) = (self.pods(workload, &before.clusters), self.pods(workload, goes_to));
        let next = self.pods(workload, &after.clusters);
        self.check_suspicion(workload, (&was, &next), is_moving(before));
        self.check_availability(workload, (&was, &next), key);
        self.check_surge(workload, (&was, &next), key);
        let loses = |(cluster, pods): (&usize, &i64)| {
            self.clusters[*cluster].is_healthy() && is.get(cluster).is_none_or(|after| after < pods)
        };
        if is_moving(before) || was.is_empty() || !was.iter().any(loses) {
            return;
        }
        let (now, of) = (self.now(), &self.workloads[workload]);
        let is_of_user = now - of.changed < REST;
        let is_lost = was.keys().any(|cluster| {
            !self.clusters[*cluster].is_healthy() || now - self.clusters[*cluster].changed < 5 * MINUTE
        });
        let is_stuck = self.clusters.iter().any(|below| below.pending.contains_key(&workload));
        // A workload that has outgrown its clusters moves when there is room elsewhere.
        let is_lacking = was.values().sum::<i64>() < of.replicas;
        if is_of_user || is_lost || is_stuck || is_lacking {
            return;
        }
        // The hourly cap delays what a cluster that opened has caused.
        let is_delayed = self.capped.get(&key.workspace).is_some_and(|at| now - at <= 2 * HOUR);
        if now - self.opened > CAUSE && !is_delayed {
            self.problem(format!("{key} moves without a cause, from {was:?} to {is:?}"));
        }
        self.check_cap(key);
    }

    /// Objects that move only for the sake of balance are counted.
    fn check_cap(&mut self, key: &atoll_informer::Key) {
        self.count("balanced");
        let now = self.now();
        let objects = self.workloads.iter().filter(|workload| !workload.is_deleted).count();
        let begun = self.balanced.entry(key.workspace.clone()).or_default();
        begun.push_back(now);
        // The clock of the scheduler counts whole seconds.
        while begun.front().is_some_and(|at| at + HOUR <= now + SECOND) {
            begun.pop_front();
        }
        let (moved, cap) = (begun.len(), LEAST_CAP.max(objects.div_ceil(PART)));
        // The scheduler counts moves that have another cause too.
        if moved * 2 >= cap {
            self.capped.insert(key.workspace.clone(), now);
        }
        if moved > cap {
            self.problem(format!("{moved} objects of {} moved within an hour, of {cap}", key.workspace));
        }
    }

    /// Nothing fails over while the control plane is cut off from more than half of the clusters: from the first one
    /// that becomes unready until the last one has returned.
    fn check_suspicion(
        &mut self,
        workload: usize,
        (was, next): (&BTreeMap<usize, i64>, &BTreeMap<usize, i64>),
        was_moving: bool,
    ) {
        if !self.is_cut_off || was_moving {
            return;
        }
        let is_taken = |(cluster, pods): (&usize, &i64)| {
            let below = &self.clusters[*cluster];
            let is_left = below.is_fenced || below.is_drained;
            below.is_cut && !is_left && next.get(cluster).is_none_or(|after| after < pods)
        };
        let is_of_user = self.now() - self.workloads[workload].changed < REST;
        if was.iter().any(is_taken) && !is_of_user {
            let key = self.workloads[workload].key.clone();
            self.problem(format!("{key} fails over while the control plane is cut off"));
        }
    }

    fn is_suspicious(&self) -> bool {
        let counted = self.clusters.iter().filter(|below| !below.is_removed && !below.is_fenced);
        let mut turned: Vec<u64> =
            counted.clone().filter(|below| !below.is_ready).map(|below| below.changed / SECOND).collect();
        turned.sort_unstable();
        let together = |from: usize| turned[from..].partition_point(|at| *at <= turned[from] + 60);
        (0..turned.len()).map(together).max().is_some_and(|most| most >= 2 && most * 2 > counted.count())
    }

    /// A step of a move never takes away what is needed: of the replicas that are known to be ready on clusters that
    /// are Ready, as many stay as before, or as many as are wanted. That a cluster has just failed is not known yet.
    fn check_availability(
        &mut self,
        workload: usize,
        (was, next): (&BTreeMap<usize, i64>, &BTreeMap<usize, i64>),
        key: &atoll_informer::Key,
    ) {
        if self.workloads[workload].profile == Profile::RunOnce {
            return;
        }
        let ready = |shares: &BTreeMap<usize, i64>| -> i64 {
            let of = |(cluster, pods): (&usize, &i64)| {
                let below = &self.clusters[*cluster];
                let known = below.reported.get(&workload).copied().unwrap_or(0).min(*pods);
                if below.is_ready { known } else { 0 }
            };
            shares.iter().map(of).sum()
        };
        let (before, after) = (ready(was), ready(next));
        let wanted = self.workloads[workload].replicas;
        if after < before.min(wanted) {
            self.problem(format!("{key} loses ready replicas: {after} of {before}, and {wanted} are wanted"));
        }
    }

    /// A policy that limits how many replicas move allows one more than are asked for.
    fn check_surge(
        &mut self,
        workload: usize,
        (was, next): (&BTreeMap<usize, i64>, &BTreeMap<usize, i64>),
        key: &atoll_informer::Key,
    ) {
        let of = &self.workloads[workload];
        let alive = |shares: &BTreeMap<usize, i64>| -> i64 {
            let alive = shares.iter().filter(|(cluster, _)| self.clusters[**cluster].is_ready);
            alive.map(|(_, pods)| pods).sum()
        };
        let (before, after, most) = (alive(was), alive(next), of.replicas + 1);
        if of.profile == Profile::Slow && after > before.max(most) {
            self.problem(format!("{key} has {after} replicas after {before}, of {most} at most"));
        }
    }

    /// Work that must run once begins on a cluster.
    pub fn check_run_once(&mut self, cluster: usize, workload: usize) {
        let runs = |at: &usize| *at != cluster && self.clusters[*at].bound.contains_key(&workload);
        if let Some(other) = (0..self.clusters.len()).find(runs) {
            let (name, other) = (self.clusters[cluster].name.clone(), self.clusters[other].name.clone());
            let key = self.workloads[workload].key.clone();
            self.problem(format!("{key} must run once, and starts on {name} while it runs on {other}"));
        }
    }

    /// A drain has lasted long enough for everything to leave.
    pub fn check_drained(&mut self, cluster: usize, workload: usize) {
        let of = &self.workloads[workload];
        // A move that began a moment ago, or a user who insists on the cluster, keeps it there.
        let is_kept = of.pinned.is_some() || self.now() - self.last_change(workload) < REST;
        if !is_kept && !of.is_deleted {
            let (key, name) = (of.key.clone(), self.clusters[cluster].name.clone());
            self.problem(format!("{key} is still on {name}, which is drained"));
        }
    }

    /// When something last happened that concerns a workload.
    fn last_change(&self, workload: usize) -> u64 {
        let (of, placement) = (&self.workloads[workload], self.placement(workload));
        let names = placement.names().chain(placement.target.iter().map(|share| share.name.as_str()));
        let clusters = names.filter_map(|name| self.by_name.get(name)).map(|at| self.clusters[*at].changed);
        clusters.chain([of.changed, of.written]).max().unwrap_or(0)
    }

    /// Everything that is at rest is where it belongs.
    pub fn check_all(&mut self) {
        // After a cut, clusters return within seconds, and what is lost waits for the last of them.
        let is_suspicious = self.is_suspicious() || self.is_cut_off;
        for workload in 0..self.workloads.len() {
            let of = &self.workloads[workload];
            if of.is_deleted || self.now() - self.last_change(workload) < REST || is_suspicious {
                continue;
            }
            if let Some(problem) = self.at_rest(workload) {
                let (key, placement) = (&self.workloads[workload].key, self.placement(workload));
                let (shares, target) = (names_of(&placement.clusters), names_of(&placement.target));
                self.problem(format!("{key} {problem}; on {shares} {} {target}", placement.phase));
            }
        }
        for cluster in 0..self.clusters.len() {
            self.check_room(cluster);
        }
        self.count("checks");
    }

    /// Pods of the shares of a workload on clusters that work.
    pub fn placed_pods(&self, workload: usize) -> i64 {
        let shares = self.pods(workload, &self.placement(workload).clusters);
        shares.iter().filter(|(cluster, _)| self.clusters[**cluster].is_healthy()).map(|(_, pods)| pods).sum()
    }

    /// Whether a workload stays where it is although it has outgrown its cluster: it must not run twice, is there with
    /// others of its namespace, or was put there by its user.
    pub fn is_bound(&self, workload: usize) -> bool {
        let of = &self.workloads[workload];
        let is_other_workload = |other: &usize| {
            let key = &self.workloads[*other].key;
            *other != workload && (&key.workspace, &key.namespace) == (&of.key.workspace, &of.key.namespace)
        };
        let shares_cluster_with_namespace =
            || of.on.iter().any(|cluster| self.placed[*cluster].keys().any(is_other_workload));
        match of.profile {
            _ if of.pinned.is_some() => true,
            Profile::RunOnce => true,
            Profile::Default => shares_cluster_with_namespace(),
            _ => false,
        }
    }

    /// Whether replicas of a workload rightly have no place.
    fn may_lack(&self, workload: usize) -> bool {
        let of = &self.workloads[workload];
        if self.is_final {
            return false;
        }
        let is_full = |cluster: &usize| {
            let below = &self.clusters[*cluster];
            !below.is_open() || !below.fits(2 * of.request)
        };
        // Pods that have lost their node, and must not run elsewhere.
        let is_stuck = |cluster: &usize| self.clusters[*cluster].pending.contains_key(&workload);
        if self.is_bound(workload) {
            return of.on.iter().all(is_full) || of.on.iter().any(is_stuck);
        }
        let takes_all = |cluster: usize| {
            let below = &self.clusters[cluster];
            below.is_open() && below.certain_room(self.requested(cluster), of.request) >= of.replicas
        };
        of.profile.is_single() && !(0..self.clusters.len()).any(takes_all)
    }

    /// The rule that a workload at rest breaks, if any.
    fn at_rest(&self, workload: usize) -> Option<String> {
        let (of, placement) = (&self.workloads[workload], self.placement(workload));
        let shares = self.pods(workload, &placement.clusters);
        let on_lost = shares.keys().any(|cluster| !self.clusters[*cluster].is_healthy());
        // Work that must run once waits for a fence, and a pin for its cluster.
        let is_waiting = of.profile == Profile::RunOnce || of.pinned.is_some();
        if on_lost && is_waiting {
            return None;
        }
        let alive = shares.iter().filter(|(cluster, _)| self.clusters[**cluster].is_healthy());
        let placed: i64 = alive.clone().map(|(_, pods)| pods).sum();
        if placed < of.replicas && self.may_lack(workload) {
            return None;
        }
        if placed != of.replicas {
            let pinned = of.pinned.as_deref().and_then(|name| self.by_name.get(name));
            let is_closed = pinned.is_some_and(|at| !self.clusters[*at].is_open());
            return (!is_closed).then(|| format!("has {placed} of {} replicas", of.replicas));
        }
        let ready: i64 = alive
            .clone()
            .filter(|(cluster, _)| self.clusters[**cluster].is_reachable)
            .filter_map(|(cluster, _)| self.clusters[*cluster].ready.get(&workload))
            .sum();
        let is_silent = alive.clone().any(|(cluster, _)| !self.clusters[*cluster].is_reachable);
        if ready < of.replicas && !is_silent && !self.may_lack(workload) {
            return Some(format!("has {ready} of {} replicas ready", of.replicas));
        }
        let regions: Vec<(&str, i64)> =
            alive.map(|(cluster, pods)| (self.clusters[*cluster].region, *pods)).collect();
        of.profile.violation(&regions).filter(|_| of.pinned.is_none())
    }
}
