//! One run: a control plane, a cluster, a syncer between them, and all that a seed lets happen.

mod deeds;
mod mishaps;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atoll_meta::object;
use atoll_syncer::Settings;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agreement::{self, Excuses};
use crate::log::{Facts, Log, Written, wrongs};
use crate::plane::{Clock, Copy, Plane};
use crate::random::Random;
use crate::spots::{Above, CLUSTER, ELSEWHERE, Room, Spot};
use crate::time;
use crate::wire::{Weather, Wire};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
pub const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";
const INTERVAL: Duration = Duration::from_secs(10);
/// How long after the last fault above and below may still differ.
const PATIENCE: Duration = Duration::from_secs(900);
/// And how long they are watched when they do not.
const PEACE: Duration = Duration::from_secs(200);

struct Syncer {
    life: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

pub struct Run {
    seed: u64,
    pub random: Random,
    pub clock: Clock,
    pub above: Arc<Plane>,
    pub below: Arc<Plane>,
    /// Another cluster, whose objects are nobody's business.
    pub other: Arc<Plane>,
    pub up: Wire,
    pub down: Wire,
    /// Between the control plane and its controllers.
    pub beside: Wire,
    pub log: Arc<Log>,
    pub facts: Facts,
    /// Between heartbeats.
    pub interval: Duration,
    syncer: Option<Syncer>,
    started: u32,
    copies: Vec<Copy>,
    /// Uids of objects that a restored control plane may not know, or whose making arrived too late.
    unknown: BTreeSet<String>,
    /// Namespaces that a restored control plane may not know.
    forgotten: BTreeSet<Room>,
}

impl Run {
    pub async fn new(seed: u64) -> Run {
        let clock = Clock::new(Instant::now());
        let above = Plane::new("above", Clock::new(clock.0)).await;
        let below = Plane::new("below", Clock::new(clock.0)).await;
        let other = Plane::new("other", clock).await;
        for Room { space, namespace } in Room::all() {
            let namespaces = format!("{}/api/v1/namespaces", space.prefix);
            above.client.create(&namespaces, &named(namespace)).await.expect("a namespace");
        }
        for cluster in [CLUSTER, ELSEWHERE] {
            above.client.create(CLUSTERS, &registered(cluster)).await.expect("a cluster");
        }
        let system = above.client.get("/api/v1/namespaces/kube-system").await.expect("a namespace");
        let control_plane = object::uid(&system).to_string();
        let facts = Facts { control_plane, grace: INTERVAL * 3, ..Facts::default() };
        let log = Arc::new(Log::default());
        let beside = Wire::new(seed, "beside", &above, None);
        below.live();
        let run = Run {
            up: Wire::new(seed, "above", &above, None),
            down: Wire::new(seed, "below", &below, Some(log.clone())),
            beside,
            random: Random::new(seed),
            seed,
            clock,
            above,
            below,
            other,
            log,
            facts,
            interval: INTERVAL,
            syncer: None,
            started: 0,
            copies: Vec::new(),
            unknown: BTreeSet::new(),
            forgotten: BTreeSet::new(),
        };
        run.govern();
        run
    }

    /// The control plane gets controllers, which reach it as the weather lets them.
    pub fn govern(&self) {
        self.above.govern(self.beside.client(&Arc::new(AtomicBool::new(true))));
    }

    pub fn start(&mut self) {
        self.started += 1;
        let mut numbers = Random::of(self.seed, "syncer", self.started.into());
        // Some come back under the name that they had, some under another.
        let instance = if numbers.chance(50) { "one".into() } else { format!("two-{}", self.started) };
        let numbers = std::sync::Mutex::new(numbers);
        let random = Arc::new(move || numbers.lock().map_or(0, |mut numbers| numbers.next()));
        let mut settings = Settings::new(CLUSTER, &instance, random);
        settings.clock = Arc::new(self.clock);
        settings.interval = self.interval;
        let life = Arc::new(AtomicBool::new(true));
        let (above, below) = (self.up.client(&life), self.down.client(&life));
        let task = tokio::spawn(atoll_syncer::run(settings, above, below, std::future::pending()));
        self.syncer = Some(Syncer { life, task });
    }

    /// As a process is killed: in the middle of whatever it does.
    pub fn kill(&mut self) {
        if let Some(Syncer { life, task }) = self.syncer.take() {
            life.store(false, Ordering::Release);
            task.abort();
        }
    }

    pub fn now(&self) -> Duration {
        self.clock.0.elapsed()
    }

    pub async fn pass(&mut self, most: Duration) {
        let millis = self.random.below(most.as_millis() as u64);
        time::pass(Duration::from_millis(millis)).await;
    }

    /// One thing that happens.
    pub async fn happen(&mut self) {
        self.let_go_elsewhere().await;
        match self.random.below(100) {
            0..26 => self.create().await,
            26..44 => self.change().await,
            44..53 => self.leave().await,
            53..61 => self.delete().await,
            61..64 => self.end().await,
            64..71 => self.meddle().await,
            71..76 => {
                self.kill();
                self.pass(Duration::from_secs(5)).await;
                self.start();
            }
            76..79 => self.copies.push(self.above.copy().await),
            79..82 => self.restore().await,
            82..84 => self.empty().await,
            84..87 => self.wrong_cluster().await,
            87..89 => self.claimed().await,
            89..91 => self.pause().await,
            91 => self.end_workspace().await,
            92..96 => self.random.pick(&[&self.up, &self.down, &self.beside]).cut(),
            _ => match self.random.chance(50) {
                true => self.above.expire(),
                false => self.below.expire(),
            },
        }
    }

    /// Clocks are set: the control plane's, the cluster's or the syncer's, by seconds or by days. What is drawn for that changes
    /// nothing else.
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

    /// What the Lease above says of when something was heard.
    async fn heartbeat(&self) -> Value {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-{CLUSTER}");
        self.above.client.get(&path).await.unwrap_or_default()["spec"].clone()
    }

    pub fn weather(&mut self) {
        let up = *self.random.pick(&[Weather::Calm, Weather::Storm, Weather::Storm, Weather::Out]);
        let down = *self.random.pick(&[Weather::Calm, Weather::Storm, Weather::Storm, Weather::Out]);
        let beside = *self.random.pick(&[Weather::Calm, Weather::Calm, Weather::Storm, Weather::Out]);
        self.up.set(up);
        self.down.set(down);
        self.beside.set(beside);
    }

    /// The cluster is emptied and removed, with faults; then it joins again.
    pub async fn leave_and_join(&mut self) -> Result<(), String> {
        let spots: Vec<Spot> = Above::of(&self.above).await.objects.into_keys().collect();
        self.weather();
        for spot in &spots {
            self.place(spot, json!([])).await;
            self.pass(Duration::from_secs(2)).await;
        }
        self.settle().await?;
        let path = format!("{CLUSTERS}/{CLUSTER}");
        self.above.client.delete(&path).await.map_err(|status| status.to_string())?;
        // Until whoever listened to its view has heard.
        time::pass(self.interval * 3).await;
        self.below.client.delete(CLAIM).await.map_err(|status| status.to_string())?;
        time::pass(self.interval * 6).await;
        if self.below.client.get(CLAIM).await.is_ok() {
            return Err("a cluster that was removed is claimed again".into());
        }
        self.above
            .client
            .create(CLUSTERS, &registered(CLUSTER))
            .await
            .map_err(|status| status.to_string())?;
        self.weather();
        for spot in &spots {
            self.place(spot, json!([{ "name": CLUSTER }])).await;
            self.pass(Duration::from_secs(2)).await;
        }
        self.settle().await
    }

    /// Faults end; then above and below must agree, and go on to.
    pub async fn settle(&mut self) -> Result<(), String> {
        self.up.set(Weather::Calm);
        self.down.set(Weather::Calm);
        self.beside.set(Weather::Calm);
        if self.syncer.is_none() {
            self.start();
        }
        let end = Instant::now() + PATIENCE;
        loop {
            self.let_go_elsewhere().await;
            let wrong = self.wrong().await;
            if wrong.is_empty() {
                break;
            }
            if Instant::now() > end {
                let claim = self.below.client.get(CLAIM).await.unwrap_or_default();
                let cluster =
                    self.above.client.get(&format!("{CLUSTERS}/{CLUSTER}")).await.unwrap_or_default();
                let (claim, problem) = (&claim["data"], &cluster["status"]["problem"]);
                return Err(format!("claim {claim}, problem {problem}\n{}", wrong.join("\n")));
            }
            time::pass(Duration::from_secs(5)).await;
        }
        let (before, heard) = (self.log.all().len(), self.heartbeat().await);
        time::pass(PEACE).await;
        if self.heartbeat().await == heard {
            return Err(format!("nothing is heard of the cluster any longer: {heard}"));
        }
        let since = self.log.all().split_off(before).into_iter();
        let restless: Vec<Written> =
            since.filter(|written| written.succeeded() && !written.is_lease()).collect();
        let mut wrong = self.wrong().await;
        // What was still under way may yet arrive, and is then mended; what goes on by itself may not.
        if restless.iter().any(|written| written.at + PEACE / 2 > self.now()) {
            wrong.push(format!("it does not come to rest: {restless:#?}"));
        }
        wrong.extend(wrongs(&self.log, &self.facts));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    async fn wrong(&self) -> Vec<String> {
        // What is made after its maker has given up is nobody's fault, and for people to find.
        let mut unknown = self.unknown.clone();
        let late = |written: &Written| written.is_late && written.method == "POST";
        let (mut late_namespaces, all) = (BTreeSet::new(), self.log.all());
        for written in all.into_iter().filter(late) {
            if written.path == "/api/v1/namespaces" {
                late_namespaces.insert(written.name);
            }
            unknown.insert(written.sent.1);
        }
        let Facts { control_plane, foreign, .. } = &self.facts;
        let excuses = Excuses {
            control_plane,
            unknown: &unknown,
            foreign,
            forgotten: &self.forgotten,
            late: &late_namespaces,
        };
        agreement::disagreements(&self.above, &self.below, &excuses).await
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill();
    }
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

pub fn registered(name: &str) -> Value {
    json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" } })
}
