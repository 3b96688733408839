//! One run: a control plane, a cluster, a syncer between them, and all that a seed lets happen.

mod mishaps;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use atoll_syncer::Settings;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agreement::{self, CLUSTER, NAMESPACES, RESOURCES, collection};
use crate::log::{Facts, Log, Written, wrongs};
use crate::plane::{Clock, Copy, Plane};
use crate::random::Random;
use crate::time;
use crate::wire::{Weather, Wire};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
pub const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";
const NAMES: [&str; 3] = ["a", "b", "c"];
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
    pub log: Arc<Log>,
    pub facts: Facts,
    /// Between heartbeats.
    pub interval: Duration,
    syncer: Option<Syncer>,
    started: u32,
    copies: Vec<Copy>,
    /// Uids of objects that a restored control plane may not know, or whose making arrived too late.
    unknown: BTreeSet<String>,
    /// Paths below of what others made before us.
    foreign: BTreeSet<String>,
}

impl Run {
    pub async fn new(seed: u64) -> Run {
        let clock = Clock::new(Instant::now());
        let above = Plane::new("above", Clock::new(clock.0)).await;
        let below = Plane::new("below", Clock::new(clock.0)).await;
        let other = Plane::new("other", clock).await;
        for namespace in NAMESPACES {
            above.client.create("/api/v1/namespaces", &named(namespace)).await.expect("a namespace");
        }
        for cluster in [CLUSTER, "west"] {
            above.client.create(CLUSTERS, &registered(cluster)).await.expect("a cluster");
        }
        let system = above.client.get("/api/v1/namespaces/kube-system").await.expect("a namespace");
        let control_plane = object::uid(&system).to_string();
        let facts = Facts { control_plane, grace: INTERVAL * 3, ..Facts::default() };
        let log = Arc::new(Log::default());
        Run {
            up: Wire::new(seed, "above", &above, None),
            down: Wire::new(seed, "below", &below, Some(log.clone())),
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
            foreign: BTreeSet::new(),
        }
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
        match self.random.below(100) {
            0..30 => self.create().await,
            30..48 => self.change().await,
            48..58 => self.leave().await,
            58..68 => self.delete().await,
            68..74 => self.meddle().await,
            74..79 => {
                self.kill();
                self.pass(Duration::from_secs(5)).await;
                self.start();
            }
            79..82 => self.copies.push(self.above.copy().await),
            82..85 => self.restore().await,
            85..87 => self.empty().await,
            87..90 => self.wrong_cluster().await,
            90..92 => self.claimed().await,
            92..96 => match self.random.chance(50) {
                true => self.up.cut(),
                false => self.down.cut(),
            },
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
        self.up.set(up);
        self.down.set(down);
    }

    fn spot(&mut self) -> (&'static str, &'static str, &'static str) {
        let resource = self.random.pick(&RESOURCES).0;
        (resource, *self.random.pick(&NAMESPACES), *self.random.pick(&NAMES))
    }

    pub async fn place(&mut self, path: &str, clusters: Value) {
        let patch = json!({ "spec": { "clusters": clusters } });
        // One that is going cannot be placed.
        let _ = self.above.client.patch(&format!("{path}/placement"), PatchType::Merge, &patch).await;
    }

    async fn create(&mut self) {
        let (resource, namespace, name) = self.spot();
        let collection = collection(resource, namespace);
        let path = format!("{collection}/{name}");
        let number = self.random.below(1000);
        // One that is there already is placed again.
        let _ = self.above.client.create(&collection, &content(resource, name, number)).await;
        let share = match resource {
            "deployments" if self.random.chance(50) => json!({ "name": CLUSTER, "replicas": number % 7 }),
            _ => json!({ "name": CLUSTER }),
        };
        self.place(&path, json!([share])).await;
    }

    async fn change(&mut self) {
        let (resource, namespace, name) = self.spot();
        let path = format!("{}/{name}", collection(resource, namespace));
        let number = self.random.below(1000);
        let patch = match resource {
            "deployments" if self.random.chance(50) => json!({ "spec": { "replicas": number % 9 } }),
            "deployments" => {
                json!({ "spec": { "template": { "metadata": { "labels": { "n": number.to_string() } } } } })
            }
            _ if self.random.chance(30) => json!({ "data": { "key": null, "more": number.to_string() } }),
            _ => json!({ "data": { "key": number.to_string() } }),
        };
        let _ = self.above.client.patch(&path, PatchType::Merge, &patch).await;
    }

    /// It is taken away, or moves to a cluster that is not part of this.
    async fn leave(&mut self) {
        let (resource, namespace, name) = self.spot();
        let path = format!("{}/{name}", collection(resource, namespace));
        self.ask(&path).await;
        let clusters = if self.random.chance(50) { json!([]) } else { json!([{ "name": "west" }]) };
        self.place(&path, clusters).await;
    }

    async fn delete(&mut self) {
        let (resource, namespace, name) = self.spot();
        let path = format!("{}/{name}", collection(resource, namespace));
        self.ask(&path).await;
        let _ = self.above.client.delete(&path).await;
    }

    /// Notes that an object is to go.
    async fn ask(&mut self, path: &str) {
        if let Ok(found) = self.above.client.get(path).await {
            let now = self.now();
            self.facts.asked.entry(object::uid(&found).to_string()).or_insert(now);
        }
    }

    /// The cluster is emptied and removed, with faults; then it joins again.
    pub async fn leave_and_join(&mut self) -> Result<(), String> {
        let paths: Vec<String> = agreement::objects(&self.above).await.into_keys().collect();
        self.weather();
        for path in &paths {
            self.ask(path).await;
            self.place(path, json!([])).await;
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
        for path in &paths {
            self.place(path, json!([{ "name": CLUSTER }])).await;
            self.pass(Duration::from_secs(2)).await;
        }
        self.settle().await
    }

    /// Faults end; then above and below must agree, and go on to.
    pub async fn settle(&mut self) -> Result<(), String> {
        self.up.set(Weather::Calm);
        self.down.set(Weather::Calm);
        if self.syncer.is_none() {
            self.start();
        }
        let end = Instant::now() + PATIENCE;
        loop {
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
        unknown.extend(self.log.all().into_iter().filter(late).map(|written| written.sent.1));
        let (control_plane, foreign) = (&self.facts.control_plane, &self.foreign);
        agreement::disagreements(&self.above, &self.below, control_plane, &unknown, foreign).await
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

pub fn content(resource: &str, name: &str, number: u64) -> Value {
    match resource {
        "deployments" => json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": number % 5, "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "web", "image": format!("web:{number}") }] },
                },
            },
        }),
        _ => json!({ "metadata": { "name": name }, "data": { "key": number.to_string() } }),
    }
}
