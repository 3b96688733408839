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
//! made. Only then are the placements of the batch written, each on condition that its object has not changed.

mod advance;
mod autoscaled;
mod autoscalers;
mod beyond_policy;
mod callers;
mod changes;
mod counts;
mod decisions;
mod handle;
mod hourly_cap;
mod kinds;
mod ledger;
mod losses;
mod moving;
mod named;
mod neighbours;
mod pauses;
mod pending;
mod policies;
mod policy_status;
mod rebalancing;
mod report;
mod reports;
mod rollouts;
mod round;
mod rules;
mod selected;
mod serving;
mod suspicion;
mod taking_over;
mod trial;
mod what_if;
mod workloads;
mod writer;

pub use self::advance::{ACCEPT_EMPTY_VOLUMES, DRAIN};
pub use self::moving::AWAY;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_condition::{ConditionValue, UNSCHEDULABLE};
use atoll_informer::{ApiScope, Cache, Clock, Events, Informers, Key, Next, Queue, resources};
use atoll_meta::Status;
use atoll_placement::demand::Demand;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::autoscalers::Autoscalers;
use crate::changes::Changes;
use crate::counts::Counts;
pub use crate::handle::SchedulerHandle;
use crate::kinds::Kinds;
use crate::ledger::Ledger;
use crate::losses::SUSPECT;
use crate::pauses::Pauses;
use crate::pending::Pending;
use crate::policies::Policies;
use crate::rebalancing::Rebalancing;
use crate::reports::Reports;
use crate::round::{DecidedStep, Round};
use crate::selected::Selected;
use crate::serving::Serving;
use crate::suspicion::Suspicions;
use crate::writer::{PAUSED_DELAY, PlacementTarget, Wanted, Writer, Written};

/// Most objects of a batch. Its decisions hold the ledger, and its writes are concurrent.
const BATCH: usize = 256;
/// Time for the decisions of a batch. The rest of it comes later, after the objects of other workspaces: a decision
/// may take long where there are many rules, clusters or neighbours.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// The component of events.
const COMPONENT: &str = "atoll-scheduler";

/// Returns each part of an object in a workspace (by id) that names a cluster in the words of a dialect that is
/// enabled there, such as `label example.com/cluster`, with that name.
pub type DialectIntents = Arc<dyn Fn(&str, &Value) -> Vec<(String, String)> + Send + Sync>;

/// Dependencies of the scheduler.
pub struct Setup {
    /// Informers of all workspaces.
    pub informers: Arc<Informers>,
    pub clock: Arc<dyn Clock>,
    pub dialects: DialectIntents,
    /// Receives the scheduler once it runs.
    pub handle: SchedulerHandle,
}

struct Scheduler {
    api: ApiScope,
    kinds: Kinds,
    clusters: Arc<Cache>,
    namespaces: Arc<Cache>,
    services: Arc<Cache>,
    policies: Policies,
    dialects: DialectIntents,
    ledger: Mutex<Ledger>,
    changes: Changes,
    pending: Pending,
    pauses: Pauses,
    rebalancing: Rebalancing,
    reports: Reports,
    /// Not in a trial, where Pods that are ready can be reached.
    serving: Option<Serving>,
    autoscalers: Autoscalers,
    suspicions: Suspicions,
    counts: Counts,
    queue: Queue,
    writer: Writer,
}

/// Runs the scheduler until it is dropped. Without clusters it does nothing: the watches would only cost memory.
pub async fn run(setup: Setup) {
    let Setup { informers, clock, dialects, handle } = setup;
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
    let scheduler = Arc::new(Scheduler {
        kinds: Kinds::new(workloads::kinds().iter().map(|kind| informers.of(kind)).collect()),
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
        reports: Reports::new(informers.of(&resources::OBJECT_STATUSES)),
        serving: Some(Serving::new(informers.of(&resources::SERVICES))),
        autoscalers: Autoscalers::new(informers.of(&resources::HORIZONTAL_POD_AUTOSCALERS)),
        suspicions: Suspicions::default(),
        counts: Counts::default(),
        queue: Queue::new(),
        writer: Writer { api: api.clone(), clock, recorder },
        api,
    });
    changes::listen(&scheduler);
    let selected = Selected::new(&informers, scheduler.kinds.workloads.clone());
    for cache in scheduler.caches() {
        cache.synced().await;
    }
    handle.set(&scheduler);
    let worker = scheduler.clone();
    let working = scheduler.queue.work_in_batches("placements", BATCH, move |keys| {
        let scheduler = worker.clone();
        async move { scheduler.schedule(keys).await }
    });
    tokio::join!(
        working,
        scheduler.pending.wake(&scheduler.queue),
        rebalancing::run(&scheduler),
        policy_status::run(&scheduler),
        selected.run(),
        autoscalers::run(&scheduler),
        named::run(scheduler.clone())
    );
}

impl Scheduler {
    fn caches(&self) -> Vec<Arc<Cache>> {
        let policies = [&self.policies.of_namespaces, &self.policies.of_workspaces];
        let services = self.serving.iter().map(|serving| &serving.services);
        let own = [&self.clusters, &self.namespaces, &self.reports.cache, &self.autoscalers.cache];
        let shared = own.into_iter().chain(policies).chain(services);
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

    /// Updates the ledger with everything that has changed in the caches.
    fn update(&self, ledger: &mut Ledger) {
        let (clusters, objects) = self.changes.take();
        for key in clusters {
            match self.clusters.get(&key) {
                None => ledger.remove_cluster(&key),
                Some(cluster) => match self.path(&key.workspace) {
                    Ok(path) => ledger.set_cluster(&key, &cluster, &path),
                    // The workspace becomes known soon.
                    Err(_) => self.changes.cluster(key),
                },
            }
        }
        for key in objects {
            self.update_object(ledger, &key);
        }
    }

    /// Updates what an object takes to what the cache shows.
    fn update_object(&self, ledger: &mut Ledger, key: &Key) {
        let found = self.kinds.target(key).and_then(|(cache, at)| Some((cache.get(&at)?, cache, at)));
        let Some((object, cache, at)) = found.filter(|(object, ..)| !workloads::has_finished(object)) else {
            ledger.remove_object(key);
            self.counts.remove(key);
            return;
        };
        let Ok(path) = self.path(&at.workspace) else { return self.changes.object(key.clone()) };
        let resource = &cache.resource;
        let demand = Demand::of((&at.workspace, &path), (&resource.group, &resource.plural), &object);
        ledger.set_object(key, &object, &demand);
    }

    /// Decides about a batch of objects, then writes the decisions.
    async fn schedule(self: Arc<Self>, keys: Vec<Key>) -> Vec<(Key, Result<Next, Status>)> {
        let mut outcomes = Vec::new();
        let mut steps: Vec<(Key, DecidedStep)> = Vec::new();
        {
            let mut round = Round::begin(&self);
            let begun = Instant::now();
            for key in keys {
                if begun.elapsed() < BATCH_TIME {
                    steps.push((key.clone(), round.decide(&key)));
                } else {
                    outcomes.push((key, Ok(Next::After(Duration::ZERO))));
                }
            }
            for (key, delay) in std::mem::take(&mut round.wakes) {
                self.queue.add_after(key, delay);
            }
        }
        let mut writing = JoinSet::new();
        for (key, step) in steps {
            match step {
                DecidedStep::Settled => {}
                DecidedStep::Failed(status) => outcomes.push((key, Err(status))),
                DecidedStep::Place(target, wanted, told) => {
                    let scheduler = self.clone();
                    writing.spawn(async move {
                        let outcome = scheduler.place(&key, &target, &wanted, told).await;
                        (key, outcome)
                    });
                }
                DecidedStep::Scale(target, replicas) => {
                    let scheduler = self.clone();
                    writing.spawn(async move {
                        let written = scheduler.writer.scale(&target, replicas).await;
                        (key, written.map(|written| if written { Next::Done } else { Next::Again }))
                    });
                }
                DecidedStep::TakeOver(target, intent) => {
                    let scheduler = self.clone();
                    writing.spawn(async move {
                        let outcome = taking_over::write(&scheduler.api, &target, &intent).await;
                        (key, outcome)
                    });
                }
                DecidedStep::Report(target, verdict) => {
                    let scheduler = self.clone();
                    writing.spawn(async move {
                        let outcome = scheduler.report(&key, &target, &verdict).await;
                        (key, outcome)
                    });
                }
            }
        }
        // A task that panics has no outcome; its key is added again when the object changes.
        while let Some(joined) = writing.join_next().await {
            outcomes.extend(joined.ok());
        }
        outcomes
    }

    async fn place(
        &self,
        key: &Key,
        target: &PlacementTarget,
        wanted: &Wanted,
        told: Option<(&'static str, String)>,
    ) -> Result<Next, Status> {
        let written = self.writer.place(target, wanted).await;
        {
            let mut ledger = self.ledger();
            match written {
                Ok(Written::At(revision)) => ledger.written(key, revision),
                // The room that the decision has reserved is free again.
                _ => {
                    ledger.not_written(key);
                    self.update_object(&mut ledger, key);
                }
            }
        }
        match written? {
            Written::At(_) => {
                self.changes.decided(key);
                self.rebalancing.decided(key);
                self.warn_callers(key, target, wanted);
                match told {
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
                self.pauses.insert(key.clone());
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

    /// Reports why replicas of a placed object have no place, or do not move.
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
