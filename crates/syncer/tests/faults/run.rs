//! One run: a control plane, a cluster, a syncer between them, and the random events of a seed.

mod incidents;
mod user_actions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atoll_meta::object;
use atoll_syncer::Settings;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agreement::{self, AllowedDifferences};
use crate::log::{Expectations, Log, WriteRecord, illegal_writes};
use crate::objects::{AboveState, CLUSTER, ELSEWHERE, NamespaceRef, ObjectRef};
use crate::random::Random;
use crate::test_server::{Backup, Clock, TestServer};
use crate::time;
use crate::wire::{NetworkState, Wire};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
pub const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";
const INTERVAL: Duration = Duration::from_secs(10);
/// The time after the last fault in which above and below must agree.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(900);
/// The time for which they must then stay unchanged.
const QUIET_TIME: Duration = Duration::from_secs(200);

struct Syncer {
    is_alive: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

pub struct Simulation {
    seed: u64,
    pub random: Random,
    pub clock: Clock,
    pub above: Arc<TestServer>,
    pub below: Arc<TestServer>,
    /// Another cluster, to which nothing may be written.
    pub other: Arc<TestServer>,
    pub up: Wire,
    pub down: Wire,
    /// The wire between the control plane and its controllers.
    pub controllers_wire: Wire,
    pub log: Arc<Log>,
    pub expectations: Expectations,
    /// The interval of heartbeats.
    pub interval: Duration,
    syncer: Option<Syncer>,
    started: u32,
    backups: Vec<Backup>,
    /// Uids of objects that a restored control plane may not know, or whose creation arrived too late.
    unknown: BTreeSet<String>,
    /// Namespaces that a restored control plane may not know.
    forgotten: BTreeSet<NamespaceRef>,
}

impl Simulation {
    pub async fn new(seed: u64) -> Simulation {
        let clock = Clock::new(Instant::now());
        let above = TestServer::new("above", Clock::new(clock.0)).await;
        let below = TestServer::new("below", Clock::new(clock.0)).await;
        let other = TestServer::new("other", clock).await;
        for NamespaceRef { workspace, namespace } in NamespaceRef::all() {
            let namespaces = format!("{}/api/v1/namespaces", workspace.prefix);
            above.client.create(&namespaces, &named_object(namespace)).await.expect("a namespace");
        }
        for cluster in [CLUSTER, ELSEWHERE] {
            above.client.create(CLUSTERS, &cluster_object(cluster)).await.expect("a cluster");
        }
        let system = above.client.get("/api/v1/namespaces/kube-system").await.expect("a namespace");
        let control_plane = object::uid(&system).to_string();
        let expectations = Expectations { control_plane, grace: INTERVAL * 3, ..Expectations::default() };
        let log = Arc::new(Log::default());
        let controllers_wire = Wire::new(seed, "beside", &above, None);
        below.run_cluster_controllers();
        let run = Simulation {
            up: Wire::new(seed, "above", &above, None),
            down: Wire::new(seed, "below", &below, Some(log.clone())),
            controllers_wire,
            random: Random::new(seed),
            seed,
            clock,
            above,
            below,
            other,
            log,
            expectations,
            interval: INTERVAL,
            syncer: None,
            started: 0,
            backups: Vec::new(),
            unknown: BTreeSet::new(),
            forgotten: BTreeSet::new(),
        };
        run.run_controllers();
        run
    }

    /// Starts the controllers of the control plane, which are subject to network faults.
    pub fn run_controllers(&self) {
        self.above.run_controllers(self.controllers_wire.client(&Arc::new(AtomicBool::new(true))));
    }

    pub fn start(&mut self) {
        self.started += 1;
        let mut numbers = Random::of(self.seed, "syncer", self.started.into());
        // Some syncers restart with the previous name, some with another.
        let instance = if numbers.chance(50) { "one".into() } else { format!("two-{}", self.started) };
        let numbers = std::sync::Mutex::new(numbers);
        let random = Arc::new(move || numbers.lock().map_or(0, |mut numbers| numbers.next()));
        let mut settings = Settings::new(CLUSTER, &instance, random);
        settings.clock = Arc::new(self.clock);
        settings.interval = self.interval;
        let is_alive = Arc::new(AtomicBool::new(true));
        let (above, below) = (self.up.client(&is_alive), self.down.client(&is_alive));
        let task = tokio::spawn(atoll_syncer::run(settings, above, below, std::future::pending()));
        self.syncer = Some(Syncer { is_alive, task });
    }

    /// Kills the syncer in the middle of its work, as a process is killed.
    pub fn kill(&mut self) {
        if let Some(Syncer { is_alive, task }) = self.syncer.take() {
            is_alive.store(false, Ordering::Release);
            task.abort();
        }
    }

    pub fn now(&self) -> Duration {
        self.clock.0.elapsed()
    }

    pub async fn pass_random(&mut self, most: Duration) {
        let millis = self.random.below(most.as_millis() as u64);
        time::pass(Duration::from_millis(millis)).await;
    }

    /// Performs one random event.
    pub async fn random_event(&mut self) {
        self.confirm_removals_elsewhere().await;
        match self.random.below(100) {
            0..26 => self.create().await,
            26..44 => self.change().await,
            44..53 => self.unplace().await,
            53..61 => self.delete().await,
            61..64 => self.delete_random_namespace().await,
            64..71 => self.change_below().await,
            71..76 => {
                self.kill();
                self.pass_random(Duration::from_secs(5)).await;
                self.start();
            }
            76..79 => self.backups.push(self.above.backup().await),
            79..82 => self.restore().await,
            82..84 => self.lead_to_empty_control_plane().await,
            84..87 => self.lead_to_wrong_cluster().await,
            87..89 => self.claim_by_other().await,
            89..91 => self.pause().await,
            91 => self.delete_workspace().await,
            92..96 => self.random.pick(&[&self.up, &self.down, &self.controllers_wire]).cut(),
            _ => match self.random.chance(50) {
                true => self.above.expire(),
                false => self.below.expire(),
            },
        }
    }

    /// Sets the clock of the control plane, the cluster or the syncer, by seconds or by days. Its random
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
        let clock = *random.pick(&[self.clock, self.above.clock, self.below.clock]);
        clock.set(seconds);
    }

    /// Returns the spec of the Lease above.
    async fn heartbeat(&self) -> Value {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-{CLUSTER}");
        self.above.client.get(&path).await.unwrap_or_default()["spec"].clone()
    }

    pub fn set_network_states(&mut self) {
        let up = *self.random.pick(&[
            NetworkState::Healthy,
            NetworkState::Faulty,
            NetworkState::Faulty,
            NetworkState::Down,
        ]);
        let down = *self.random.pick(&[
            NetworkState::Healthy,
            NetworkState::Faulty,
            NetworkState::Faulty,
            NetworkState::Down,
        ]);
        let controllers_wire = *self.random.pick(&[
            NetworkState::Healthy,
            NetworkState::Healthy,
            NetworkState::Faulty,
            NetworkState::Down,
        ]);
        self.up.set(up);
        self.down.set(down);
        self.controllers_wire.set(controllers_wire);
    }

    /// The cluster is emptied and removed, with faults, and joins again.
    pub async fn leave_and_join(&mut self) -> Result<(), String> {
        let object_refs: Vec<ObjectRef> = AboveState::read(&self.above).await.objects.into_keys().collect();
        self.set_network_states();
        for object_ref in &object_refs {
            self.place(object_ref, json!([])).await;
            self.pass_random(Duration::from_secs(2)).await;
        }
        self.settle().await?;
        let path = format!("{CLUSTERS}/{CLUSTER}");
        self.above.client.delete(&path).await.map_err(|status| status.to_string())?;
        // Until the syncer of the deleted Cluster has stopped.
        time::pass(self.interval * 3).await;
        self.below.client.delete(CLAIM).await.map_err(|status| status.to_string())?;
        time::pass(self.interval * 6).await;
        if self.below.client.get(CLAIM).await.is_ok() {
            return Err("a cluster that was removed is claimed again".into());
        }
        self.above
            .client
            .create(CLUSTERS, &cluster_object(CLUSTER))
            .await
            .map_err(|status| status.to_string())?;
        self.set_network_states();
        for object_ref in &object_refs {
            self.place(object_ref, json!([{ "name": CLUSTER }])).await;
            self.pass_random(Duration::from_secs(2)).await;
        }
        self.settle().await
    }

    /// Ends all faults. Then above and below must agree and stay so.
    pub async fn settle(&mut self) -> Result<(), String> {
        self.up.set(NetworkState::Healthy);
        self.down.set(NetworkState::Healthy);
        self.controllers_wire.set(NetworkState::Healthy);
        if self.syncer.is_none() {
            self.start();
        }
        let end = Instant::now() + CONVERGENCE_TIMEOUT;
        loop {
            self.confirm_removals_elsewhere().await;
            let problems = self.disagreements().await;
            if problems.is_empty() {
                break;
            }
            if Instant::now() > end {
                let claim = self.below.client.get(CLAIM).await.unwrap_or_default();
                let cluster =
                    self.above.client.get(&format!("{CLUSTERS}/{CLUSTER}")).await.unwrap_or_default();
                let (claim, problem) = (&claim["data"], &cluster["status"]["problem"]);
                return Err(format!("claim {claim}, problem {problem}\n{}", problems.join("\n")));
            }
            time::pass(Duration::from_secs(5)).await;
        }
        let (before, last_heartbeat) = (self.log.all().len(), self.heartbeat().await);
        time::pass(QUIET_TIME).await;
        if self.heartbeat().await == last_heartbeat {
            return Err(format!("no heartbeat arrives any more: {last_heartbeat}"));
        }
        let since = self.log.all().split_off(before).into_iter();
        let late_writes: Vec<WriteRecord> =
            since.filter(|written| written.succeeded() && !written.is_lease()).collect();
        let mut problems = self.disagreements().await;
        // Delayed requests may still arrive and are then corrected, but continuous writes are a defect.
        if late_writes.iter().any(|written| written.at + QUIET_TIME / 2 > self.now()) {
            problems.push(format!("writes do not stop: {late_writes:#?}"));
        }
        problems.extend(illegal_writes(&self.log, &self.expectations));
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    async fn disagreements(&self) -> Vec<String> {
        // Objects created by a request whose sender had given up are not an error of the syncer. Users have
        // to find them.
        let mut unknown = self.unknown.clone();
        let late = |written: &WriteRecord| written.is_late && written.method == "POST";
        let (mut late_namespaces, all) = (BTreeSet::new(), self.log.all());
        for written in all.into_iter().filter(late) {
            if written.path == "/api/v1/namespaces" {
                late_namespaces.insert(written.name);
            }
            unknown.insert(written.sent.1);
        }
        let Expectations { control_plane, foreign, .. } = &self.expectations;
        let allowed = AllowedDifferences {
            control_plane,
            unknown: &unknown,
            foreign,
            forgotten: &self.forgotten,
            late: &late_namespaces,
        };
        agreement::disagreements(&self.above, &self.below, &allowed).await
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.kill();
    }
}

fn named_object(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

pub fn cluster_object(name: &str) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" } })
}
