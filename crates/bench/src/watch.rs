//! Many watchers of one resource: how late they hear of a change, and what telling them costs the server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{config_map, config_maps};
use crate::connection::{Connection, Target};
use crate::error::{BenchError, Outcome};
use crate::load::NUMBER;
use crate::machine::Others;
use crate::report::{self, Goal, Line, Unit};
use crate::samples::Samples;
use crate::server::{Kind, Running, runtime};
use crate::session::Session;
use crate::{process, progress};

const WATCHERS: usize = 1000;
/// Creates a second: with so many watchers each of them is a thousand deliveries.
const RATE: u32 = 20;
const NAMESPACE: &str = "watched";
/// How long the last event may take to everyone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shared by the writer and the watchers.
struct Course {
    events: usize,
    began: Instant,
    /// When each create was sent, in nanoseconds after `began`.
    sent: Vec<AtomicU64>,
    delivered: AtomicUsize,
}

struct Round {
    latency: Samples,
    create: Samples,
    /// Time that the server kept cores busy.
    busy: Duration,
    events: usize,
    memory: u64,
}

pub fn run(session: &Session) -> Outcome<()> {
    let seconds = if session.options.quick { 5 } else { 20 };
    let mut others = Others::begin()?;
    let mut results = Vec::new();
    for kind in session.kinds() {
        progress(&format!("{}: {WATCHERS} watchers, {RATE} creates a second", kind.name()));
        let running = session.programs.start(kind, &session.directory(kind))?;
        let round = measure(&running, RATE as usize * seconds)?;
        others.ours(running.stop()?);
        results.push((kind, round));
    }
    let share = others.share()?;
    let lines = lines(&mut results);
    println!("{}", report::table(&lines));
    session.footnotes(&others, share);
    println!(
        "{WATCHERS} watchers of the ConfigMaps of one namespace, each with a connection of its own; {RATE} creates a \
         second. A delivery is counted from sending the create. What the server does when idle is in its busy time."
    );
    session.save(json!({
        "bench": "watch",
        "others_share": share,
        "watchers": WATCHERS,
        "creates_per_second": RATE,
        "table": report::json(&lines),
        "servers": results.iter_mut().map(|(kind, round)| round.describe(*kind)).collect::<Value>(),
    }))
}

fn measure(running: &Running, events: usize) -> Outcome<Round> {
    let target = &running.target;
    let runtime = runtime()?;
    let revision = runtime.block_on(async {
        let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#);
        target.call("POST", "/api/v1/namespaces", &body).await?;
        let list = target.call("GET", &config_maps(NAMESPACE), "").await?;
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        let revision = list["metadata"]["resourceVersion"].as_str().map(String::from);
        revision.ok_or_else(|| BenchError::Answer("a list has no resourceVersion".into()))
    })?;
    let before = process::memory(&running.processes)?.now;
    let path = format!("{}?watch=true&resourceVersion={revision}", config_maps(NAMESPACE));
    let sent = (0..events).map(|_| AtomicU64::new(0)).collect();
    let course = Arc::new(Course { events, began: Instant::now(), sent, delivered: AtomicUsize::new(0) });

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let connected = Arc::new(Barrier::new(threads + 1));
    let drivers: Vec<_> = (0..threads)
        .map(|thread| {
            let share = (WATCHERS + thread) / threads;
            let request = target.request("GET", &path, "");
            let (target, course, connected) = (target.clone(), course.clone(), connected.clone());
            std::thread::spawn(move || follow(&target, &request, share, &course, &connected))
        })
        .collect();
    connected.wait();
    std::thread::sleep(Duration::from_secs(1));
    let memory = process::memory(&running.processes)?.now.saturating_sub(before);
    let busy = process::busy(&running.processes)?;
    let created = runtime.block_on(create(target, &course));
    let mut latency = Samples::default();
    for driver in drivers {
        let gone = |_| BenchError::Machine("a thread of the load generator panicked".into());
        latency.add(driver.join().map_err(gone)??);
    }
    let busy = process::busy(&running.processes)?.saturating_sub(busy);
    Ok(Round { latency, create: created?, busy, events, memory })
}

/// One create after the other, at a steady pace: event n of every watcher is create n.
async fn create(target: &Target, course: &Course) -> Outcome<Samples> {
    let mut connection = target.connect().await?;
    let body = config_map();
    let mut samples = Samples::default();
    let mut pace = tokio::time::interval(Duration::from_secs(1) / RATE);
    for (number, sent) in course.sent.iter().enumerate() {
        pace.tick().await;
        let body = body.replace(NUMBER, &format!("{number:08}"));
        let request = target.request("POST", &config_maps(NAMESPACE), &body);
        let now = course.began.elapsed();
        sent.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let (answer, body) = connection.whole(&request).await?;
        if answer.status != 201 {
            return Err(crate::connection::refused("POST", &config_maps(NAMESPACE), answer, &body));
        }
        samples.push(course.began.elapsed() - now);
    }
    Ok(samples)
}

/// Drives `share` watchers until each has seen every event.
fn follow(
    target: &Target,
    request: &[u8],
    share: usize,
    course: &Arc<Course>,
    connected: &Barrier,
) -> Outcome<Samples> {
    runtime()?.block_on(async {
        let watching = open(target, request, share).await;
        // Everyone arrives here, or those that did would wait for ever.
        connected.wait();
        let tasks: Vec<_> =
            watching?.into_iter().map(|connection| tokio::spawn(count(connection, course.clone()))).collect();
        let last = Duration::from_secs(course.events as u64) / RATE;
        let all = async {
            let mut all = Samples::default();
            for task in tasks {
                all.add(task.await.map_err(|error| BenchError::Machine(error.to_string()))??);
            }
            Ok(all)
        };
        let expected = course.events * WATCHERS;
        tokio::time::timeout(last + PATIENCE, all).await.unwrap_or_else(|_| {
            let delivered = course.delivered.load(Ordering::Relaxed);
            Err(BenchError::Answer(format!("{delivered} of {expected} events were delivered in time")))
        })
    })
}

async fn open(target: &Target, request: &[u8], share: usize) -> Outcome<Vec<Connection>> {
    let mut watching = Vec::with_capacity(share);
    for _ in 0..share {
        let mut connection = target.connect().await?;
        connection.send(request).await?;
        while connection.status() == 0 {
            if connection.receive_some(|_| ()).await?.is_some() {
                return Err(BenchError::Answer("a watch ended at once".into()));
            }
        }
        if connection.status() != 200 {
            return Err(BenchError::Answer(format!("a watch was answered {}", connection.status())));
        }
        watching.push(connection);
    }
    Ok(watching)
}

/// Counts the lines that one watcher gets, and how late they are.
async fn count(mut connection: Connection, course: Arc<Course>) -> Outcome<Samples> {
    let mut samples = Samples::default();
    while samples.len() < course.events {
        let mut lines = 0;
        let ended =
            connection.receive_some(|piece| lines += piece.iter().filter(|byte| **byte == b'\n').count());
        if ended.await?.is_some() {
            return Err(BenchError::Answer(format!("a watch ended after {} events", samples.len())));
        }
        let now = course.began.elapsed();
        for _ in 0..lines {
            let sent = course.sent.get(samples.len()).map_or(0, |sent| sent.load(Ordering::Relaxed));
            samples.push(now.saturating_sub(Duration::from_nanos(sent)));
        }
        course.delivered.fetch_add(lines, Ordering::Relaxed);
    }
    Ok(samples)
}

fn lines(results: &mut [(Kind, Round)]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, value: &dyn Fn(&mut Round) -> f64| {
        let mut of = |wanted: Kind| {
            results.iter_mut().find(|(kind, _)| *kind == wanted).map(|(_, round)| value(round))
        };
        let (atoll, kubernetes) = (of(Kind::Atoll), of(Kind::Kubernetes));
        lines.push(Line { what: what.into(), unit, atoll, kubernetes, goal: Goal::None });
    };
    line("delivery, half within", Unit::Seconds, &|round| round.latency.within(0.5));
    line("  99 of 100 within", Unit::Seconds, &|round| round.latency.within(0.99));
    line("server busy for each event", Unit::Seconds, &|round| {
        round.busy.as_secs_f64() / round.events as f64
    });
    line("  for each delivery", Unit::Seconds, &|round| {
        round.busy.as_secs_f64() / round.latency.len() as f64
    });
    line("create meanwhile, half within", Unit::Seconds, &|round| round.create.within(0.5));
    line("memory for each watcher", Unit::Bytes, &|round| round.memory as f64 / WATCHERS as f64);
    lines
}

impl Round {
    fn describe(&mut self, kind: Kind) -> Value {
        json!({
            "server": kind.name(),
            "events": self.events,
            "delivery": self.latency.describe(),
            "create": self.create.describe(),
            "busy_seconds": self.busy.as_secs_f64(),
            "memory_of_watchers_bytes": self.memory,
        })
    }
}
