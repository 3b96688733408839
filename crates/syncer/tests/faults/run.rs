//! One run: a control plane, its clusters, a syncer for each of them, and the random events of a seed.

mod incidents;
mod moves;
mod site;
mod user_actions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use atoll_meta::object;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::log::WriteRecord;
use crate::objects::{AboveState, CLUSTER_NAMES, NamespaceRef, ObjectRef};
use crate::random::Random;
use crate::test_server::{Backup, Clock, TestServer};
use crate::time;
use crate::wire::{NetworkState, Wire};

use self::moves::Move;
pub use self::site::Site;

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
pub const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";
/// The workspace below root.
const WORKSPACE: &str = "/apis/atoll.dev/v1alpha1/workspaces/team";
const INTERVAL: Duration = Duration::from_secs(10);
/// The time after the last fault in which above and below must agree.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(900);
/// The time for which they must then stay unchanged.
const QUIET_TIME: Duration = Duration::from_secs(200);

/// How often something happened that must happen in enough random runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Objects that have arrived on another cluster.
    pub moves: usize,
    pub deleted_workspaces: usize,
}

pub struct Simulation {
    seed: u64,
    pub random: Random,
    /// The clock of the syncers.
    pub clock: Clock,
    pub above: Arc<TestServer>,
    pub sites: Vec<Site>,
    /// Another cluster, to which nothing may be written.
    pub other: Arc<TestServer>,
    /// The wire between the control plane and its controllers.
    pub controllers_wire: Wire,
    /// The identity of the control plane.
    pub control_plane: String,
    /// The interval of heartbeats.
    pub interval: Duration,
    backups: Vec<Backup>,
    /// Objects that are moving.
    moves: Vec<Move>,
    pub done: Done,
    /// Uids of objects that a restored control plane may not know.
    unknown: BTreeSet<String>,
}

impl Simulation {
    pub async fn new(seed: u64) -> Simulation {
        let clock = Clock::new(Instant::now());
        let above = TestServer::new("above", Clock::new(clock.0)).await;
        let other = TestServer::new("other", clock).await;
        for NamespaceRef { workspace, namespace } in NamespaceRef::all() {
            let namespaces = format!("{}/api/v1/namespaces", workspace.prefix);
            above.client.create(&namespaces, &named_object(namespace)).await.expect("a namespace");
        }
        let system = above.client.get("/api/v1/namespaces/kube-system").await.expect("a namespace");
        let control_plane = object::uid(&system).to_string();
        let mut sites = Vec::new();
        for name in CLUSTER_NAMES {
            above.client.create(CLUSTERS, &cluster_object(name)).await.expect("a cluster");
            sites.push(Site::new(seed, name, Clock::new(clock.0), &above, &control_plane).await);
        }
        for site in &sites {
            let others = sites.iter().filter(|other| other.name != site.name);
            site.log.set_others(others.map(|other| other.below.clone()).collect());
        }
        let run = Simulation {
            controllers_wire: Wire::new(seed, "beside", &above, None),
            random: Random::new(seed),
            seed,
            clock,
            above,
            sites,
            other,
            control_plane,
            interval: INTERVAL,
            backups: Vec::new(),
            moves: Vec::new(),
            done: Done::default(),
            unknown: BTreeSet::new(),
        };
        run.run_controllers();
        run
    }

    /// The first cluster, for tests that need only one.
    pub fn east(&self) -> &Site {
        &self.sites[0]
    }

    /// Starts the controllers of the control plane, which are subject to network faults.
    pub fn run_controllers(&self) {
        self.above.run_controllers(self.controllers_wire.client(&Arc::new(AtomicBool::new(true))));
    }

    /// Connects everything to a control plane that was restored from a backup.
    pub fn connect_to_restored(&self) {
        self.sites.iter().for_each(|site| site.up.connect_to(&self.above));
        self.controllers_wire.connect_to(&self.above);
        self.run_controllers();
    }

    /// Starts the syncers of all clusters that have none.
    pub fn start(&mut self) {
        let (seed, clock, interval) = (self.seed, self.clock, self.interval);
        let stopped = self.sites.iter_mut().filter(|site| !site.is_running());
        stopped.for_each(|site| site.start(seed, clock, interval));
    }

    pub fn now(&self) -> Duration {
        self.clock.0.elapsed()
    }

    pub async fn pass_random(&mut self, most: Duration) {
        let millis = self.random.below(most.as_millis() as u64);
        time::pass(Duration::from_millis(millis)).await;
    }

    /// The index of a random cluster.
    fn random_site(&mut self) -> usize {
        self.random.below(self.sites.len() as u64) as usize
    }

    /// Performs one random event.
    pub async fn random_event(&mut self) {
        self.advance_moves().await;
        let site = self.random_site();
        match self.random.below(100) {
            0..23 => self.create().await,
            23..38 => self.change().await,
            38..45 => self.rearrange().await,
            45..53 => self.begin_move().await,
            53..60 => self.delete().await,
            60..63 => self.delete_random_namespace().await,
            63..70 => self.change_below(site).await,
            70..75 => {
                self.sites[site].kill();
                self.pass_random(Duration::from_secs(5)).await;
                self.start();
            }
            75..78 => self.backups.push(self.above.backup().await),
            78..81 => self.restore().await,
            81..83 => self.lead_to_empty_control_plane(site).await,
            83..86 => self.lead_to_wrong_cluster(site).await,
            86..88 => self.claim_by_other(site).await,
            88..90 => self.pause(site).await,
            90..92 => self.delete_workspace().await,
            92..96 => {
                let site = &self.sites[site];
                self.random.pick(&[&site.up, &site.down, &self.controllers_wire]).cut();
            }
            _ => match self.random.chance(50) {
                true => self.above.expire(),
                false => self.sites[site].below.expire(),
            },
        }
    }

    /// Sets the clock of the control plane, of a cluster or of the syncers, by seconds or by days. Its random
    /// numbers do not affect other events.
    pub fn set_clocks(&mut self, step: u64) {
        let mut random = Random::of(self.seed, "clocks", step);
        if !random.chance(20) {
            return;
        }
        let seconds = *random.pick(&[
            0,
            1,
            -1,
            45,
            -45,
            3600,
            -3600,
            86_400 * 3,
            -86_400 * 3,
            86_400 * 400,
            -86_400 * 400,
        ]);
        let clusters = self.sites.iter().map(|site| site.below.clock);
        let clocks: Vec<Clock> = [self.clock, self.above.clock].into_iter().chain(clusters).collect();
        random.pick(&clocks).set(seconds);
    }

    pub fn set_network_states(&mut self) {
        let Simulation { sites, random, controllers_wire, .. } = self;
        sites.iter().for_each(|site| site.set_network_states(random));
        controllers_wire.set(*random.pick(&[
            NetworkState::Healthy,
            NetworkState::Healthy,
            NetworkState::Faulty,
            NetworkState::Down,
        ]));
    }

    /// All clusters are emptied, with faults. One is removed and joins again, and gets everything.
    pub async fn leave_and_join(&mut self, site: usize) -> Result<(), String> {
        let object_refs: Vec<ObjectRef> = AboveState::read(&self.above).await.objects.into_keys().collect();
        self.set_network_states();
        for object_ref in &object_refs {
            self.place(object_ref, json!([])).await;
            self.pass_random(Duration::from_secs(2)).await;
        }
        self.settle().await?;
        let (name, path) = (self.sites[site].name, self.sites[site].path());
        self.above.client.delete(&path).await.map_err(|status| status.to_string())?;
        // Until the syncer of the deleted Cluster has stopped.
        time::pass(self.interval * 3).await;
        let below = self.sites[site].below.client.clone();
        below.delete(CLAIM).await.map_err(|status| status.to_string())?;
        time::pass(self.interval * 6).await;
        if below.get(CLAIM).await.is_ok() {
            return Err("a cluster that was removed is claimed again".into());
        }
        self.above
            .client
            .create(CLUSTERS, &cluster_object(name))
            .await
            .map_err(|status| status.to_string())?;
        self.set_network_states();
        for object_ref in &object_refs {
            self.place(object_ref, json!([{ "name": name }])).await;
            self.pass_random(Duration::from_secs(2)).await;
        }
        self.settle().await
    }

    /// Ends all faults. Then above and below must agree and stay so, and moves end.
    pub async fn settle(&mut self) -> Result<(), String> {
        self.sites.iter().for_each(Site::end_faults);
        self.controllers_wire.set(NetworkState::Healthy);
        self.start();
        let end = Instant::now() + CONVERGENCE_TIMEOUT;
        loop {
            self.advance_moves().await;
            let mut problems = self.disagreements().await;
            if problems.is_empty() && self.moves.is_empty() {
                break;
            }
            if Instant::now() > end {
                for site in &self.sites {
                    problems.push(site.describe(&self.above).await);
                }
                return Err(format!("moving: {:?}\n{}", self.moves, problems.join("\n")));
            }
            time::pass(Duration::from_secs(5)).await;
        }
        let mut before = Vec::new();
        for site in &self.sites {
            before.push((site.log.all().len(), site.heartbeat(&self.above).await));
        }
        time::pass(QUIET_TIME).await;
        let mut problems = self.disagreements().await;
        let unknown = self.all_unknown();
        for (site, (written, last_heartbeat)) in self.sites.iter().zip(before) {
            if site.heartbeat(&self.above).await == last_heartbeat {
                problems.push(format!("no heartbeat of {} arrives any more: {last_heartbeat}", site.name));
            }
            let since = site.log.all().split_off(written).into_iter();
            let late_writes: Vec<WriteRecord> =
                since.filter(|written| written.succeeded() && !written.is_lease()).collect();
            // Delayed requests may still arrive and are then corrected, but continuous writes are a defect.
            if late_writes.iter().any(|written| written.at + QUIET_TIME / 2 > self.now()) {
                problems.push(format!("writes do not stop: {late_writes:#?}"));
            }
            problems.extend(site.illegal_writes(&unknown));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    async fn disagreements(&self) -> Vec<String> {
        let (unknown, mut problems) = (self.all_unknown(), Vec::new());
        let up = AboveState::read(&self.above).await;
        for site in &self.sites {
            problems.extend(site.disagreements((&self.above, &up), &unknown).await);
        }
        let workspace = self.above.client.get(WORKSPACE).await.unwrap_or_default();
        if object::is_being_deleted(&workspace) {
            problems.push(format!("the workspace is deleted and still exists: {}", workspace["status"]));
        }
        problems
    }

    /// Uids of objects that may exist below without an object above.
    fn all_unknown(&self) -> BTreeSet<String> {
        let late = self.sites.iter().flat_map(Site::late_objects);
        self.unknown.iter().cloned().chain(late).collect()
    }

    /// All writes to all clusters, in their order.
    pub fn writes(&self) -> Vec<WriteRecord> {
        let mut all: Vec<WriteRecord> = self.sites.iter().flat_map(|site| site.log.all()).collect();
        all.sort_by_key(|written| written.at);
        all
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.sites.iter_mut().for_each(Site::kill);
    }
}

fn named_object(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

pub fn cluster_object(name: &str) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" } })
}
