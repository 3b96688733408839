//! kill -9 under load: acknowledged writes are durable, and watchers see no gap.
//!
//! `cargo test` kills the server 20 times; `ATOLL_KILL_ROUNDS=200 cargo test -p atoll --test faults killed`
//! is the long run.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Client, Next, RequestContent, Watch, revision};
use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map};

const WRITERS: usize = 32;
const ROUNDS: usize = 20;
/// One of this many writes of a writer creates an object. The others change one that it has created.
const CREATE_EVERY: u64 = 8;

/// The state of an object: the number of changes and the revision of the last one.
type ObjectState = (u64, u64);

/// The write of each revision, as seen by writers, lists and watchers.
#[derive(Default)]
struct RevisionLog(Mutex<HashMap<u64, (String, u64)>>);

impl RevisionLog {
    fn record(&self, revision: u64, name: &str, count: u64) {
        let mut known = self.0.lock().unwrap();
        let entry = known.entry(revision).or_insert_with(|| (name.to_string(), count));
        assert_eq!(
            (entry.0.as_str(), entry.1),
            (name, count),
            "revision {revision} was used for two different writes"
        );
    }
}

struct Writer {
    number: usize,
    writes: u64,
    /// Objects that are known to be stored.
    objects: BTreeMap<String, ObjectState>,
    /// The write without a response: it was committed or not.
    unanswered: Option<(String, u64)>,
}

fn object(name: &str, count: u64, revision: Option<u64>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "count": count.to_string(), "filling": "x".repeat(500) },
    });
    if let Some(revision) = revision {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
    }
    object
}

fn count(object: &Value) -> u64 {
    object["data"]["count"].as_str().unwrap().parse().unwrap()
}

impl Writer {
    /// Writes on one connection until the connection breaks.
    async fn write(
        mut self,
        client: Client,
        revisions: Arc<RevisionLog>,
        acknowledged: Arc<AtomicUsize>,
    ) -> Writer {
        let Ok(mut http) = client.http1().await else { return self };
        loop {
            let (method, name, state) = self.choose();
            let (next, expected) = state.map_or((0, None), |(count, revision)| (count + 1, Some(revision)));
            self.unanswered = Some((name.clone(), next));
            let path = if state.is_some() { config_map(&name) } else { CONFIG_MAPS.to_string() };
            let body = RequestContent::Json(object(&name, next, expected));
            let Ok(answer) = http.request(method, &path, body).await else { return self };
            let stored = answer.expect(if state.is_some() { 200 } else { 201 });
            assert_eq!(count(&stored), next);
            revisions.record(revision(&stored), &name, next);
            self.objects.insert(name, (next, revision(&stored)));
            self.unanswered = None;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn choose(&mut self) -> (Method, String, Option<ObjectState>) {
        self.writes += 1;
        if self.writes % CREATE_EVERY == 1 {
            let name = format!("writer-{}-{}", self.number, self.writes);
            return (Method::POST, name, None);
        }
        let position = self.writes as usize % self.objects.len();
        let (name, state) = self.objects.iter().nth(position).unwrap();
        (Method::PUT, name.clone(), Some(*state))
    }

    /// Compares the writer's state with the stored one, and then uses the stored one.
    fn check(&mut self, stored: &mut BTreeMap<String, ObjectState>, revisions: &RevisionLog) {
        let unanswered = self.unanswered.take();
        if let Some((name, next)) = unanswered
            && let Some((found, revision)) = stored.get(&name).filter(|(found, _)| *found == next)
        {
            revisions.record(*revision, &name, *found);
            self.objects.insert(name, (*found, *revision));
        }
        for (name, known) in &self.objects {
            assert_eq!(
                stored.remove(name).as_ref(),
                Some(known),
                "{name} differs from the acknowledged write"
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    One,
    Two,
}

/// A watcher that runs during the whole test and resumes from its last revision.
struct Watcher {
    last: AtomicUsize,
    objects: Mutex<BTreeMap<String, u64>>,
}

impl Watcher {
    async fn watch(self: Arc<Self>, client: Client, protocol: Protocol, revisions: Arc<RevisionLog>) {
        loop {
            let waiting = Waiting::until("the server accepts a connection");
            let mut http = loop {
                let connection = match protocol {
                    Protocol::One => client.http1().await,
                    Protocol::Two => client.http2().await,
                };
                match connection {
                    Ok(http) => break http,
                    Err(_) => waiting.again().await,
                }
            };
            let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", self.last.load(Ordering::Relaxed));
            let Ok(mut watch) = Watch::on(&mut http, &path).await else { continue };
            while let Next::Event(event) = watch.next().await {
                self.observe(&event.kind, &event.object, &revisions);
            }
        }
    }

    fn observe(&self, kind: &str, object: &Value, revisions: &RevisionLog) {
        assert!(kind == "ADDED" || kind == "MODIFIED", "{kind} {object}");
        let (revision, count) = (revision(object), count(object));
        let name = object["metadata"]["name"].as_str().unwrap();
        let last = self.last.swap(revision as usize, Ordering::Relaxed) as u64;
        assert!(revision > last, "{name} at {revision} after {last}: seen twice, or out of order");
        revisions.record(revision, name, count);
        let before = self.objects.lock().unwrap().insert(name.to_string(), count);
        // Each write increments the count by one, so a gap is visible.
        match before {
            None => assert_eq!((kind, count), ("ADDED", 0), "{name} has a gap"),
            Some(before) => assert_eq!((kind, count), ("MODIFIED", before + 1), "{name} has a gap"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_and_watchers_see_no_gap() {
    let rounds = std::env::var("ATOLL_KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut atoll = Atoll::start();
    let revisions = Arc::new(RevisionLog::default());
    let start = revision(&atoll.admin().get(CONFIG_MAPS).await.expect(200));
    // The authority stays the same. The administrator's certificate is renewed at each start, and the old one
    // stays valid.
    let client = atoll.admin();

    let followers: Vec<Arc<Watcher>> = (0..3)
        .map(|_| Arc::new(Watcher { last: AtomicUsize::new(start as usize), objects: Mutex::default() }))
        .collect();
    let mut following = tokio::task::JoinSet::new();
    for (position, follower) in followers.iter().enumerate() {
        let protocol = if position == 0 { Protocol::One } else { Protocol::Two };
        following.spawn(follower.clone().watch(client.clone(), protocol, revisions.clone()));
    }

    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer { number, writes: 0, objects: BTreeMap::new(), unanswered: None })
        .collect();
    for round in 0..rounds {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut writing = tokio::task::JoinSet::new();
        for writer in writers.drain(..) {
            writing.spawn(writer.write(client.clone(), revisions.clone(), acknowledged.clone()));
        }
        // A different number of writes each time, so that the kill happens at different moments.
        let enough = 100 + round * 53 % 400;
        eventually("enough has been written", async || acknowledged.load(Ordering::Relaxed) >= enough).await;
        atoll.kill();
        while let Some(writer) = writing.join_next().await {
            writers.push(writer.unwrap());
        }
        atoll.restart();

        let list = client.get(CONFIG_MAPS).await.expect(200);
        let items = list["items"].as_array().unwrap().iter().filter(|item| item["data"]["count"].is_string());
        let mut stored: BTreeMap<String, ObjectState> = items
            .map(|item| (item["metadata"]["name"].as_str().unwrap().into(), (count(item), revision(item))))
            .collect();
        let latest = stored.values().map(|(_, revision)| *revision).max().unwrap_or(start) as usize;
        for writer in &mut writers {
            writer.check(&mut stored, &revisions);
        }
        assert!(stored.is_empty(), "objects that no writer wrote: {stored:?}");
        eventually("all watchers have caught up", async || {
            if let Some(outcome) = following.try_join_next() {
                outcome.unwrap();
            }
            followers.iter().all(|follower| follower.last.load(Ordering::Relaxed) >= latest)
        })
        .await;
    }
    let written = revisions.0.lock().unwrap().len();
    println!(
        "{rounds} rounds, {written} writes, revision {}",
        revision(&client.get(CONFIG_MAPS).await.json())
    );
    following.abort_all();
}
