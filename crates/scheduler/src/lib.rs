//! The scheduler: turns intents and policies into placements. It sees only the Kubernetes API.
//!
//! ```text
//!   Clusters, placements ─► ledger ──────┐
//!   policies, Namespaces ─► rules ───────┼─► round: decide (pure) ─┬─► writer ─► …/placement
//!   workloads ─► Queue, in batches ──────┘                         └─► pending ─► condition Placed, event
//!                  ▲                                                      │
//!                  └───── a Cluster, policy or placement changes ◄────────┘
//! ```
//!
//! Decisions are made one after the other, in batches, and each reserves what it takes before the next one is
//! made. The placements of a batch are written while further batches are decided about, each on condition that its
//! object has not changed.

mod advance;
mod autoscaled;
mod autoscalers;
mod beyond_policy;
mod callers;
mod changes;
mod cluster_change_throttle;
mod counts;
mod decisions;
mod elsewhere;
mod handle;
mod heartbeats;
mod hourly_cap;
mod kinds;
mod labels;
mod ledger;
mod losses;
mod moving;
mod other_kinds;
mod other_workloads;
mod owned;
mod pauses;
mod pending;
mod policies;
mod policy_status;
mod progress;
mod rebalancing;
mod report;
mod reports;
mod rollouts;
mod round;
mod rules;
mod scopes;
mod selected;
mod serving;
mod suspicion;
mod taking_over;
mod trial;
mod volume_claims;
mod what_if;
mod workloads;
mod writer;

pub use self::advance::{ACCEPT_EMPTY_VOLUMES, DRAIN};
pub use self::moving::AWAY;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_condition::{ConditionValue, UNSCHEDULABLE};
use atoll_informer::{
    ApiScope, BatchOutcome, BatchSize, Cache, Clock, Events, Informers, Key, Next, Queue, Resource,
    is_unlimited, resources,
};
use atoll_meta::Status;
use atoll_placement::demand::Demand;
use atoll_placement::failover::SUSPECT;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::autoscalers::Autoscalers;
use crate::changes::Changes;
use crate::cluster_change_throttle::Throttle;
use crate::counts::Counts;
pub use crate::handle::SchedulerHandle;
use crate::heartbeats::Heartbeats;
use crate::kinds::Kinds;
use crate::ledger::Ledger;
use crate::pauses::Pauses;
use crate::pending::Pending;
use crate::policies::Policies;
use crate::progress::RolloutProgress;
use crate::rebalancing::Rebalancing;
use crate::reports::Reports;
use crate::round::{DecidedStep, Round};
use crate::selected::Selected;
use crate::serving::Serving;
use crate::suspicion::Suspicions;
use crate::volume_claims::VolumeClaims;
use crate::writer::{PAUSED_DELAY, PlacementTarget, Wanted, Writer, Written};

/// Most objects of a batch, during whose decisions the ledger is locked, and most objects that are decided
/// about or written at once. The writes of one workspace may be slow, because its objects are large.
const BATCHES: BatchSize = BatchSize { batch: 256, at_once: 1024, per_workspace: 128 };
/// Time for the decisions of a batch. Its other objects follow after those of other workspaces: a decision may
/// take long if there are many rules, clusters or other workloads.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// Time for the decisions about objects of one workspace. Its other objects wait for as long as the decisions
/// took, so that a workspace uses at most half of the time.
const WORKSPACE_TIME: Duration = Duration::from_millis(20);
/// Time for updating the ledger with changed objects before the decisions of a batch. The other changes follow
/// before the next batch: a change may concern very many objects of one workspace.
const UPDATE_TIME: Duration = Duration::from_millis(20);
/// The same for the Clusters of one workspace, before it is throttled.
const CLUSTERS_TIME: Duration = Duration::from_millis(5);
/// The component of events.
const COMPONENT: &str = "atoll-scheduler";

/// Returns each part of an object in a workspace (by id) that names a cluster in the words of a dialect that is
/// enabled there, such as `label example.com/cluster`, with that name. `None` if it names clusters in the words of dialects
/// that are not enabled there: then it stays where they have placed it.
pub type DialectIntents = Arc<dyn Fn(&str, &Value) -> Option<Vec<(String, String)>> + Send + Sync>;

/// Dependencies of the scheduler.
pub struct Setup {
    /// Informers of all workspaces.
    pub informers: Arc<Informers>,
    pub clock: Arc<dyn Clock>,
    pub dialects: DialectIntents,
    /// Changes when a workspace enables or disables a dialect.
    pub dialects_changed: watch::Receiver<u64>,
    /// Receives the scheduler once it runs.
    pub handle: SchedulerHandle,
}

struct Scheduler {
    api: ApiScope,
    kinds: Arc<Kinds>,
    clusters: Arc<Cache>,
    namespaces: Arc<Cache>,
    services: Arc<Cache>,
    volume_claims: VolumeClaims,
    policies: Policies,
    dialects: DialectIntents,
    ledger: Mutex<Ledger>,
    changes: Changes,
    pending: Pending,
    pauses: Pauses,
    rebalancing: Rebalancing,
    throttle: Throttle,
    reports: Reports,
    progress: RolloutProgress,
    /// `None` in a trial, where ready Pods count as reachable.
    serving: Option<Serving>,
    autoscalers: Autoscalers,
    suspicions: Suspicions,
    heartbeats: Heartbeats,
    counts: Counts,
    queue: Queue,
    /// Changes that concern many objects.
    scopes: Queue,
    writer: Writer,
    /// Whether the ledger has been updated.
    is_loaded: AtomicBool,
    /// Time for updating it again.
    update_time: Duration,
}

/// Runs the scheduler until it is dropped. It does nothing before a cluster joins, because the watches would
/// only cost memory.
pub async fn run(setup: Setup) {
    let Setup { informers, clock, dialects, dialects_changed, handle } = setup;
    let clusters = informers.of(&resources::CLUSTERS);
    let (exists, mut joined) = tokio::sync::watch::channel(false);
    clusters.listen(move |_| {
        exists.send_replace(true);
    });
    // The channel closes when the cache is dropped.
    if joined.wait_for(|joined| *joined).await.is_err() {
        return;
    }
    let api = informers.api().clone();
    let recorder = Events::new(api.clone(), clock.clone()).recorder(COMPONENT);
    let of_workloads = workloads::kinds().iter().map(|kind| informers.of(kind)).collect();
    let kinds = Arc::new(Kinds::new(of_workloads, api.clone()));
    let scheduler = Arc::new(Scheduler {
        volume_claims: VolumeClaims::new(
            informers.of(&resources::PERSISTENT_VOLUME_CLAIMS),
            &kinds.workloads,
        ),
        kinds,
        clusters,
        namespaces: informers.of(&resources::NAMESPACES),
        services: informers.of(&resources::SERVICES),
        policies: Policies::new(
            informers.of(&resources::PLACEMENT_POLICIES),
            informers.of(&resources::CLUSTER_PLACEMENT_POLICIES),
        ),
        dialects,
        ledger: Mutex::default(),
        changes: Changes::default(),
        pending: Pending::default(),
        pauses: Pauses::default(),
        rebalancing: Rebalancing::default(),
        throttle: Throttle::default(),
        reports: Reports::new(informers.of(&resources::OBJECT_STATUSES)),
        progress: RolloutProgress::default(),
        serving: Some(Serving::new(informers.of(&resources::SERVICES))),
        autoscalers: Autoscalers::new(informers.of(&resources::HORIZONTAL_POD_AUTOSCALERS)),
        suspicions: Suspicions::default(),
        heartbeats: Heartbeats::default(),
        counts: Counts::default(),
        queue: Queue::new(),
        scopes: Queue::new(),
        writer: Writer { api: api.clone(), clock, recorder },
        is_loaded: AtomicBool::new(false),
        update_time: UPDATE_TIME,
        api,
    });
    changes::listen(&scheduler);
    let selected = Selected::new(&informers, scheduler.kinds.clone());
    for cache in scheduler.caches() {
        cache.synced().await;
    }
    handle.set(&scheduler);
    // Each loop has a task of its own, so that none waits for another. All end when they are dropped.
    let mut tasks = JoinSet::new();
    let (waking, balancing) = (scheduler.clone(), scheduler.clone());
    tasks.spawn(
        async move { waking.pending.wake(&waking.queue, |one, above| waking.is_below(one, above)).await },
    );
    tasks.spawn(async move { rebalancing::run(&balancing).await });
    let scaling = scheduler.clone();
    tasks.spawn(async move { autoscalers::run(&scaling).await });
    tasks.spawn(heartbeats::run(scheduler.clone()));
    tasks.spawn(policy_status::run(scheduler.clone()));
    tasks.spawn(labels::run(scheduler.clone(), dialects_changed));
    tasks.spawn(suspicion::run(scheduler.clone()));
    tasks.spawn(selected.clone().run());
    tasks.spawn(other_kinds::run(scheduler.clone(), selected));
    tasks.spawn(scopes::run(scheduler.clone()));
    let worker = scheduler.clone();
    let schedule = move |keys| worker.clone().schedule(keys);
    scheduler.queue.work_in_batches("placements", BATCHES, schedule).await;
}

impl Scheduler {
    fn caches(&self) -> Vec<Arc<Cache>> {
        let policies = [&self.policies.of_namespaces, &self.policies.of_workspaces];
        let services = self.serving.iter().map(|serving| &serving.services);
        let own = [&self.clusters, &self.namespaces, &self.reports.cache, &self.autoscalers.cache];
        let shared = own.into_iter().chain([&self.volume_claims.cache]).chain(policies).chain(services);
        self.kinds.all().into_iter().map(|(_, cache)| cache).chain(shared.cloned()).collect()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a workspace, such as `root:org`.
    fn path(&self, workspace: &str) -> Result<String, Status> {
        let root = self.api.root(workspace)?;
        Ok(root.strip_prefix("/clusters/").unwrap_or(&root).to_string())
    }

    /// The Namespace of an object.
    fn namespace(&self, at: &Key) -> Arc<Value> {
        let found = self.namespaces.get(&at.in_workspace(&at.namespace));
        found.unwrap_or_else(|| Arc::new(round::bootstrap_namespace(&at.namespace)))
    }

    /// Whether a policy of the object has changed since it was last decided about.
    fn takes_new_rules(&self, key: &Key) -> bool {
        self.changes.has_new_rules(key)
    }

    /// Whether changes of Clusters may wait. All must be known before the first decision, and a trial is over soon.
    fn may_throttle(&self) -> bool {
        self.is_loaded.load(Ordering::Relaxed) && self.update_time < Duration::MAX
    }

    /// Updates the ledger with everything that has changed in the caches, except for Clusters of throttled workspaces.
    fn update(&self, ledger: &mut Ledger) {
        self.pending.forget_unseen();
        let (clusters, objects) = self.changes.take();
        let (may_throttle, mut used) = (self.may_throttle(), HashMap::<Arc<str>, Duration>::new());
        for key in clusters {
            let Some(cluster) = self.clusters.get(&key) else {
                ledger.remove_cluster(&key);
                continue;
            };
            let used = used.entry(key.workspace.clone()).or_default();
            let is_next = used.is_zero() || *used >= CLUSTERS_TIME;
            if may_throttle && is_next && self.throttle.defer(&key.workspace) {
                self.changes.cluster(key);
                self.rebalancing.wait_for_throttle();
                continue;
            }
            let begun = Instant::now();
            match self.path(&key.workspace) {
                Ok(path) => ledger.set_cluster(&key, &cluster, &path),
                // The Workspace is not in the cache yet.
                Err(_) => self.changes.cluster(key.clone()),
            }
            *used += begun.elapsed();
            if may_throttle {
                self.throttle.add(&key.workspace, begun.elapsed());
            }
        }
        // All placements must be known before the first decision.
        let time =
            if self.is_loaded.swap(true, Ordering::Relaxed) { self.update_time } else { Duration::MAX };
        let begun = Instant::now();
        ledger.fleet.begin_changes();
        for key in objects {
            match begun.elapsed() < time {
                true => self.update_object(ledger, &key),
                false => self.changes.object(key),
            }
        }
        ledger.fleet.end_changes();
    }

    /// Updates the reservations of an object to the state in the cache.
    fn update_object(&self, ledger: &mut Ledger, key: &Key) {
        let found = self.kinds.target(key).and_then(|(cache, at)| Some((cache.get(&at)?, cache, at)));
        let Some((object, cache, at)) = found.filter(|(object, ..)| !workloads::has_finished(object)) else {
            ledger.remove_object(key);
            self.counts.remove(key);
            return;
        };
        let Ok(path) = self.path(&at.workspace) else { return self.changes.object(key.clone()) };
        let demand = self.demand(&cache.resource, &at, &path, &object);
        ledger.set_object(key, &object, &demand);
    }

    /// The demand of an object. Its clusters are left empty.
    fn demand(&self, resource: &Resource, at: &Key, path: &str, object: &Value) -> Demand {
        let mut demand = Demand::of((&at.workspace, path), (&resource.group, &resource.plural), object);
        demand.version = Arc::from(&*resource.version);
        self.volume_claims.add_classes(resource, at, object, &mut demand);
        demand
    }

    /// Decides about a batch of objects. The decisions are written while further batches are decided about.
    async fn schedule(self: Arc<Self>, keys: Vec<Key>) -> Vec<(Key, BatchOutcome)> {
        let mut outcomes = Vec::with_capacity(keys.len());
        let mut round = Round::begin(&self);
        let (begun, mut used) = (Instant::now(), HashMap::<Arc<str>, Duration>::new());
        for key in keys {
            let of_workspace = used.entry(key.workspace.clone()).or_default();
            if begun.elapsed() >= BATCH_TIME {
                outcomes.push((key, BatchOutcome::Finished(Ok(Next::After(Duration::ZERO)))));
                continue;
            }
            if *of_workspace >= WORKSPACE_TIME && !is_unlimited(&key.workspace) {
                outcomes.push((key, BatchOutcome::Finished(Ok(Next::After(*of_workspace)))));
                continue;
            }
            let decided = Instant::now();
            let step = round.decide(&key);
            *of_workspace += decided.elapsed();
            if let DecidedStep::Place(..) = step {
                round.ledger.begin_writing(&key);
            }
            let outcome = self.outcome(key.clone(), step);
            outcomes.push((key, outcome));
        }
        for (key, delay) in std::mem::take(&mut round.wakes) {
            self.queue.add_after(key, delay);
        }
        outcomes
    }

    /// Returns the rest of the work after a decision.
    fn outcome(self: &Arc<Self>, key: Key, step: DecidedStep) -> BatchOutcome {
        let scheduler = self.clone();
        match step {
            DecidedStep::Settled => BatchOutcome::Finished(Ok(Next::Done)),
            DecidedStep::Failed(status) => BatchOutcome::Finished(Err(status)),
            DecidedStep::Place(target, wanted, problem) => BatchOutcome::Working(Box::pin(async move {
                scheduler.place(&key, &target, &wanted, problem).await
            })),
            DecidedStep::Scale(target, replicas) => BatchOutcome::Working(Box::pin(async move {
                let written = scheduler.writer.scale(&target, replicas).await?;
                Ok(if written { Next::Done } else { Next::Again })
            })),
            DecidedStep::TakeOver(target, intent) => BatchOutcome::Working(Box::pin(async move {
                taking_over::write(&scheduler.api, &target, &intent).await
            })),
            DecidedStep::Report(target, verdict) => {
                BatchOutcome::Working(Box::pin(
                    async move { scheduler.report(&key, &target, &verdict).await },
                ))
            }
        }
    }

    async fn place(
        &self,
        key: &Key,
        target: &PlacementTarget,
        wanted: &Wanted,
        problem: Option<(&'static str, String)>,
    ) -> Result<Next, Status> {
        let written = self.writer.place(target, wanted).await;
        {
            let mut ledger = self.ledger();
            match written {
                Ok(Written::At(revision)) => ledger.written(key, revision),
                // The room that the decision had reserved is free again.
                _ => {
                    ledger.not_written(key);
                    self.update_object(&mut ledger, key);
                }
            }
        }
        match written? {
            Written::At(_) => {
                // An object that stays does not follow its new rules yet, so that they remain to be applied.
                let is_blocked =
                    !wanted.blocked.is_empty() && wanted.is_count_of(&Placement::of(&target.object));
                if !is_blocked {
                    self.changes.decided(key);
                    self.rebalancing.decided(key);
                }
                self.warn_callers(key, target, wanted);
                match problem {
                    Some((reason, message)) => self.tell(key, target, reason, message),
                    None => self.pending.remove(key),
                }
                Ok(Next::Done)
            }
            Written::Stale => Ok(Next::Again),
            Written::Paused { message } if Placement::of(&target.object).clusters.is_empty() => {
                let verdict = ConditionValue { status: "False", reason: UNSCHEDULABLE, message };
                self.report(key, target, &verdict).await?;
                Ok(Next::After(PAUSED_DELAY))
            }
            Written::Paused { message } => {
                self.tell(key, target, CAUSE, message);
                if !self.pauses.insert(key) {
                    return Ok(Next::After(PAUSED_DELAY));
                }
                self.queue.add(key.clone());
                Ok(Next::Done)
            }
            Written::Refused { message, next } => {
                if wanted.shares.is_empty() {
                    return Ok(next);
                }
                let verdict = ConditionValue { status: "False", reason: UNSCHEDULABLE, message };
                self.report(key, target, &verdict).await?;
                Ok(next)
            }
        }
    }

    /// Reports why replicas of a placed object have no cluster, or do not move.
    fn tell(&self, key: &Key, target: &PlacementTarget, reason: &'static str, message: String) {
        if reason == SUSPECT {
            self.pending.insert(key.clone(), &message);
            self.suspicions.tell(self, target, &message);
        } else if self.pending.insert(key.clone(), &message) {
            self.writer.recorder.warning(&target.resource, &target.object, reason, message);
        }
    }

    /// Reports why an object is not placed, and waits for a change that may help.
    async fn report(
        &self,
        key: &Key,
        target: &PlacementTarget,
        verdict: &ConditionValue,
    ) -> Result<Next, Status> {
        if !Placement::of(&target.object).clusters.is_empty() {
            self.tell(key, target, verdict.reason, verdict.message.clone());
            return Ok(Next::Done);
        }
        let is_news = self.pending.insert(key.clone(), &verdict.message);
        self.writer.report(target, verdict, is_news).await?;
        self.changes.decided(key);
        Ok(Next::Done)
    }
}

/// Keys of objects and Clusters.
type Keys = HashSet<Key>;
