//! Trials: a copy of the state of the scheduler in which a change is tried out, with the code of real
//! decisions.
//!
//! ```text
//!   Scheduler ─ copy ─► Trial ─ change ─► queue ─► Round ─► placements and reports, in copied caches only
//!                                           ▲                      │
//!                                           └──────────────────────┘ until nothing changes
//! ```

mod freed_nodes;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atoll_fleet::placement::Share;
use atoll_fleet::{Placement, marks};
use atoll_informer::{Cache, Clock, Key, Queue, WORKSPACE};
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::changes::{self, Changes};
use crate::cluster_change_throttle::Throttle;
use crate::counts::Counts;
use crate::heartbeats::Heartbeats;
use crate::pauses::Pauses;
use crate::policies::Policies;
use crate::progress::RolloutProgress;
use crate::rebalancing::{self, Rebalancing};
use crate::reports::Reports;
use crate::round::{DecidedStep, Round};
use crate::suspicion::Suspicions;
use crate::volume_claims::VolumeClaims;
use crate::writer::{PlacementTarget, Wanted, Writer};
use crate::{BATCHES, Scheduler};

/// Most rounds of a trial. In each round every moving object makes one step, so that moves end long before.
const MAX_ROUNDS: usize = 500;
/// Seconds by which the clock of a trial is ahead, so that all waiting times are over.
const AHEAD: i64 = 3600;

/// A copy of the scheduler that writes nothing but its own caches.
pub struct Trial {
    pub scheduler: Arc<Scheduler>,
    /// The reason why replicas have no cluster or do not move, by queue key.
    pub messages: HashMap<Key, String>,
}

struct LaterClock(Arc<dyn Clock>);

impl Clock for LaterClock {
    fn now(&self) -> Timestamp {
        let now = self.0.now();
        Timestamp { seconds: now.seconds + AHEAD, ..now }
    }
}

impl Trial {
    /// Copies the state of a scheduler.
    pub fn begin(of: &Scheduler) -> Trial {
        let mut ledger = of.ledger();
        of.update(&mut ledger);
        let copy = |cache: &Arc<Cache>| Arc::new(cache.detached_copy());
        let writer = Writer {
            api: of.api.clone(),
            clock: Arc::new(LaterClock(of.writer.clock.clone())),
            recorder: of.writer.recorder.clone(),
        };
        let kinds = Arc::new(of.kinds.detached_copy());
        let scheduler = Arc::new(Scheduler {
            api: of.api.clone(),
            volume_claims: VolumeClaims::new(copy(&of.volume_claims.cache), &kinds.workloads),
            kinds,
            clusters: copy(&of.clusters),
            namespaces: copy(&of.namespaces),
            services: of.services.clone(),
            policies: Policies::new(copy(&of.policies.of_namespaces), copy(&of.policies.of_workspaces)),
            dialects: of.dialects.clone(),
            ledger: Mutex::new(ledger.clone()),
            changes: Changes::default(),
            pending: of.pending.copy(),
            pauses: Pauses::default(),
            rebalancing: Rebalancing::default(),
            throttle: Throttle::default(),
            reports: Reports::new(copy(&of.reports.cache)),
            progress: RolloutProgress::default(),
            serving: None,
            autoscalers: of.autoscalers.copy(),
            suspicions: Suspicions::default(),
            heartbeats: Heartbeats::default(),
            counts: Counts::default(),
            queue: Queue::new(),
            scopes: Queue::new(),
            writer,
            is_loaded: AtomicBool::new(true),
            update_time: Duration::MAX,
        });
        drop(ledger);
        delay_losses(&scheduler);
        changes::listen(&scheduler);
        // Listeners get all existing objects first, which is no change.
        scheduler.rebalancing.forget_changes();
        scheduler.queue.drain();
        scheduler.scopes.drain();
        scheduler.changes.reset(&of.changes);
        Trial { scheduler, messages: HashMap::new() }
    }

    /// Decides about all affected objects until nothing changes any more, or it `is_over`.
    pub fn settle(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), Status> {
        for _ in 0..MAX_ROUNDS {
            rebalancing::enqueue(&self.scheduler);
            self.scheduler.enqueue_scopes();
            let keys = self.scheduler.queue.drain();
            if keys.is_empty() {
                return Ok(());
            }
            let mut is_changed = false;
            for batch in keys.chunks(BATCHES.batch) {
                let steps: Vec<(Key, DecidedStep)> = {
                    let mut round = Round::begin(&self.scheduler);
                    let decided = batch.iter().take_while(|_| !is_over());
                    decided.map(|key| (key.clone(), round.decide(key))).collect()
                };
                if steps.len() < batch.len() {
                    return Ok(());
                }
                for (key, step) in steps {
                    is_changed |= self.apply(key, step)?;
                }
            }
            if is_changed {
                self.scheduler.pending.keys().into_iter().for_each(|key| self.scheduler.queue.add(key));
            }
        }
        Ok(())
    }

    /// Applies a step to the copies. Returns whether a placement has changed.
    fn apply(&mut self, key: Key, step: DecidedStep) -> Result<bool, Status> {
        let scheduler = self.scheduler.clone();
        match step {
            // The intent leads to the same placement.
            DecidedStep::Settled | DecidedStep::TakeOver(..) => {}
            DecidedStep::Failed(status) => return Err(status),
            DecidedStep::Report(_, verdict) => {
                scheduler.pending.insert(key.clone(), &verdict.message);
                self.messages.insert(key, verdict.message);
            }
            DecidedStep::Scale(target, replicas) => {
                let Some((cache, _)) = scheduler.kinds.target(&key) else { return Ok(false) };
                let mut changed = target.object.as_ref().clone();
                changed["spec"]["replicas"] = replicas.into();
                self.write(&cache, changed);
                return Ok(true);
            }
            DecidedStep::Place(target, wanted, problem) => {
                let is_blocked =
                    !wanted.blocked.is_empty() && wanted.is_count_of(&Placement::of(&target.object));
                self.place(&key, &target, wanted);
                if !is_blocked {
                    scheduler.changes.decided(&key);
                    scheduler.rebalancing.decided(&key);
                }
                match problem {
                    Some((_, message)) => {
                        scheduler.pending.insert(key.clone(), &message);
                        self.messages.insert(key, message);
                    }
                    None => {
                        scheduler.pending.remove(&key);
                        self.messages.remove(&key);
                    }
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a placement and the reports that follow: pods become ready, and removals are confirmed.
    fn place(&self, key: &Key, target: &PlacementTarget, wanted: Wanted) {
        let Some((cache, _)) = self.scheduler.kinds.target(key) else { return };
        let before = Placement::of(&target.object);
        let mut next = before.decided(wanted.shares, &wanted.by);
        next.leaving.clear();
        (next.phase, next.target, next.duplicate) = (wanted.phase, wanted.target, wanted.duplicate);
        (next.missing, next.blocked, next.left_out) = (wanted.missing, wanted.blocked, wanted.left_out);
        next.autoscaler = wanted.autoscaler.to_string();
        let mut changed = target.object.as_ref().clone();
        match next.text() {
            Some(text) => object::set_annotation(&mut changed, marks::PLACEMENT, &text),
            None => object::remove_annotation(&mut changed, marks::PLACEMENT),
        }
        let revision = self.write(&cache, changed);
        self.scheduler.ledger().written(key, revision);
        let gone = before.clusters.iter().filter(|share| next.share_of(&share.name, &share.uid).is_none());
        gone.for_each(|share| self.report(target, share, 0));
        let replicas = target.object["spec"]["replicas"].as_i64().unwrap_or(1);
        for share in &next.clusters {
            self.report(target, share, share.replicas.unwrap_or(replicas));
        }
    }

    /// Reports that all pods of a share are ready, unless its cluster is not.
    fn report(&self, target: &PlacementTarget, share: &Share, pods: i64) {
        let cluster = self.scheduler.ledger().cluster_key(&share.uid).cloned();
        let cluster = cluster.and_then(|key| self.scheduler.clusters.get(&key));
        let is_ready = |cluster: &Arc<Value>| condition(cluster, "Ready").is_none_or(|ready| ready.is_true());
        if !cluster.as_ref().is_some_and(is_ready) {
            return;
        }
        let (uid, at) = (object::uid(&target.object), &target.at);
        let name = format!("{uid}.{}", share.name);
        let namespace = if at.namespace.is_empty() { "default" } else { &at.namespace };
        let known = self.scheduler.reports.cache.get(&Key::new(&at.workspace, namespace, &name));
        let revision = known.as_ref().map_or("0", |known| object::resource_version(known));
        let resource = json!({ "group": *target.resource.group, "resource": *target.resource.plural });
        let report = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": name, "resourceVersion": revision,
                "annotations": { WORKSPACE: *at.workspace },
            },
            "spec": {
                "cluster": share.name, "clusterUID": share.uid, "resource": resource,
                "namespace": *at.namespace, "name": *at.name, "uid": uid,
            },
            "status": {
                "state": "Applied", "generation": 1, "observed": true,
                "status": { "replicas": pods, "readyReplicas": pods, "availableReplicas": pods },
                "pods": { "total": pods, "ready": pods, "bound": pods },
            },
        });
        self.write(&self.scheduler.reports.cache, report);
        self.free(target, &cluster, pods);
    }

    /// Reports that a cluster has bound no more than these pods of an object: what the others took is free.
    fn free(&self, target: &PlacementTarget, cluster: &Option<Arc<Value>>, pods: i64) {
        let Some(cluster) = cluster else { return };
        let uid = object::uid(&target.object);
        let gone = cluster["status"]["bound"][uid].as_i64().unwrap_or(0) - pods;
        if gone <= 0 {
            return;
        }
        let demand = self.scheduler.demand(&target.resource, &target.at, "", &target.object);
        let mut changed = cluster.as_ref().clone();
        changed["status"]["bound"][uid] = pods.into();
        changed["status"]["free"] = freed_nodes::freed(cluster, &demand.needs, gone);
        self.write(&self.scheduler.clusters, changed);
    }

    /// Writes an object to a copied cache, as a newer revision.
    pub fn write(&self, cache: &Cache, mut changed: Value) -> u64 {
        let revision = object::resource_version(&changed).parse::<u64>().unwrap_or(0) + 1;
        changed["metadata"]["resourceVersion"] = revision.to_string().into();
        cache.wrote(&changed);
        revision
    }
}

/// Lets clusters that are not Ready have been so for as long as on the real clock. Otherwise their shares would be
/// replaced in every trial, although that is no effect of the change.
fn delay_losses(scheduler: &Scheduler) {
    for cluster in scheduler.clusters.all() {
        let Some(changed) = turned_later(&cluster) else { continue };
        let key = Key::of(&cluster);
        let Ok(path) = scheduler.path(&key.workspace) else { continue };
        scheduler.ledger().set_cluster(&key, &changed, &path);
        scheduler.clusters.wrote(&changed);
    }
}

/// Returns a cluster that is not Ready as one that turned so later, by as much as the clock of a trial is ahead.
fn turned_later(cluster: &Value) -> Option<Value> {
    let conditions = cluster["status"]["conditions"].as_array()?;
    let place = conditions.iter().position(|one| one["type"] == "Ready" && one["status"] == "False")?;
    let since = time::parse(conditions[place]["lastTransitionTime"].as_str()?).ok()?.seconds;
    let mut changed = cluster.clone();
    changed["status"]["conditions"][place]["lastTransitionTime"] = time::format(since + AHEAD).into();
    let revision = object::resource_version(cluster).parse::<u64>().unwrap_or(0) + 1;
    changed["metadata"]["resourceVersion"] = revision.to_string().into();
    Some(changed)
}

impl Drop for Trial {
    fn drop(&mut self) {
        // The listeners refer to the scheduler, which owns the caches.
        self.scheduler.caches().iter().for_each(|cache| cache.remove_listeners());
    }
}
