//! One cluster, its syncer, and the wires between the syncer and both sides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atoll_syncer::Settings;
use tokio::task::JoinHandle;

use super::{CLAIM, CLUSTERS, INTERVAL};
use crate::agreement::{self, AllowedDifferences};
use crate::log::{Expectations, Log, WriteRecord, illegal_writes};
use crate::objects::{AboveState, NamespaceRef};
use crate::random::Random;
use crate::test_server::{Clock, TestServer};
use crate::wire::{NetworkState, Wire};

struct Syncer {
    is_alive: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

pub struct Site {
    /// The name of the cluster.
    pub name: &'static str,
    pub below: Arc<TestServer>,
    pub up: Wire,
    pub down: Wire,
    pub log: Arc<Log>,
    pub expectations: Expectations,
    /// Namespaces that a restored control plane may not know.
    pub forgotten: BTreeSet<NamespaceRef>,
    syncer: Option<Syncer>,
    started: u32,
}

impl Site {
    pub async fn new(
        seed: u64,
        name: &'static str,
        clock: Clock,
        above: &Arc<TestServer>,
        control_plane: &str,
    ) -> Site {
        let below = TestServer::new(name, clock).await;
        below.run_cluster_controllers();
        let log = Arc::new(Log::default());
        let expectations = Expectations {
            cluster: name,
            control_plane: control_plane.into(),
            grace: INTERVAL * 3,
            ..Expectations::default()
        };
        Site {
            up: Wire::new(seed, format!("above {name}"), above, None),
            down: Wire::new(seed, format!("below {name}"), &below, Some(log.clone())),
            name,
            below,
            log,
            expectations,
            forgotten: BTreeSet::new(),
            syncer: None,
            started: 0,
        }
    }

    /// Starts a syncer.
    pub fn start(&mut self, seed: u64, clock: Clock, interval: Duration) {
        self.started += 1;
        let mut numbers = Random::of(seed, &format!("syncer {}", self.name), self.started.into());
        // Some syncers restart with the previous name, some with another.
        let instance = if numbers.chance(50) { "one".into() } else { format!("two-{}", self.started) };
        let numbers = std::sync::Mutex::new(numbers);
        let random = Arc::new(move || numbers.lock().map_or(0, |mut numbers| numbers.next()));
        let mut settings = Settings::new(self.name, &instance, random);
        settings.clock = Arc::new(clock);
        settings.interval = interval;
        let is_alive = Arc::new(AtomicBool::new(true));
        let (above, below) = (self.up.client(&is_alive), self.down.client(&is_alive));
        let task = tokio::spawn(atoll_syncer::run(settings, above, below, std::future::pending()));
        self.syncer = Some(Syncer { is_alive, task });
    }

    pub fn is_running(&self) -> bool {
        self.syncer.is_some()
    }

    /// Kills the syncer in the middle of its work, as a process is killed.
    pub fn kill(&mut self) {
        if let Some(Syncer { is_alive, task }) = self.syncer.take() {
            is_alive.store(false, Ordering::Release);
            task.abort();
        }
    }

    pub fn set_network_states(&self, random: &mut Random) {
        use NetworkState::{Down, Faulty, Healthy};
        let states = [Healthy, Faulty, Faulty, Down];
        self.up.set(*random.pick(&states));
        self.down.set(*random.pick(&states));
    }

    pub fn end_faults(&self) {
        self.up.set(NetworkState::Healthy);
        self.down.set(NetworkState::Healthy);
    }

    /// The path of its Cluster above.
    pub fn path(&self) -> String {
        format!("{CLUSTERS}/{}", self.name)
    }

    /// Uids of objects that were created by a request whose sender had given up. That is not an error of the
    /// syncer, and users have to find them.
    pub fn late_objects(&self) -> impl Iterator<Item = String> {
        self.log.all().into_iter().filter(is_late).map(|written| written.sent.1)
    }

    /// Returns the differences between above and this cluster.
    pub async fn disagreements(
        &self,
        above: (&TestServer, &AboveState),
        unknown: &BTreeSet<String>,
    ) -> Vec<String> {
        let late = self.log.all().into_iter().filter(is_late);
        let late = late.filter(|written| written.path == "/api/v1/namespaces");
        let late: BTreeSet<String> = late.map(|written| written.name).collect();
        let Expectations { control_plane, foreign, .. } = &self.expectations;
        let allowed = AllowedDifferences {
            cluster: self.name,
            control_plane,
            unknown,
            foreign,
            forgotten: &self.forgotten,
            late: &late,
        };
        let found = agreement::disagreements(above, &self.below, &allowed).await;
        found.into_iter().map(|problem| format!("{}: {problem}", self.name)).collect()
    }

    /// Returns all writes that were not allowed.
    pub fn illegal_writes(&self, unknown: &BTreeSet<String>) -> Vec<String> {
        illegal_writes(&self.log, &self.expectations, unknown)
    }

    /// Returns the spec of its Lease above.
    pub async fn heartbeat(&self, above: &TestServer) -> serde_json::Value {
        let name = self.name;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-{name}");
        above.client.get(&path).await.unwrap_or_default()["spec"].clone()
    }

    /// Describes the claim of the cluster and its problem, for a failed run.
    pub async fn describe(&self, above: &TestServer) -> String {
        let claim = self.below.client.get(CLAIM).await.unwrap_or_default();
        let cluster = above.client.get(&self.path()).await.unwrap_or_default();
        format!("{}: claim {}, problem {}", self.name, claim["data"], cluster["status"]["problem"])
    }
}

fn is_late(written: &WriteRecord) -> bool {
    written.is_late && written.method == "POST"
}
