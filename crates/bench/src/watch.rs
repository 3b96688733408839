//! Measures many watchers of one resource: the latency of events, and the cost for the server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{config_map, config_maps};
use crate::connection::{Connection, Target};
use crate::error::{BenchError, BenchResult};
use crate::load::NUMBER;
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::samples::Samples;
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;
use crate::{process, progress};

const WATCHERS: usize = 1000;
/// Creates per second. Each of them causes a thousand events.
const RATE: u32 = 20;
const NAMESPACE: &str = "watched";
/// Maximum time until all watchers have received the last event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Times of events, shared by the writer and the watchers.
struct EventTimes {
    events: usize,
    began: Instant,
    /// Time at which each create was sent, in nanoseconds after `began`.
    sent: Vec<AtomicU64>,
    delivered: AtomicUsize,
}

struct Round {
    latency: Samples,
    create: Samples,
    /// CPU time of the server.
    busy: Duration,
    events: usize,
    memory: u64,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let seconds = if session.options.quick { 5 } else { 20 };
    let mut background = BackgroundLoad::start()?;
    let mut results = Vec::new();
    for kind in session.kinds() {
        progress(&format!("{}: {WATCHERS} watchers, {RATE} creates per second", kind.name()));
        let running = session.programs.start(kind, &session.directory(kind))?;
        let round = measure(&running, RATE as usize * seconds)?;
        background.exclude(running.stop()?);
        results.push((kind, round));
    }
    let share = background.share()?;
    let lines = lines(&mut results);
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!(
        "{WATCHERS} watchers of the ConfigMaps of one namespace, each with its own connection; {RATE} creates per second. \
         Latency is measured from sending the create. CPU time includes what the server does when idle."
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

fn measure(running: &RunningServer, events: usize) -> BenchResult<Round> {
    let target = &running.target;
    let runtime = runtime()?;
    let revision = runtime.block_on(async {
        let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#);
        target.call("POST", "/api/v1/namespaces", &body).await?;
        let list = target.call("GET", &config_maps(NAMESPACE), "").await?;
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        let revision = list["metadata"]["resourceVersion"].as_str().map(String::from);
        revision.ok_or_else(|| BenchError::Response("a list has no resourceVersion".into()))
    })?;
    let before = process::memory(&running.processes)?.now;
    let path = format!("{}?watch=true&resourceVersion={revision}", config_maps(NAMESPACE));
    let sent = (0..events).map(|_| AtomicU64::new(0)).collect();
    let times = Arc::new(EventTimes { events, began: Instant::now(), sent, delivered: AtomicUsize::new(0) });

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let connected = Arc::new(Barrier::new(threads + 1));
    let drivers: Vec<_> = (0..threads)
        .map(|thread| {
            let share = (WATCHERS + thread) / threads;
            let request = target.request("GET", &path, "");
            let (target, times, connected) = (target.clone(), times.clone(), connected.clone());
            std::thread::spawn(move || run_watchers(&target, &request, share, &times, &connected))
        })
        .collect();
    connected.wait();
    std::thread::sleep(Duration::from_secs(1));
    let memory = process::memory(&running.processes)?.now.saturating_sub(before);
    let busy = process::busy(&running.processes)?;
    let created = runtime.block_on(create(target, &times));
    let mut latency = Samples::default();
    for driver in drivers {
        let gone = |_| BenchError::Machine("a thread of the load generator panicked".into());
        latency.add(driver.join().map_err(gone)??);
    }
    let busy = process::busy(&running.processes)?.saturating_sub(busy);
    Ok(Round { latency, create: created?, busy, events, memory })
}

/// Creates objects at a steady rate. Event n of every watcher is create n.
async fn create(target: &Target, times: &EventTimes) -> BenchResult<Samples> {
    let mut connection = target.connect().await?;
    let body = config_map();
    let mut samples = Samples::default();
    let mut pace = tokio::time::interval(Duration::from_secs(1) / RATE);
    for (number, sent) in times.sent.iter().enumerate() {
        pace.tick().await;
        let body = body.replace(NUMBER, &format!("{number:08}"));
        let request = target.request("POST", &config_maps(NAMESPACE), &body);
        let now = times.began.elapsed();
        sent.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let (answer, body) = connection.exchange_with_body(&request).await?;
        if answer.status != 201 {
            return Err(crate::connection::unexpected_response(
                "POST",
                &config_maps(NAMESPACE),
                answer,
                &body,
            ));
        }
        samples.push(times.began.elapsed() - now);
    }
    Ok(samples)
}

/// Runs `share` watchers until each has received every event.
fn run_watchers(
    target: &Target,
    request: &[u8],
    share: usize,
    times: &Arc<EventTimes>,
    connected: &Barrier,
) -> BenchResult<Samples> {
    runtime()?.block_on(async {
        let watching = open(target, request, share).await;
        // Wait even after an error, because the other threads would block at the barrier forever.
        connected.wait();
        let tasks: Vec<_> =
            watching?.into_iter().map(|connection| tokio::spawn(count(connection, times.clone()))).collect();
        let last = Duration::from_secs(times.events as u64) / RATE;
        let all = async {
            let mut all = Samples::default();
            for task in tasks {
                all.add(task.await.map_err(|error| BenchError::Machine(error.to_string()))??);
            }
            Ok(all)
        };
        let expected = times.events * WATCHERS;
        tokio::time::timeout(last + TIMEOUT, all).await.unwrap_or_else(|_| {
            let delivered = times.delivered.load(Ordering::Relaxed);
            Err(BenchError::Response(format!("{delivered} of {expected} events were delivered in time")))
        })
    })
}

async fn open(target: &Target, request: &[u8], share: usize) -> BenchResult<Vec<Connection>> {
    let mut watching = Vec::with_capacity(share);
    for _ in 0..share {
        let mut connection = target.connect().await?;
        connection.send(request).await?;
        while connection.status() == 0 {
            if connection.receive_some(|_| ()).await?.is_some() {
                return Err(BenchError::Response("a watch ended immediately".into()));
            }
        }
        if connection.status() != 200 {
            return Err(BenchError::Response(format!("a watch returned {}", connection.status())));
        }
        watching.push(connection);
    }
    Ok(watching)
}

/// Counts the events of one watcher and measures their latency.
async fn count(mut connection: Connection, times: Arc<EventTimes>) -> BenchResult<Samples> {
    let mut samples = Samples::default();
    while samples.len() < times.events {
        let mut lines = 0;
        let ended =
            connection.receive_some(|piece| lines += piece.iter().filter(|byte| **byte == b'\n').count());
        if ended.await?.is_some() {
            return Err(BenchError::Response(format!("a watch ended after {} events", samples.len())));
        }
        let now = times.began.elapsed();
        for _ in 0..lines {
            let sent = times.sent.get(samples.len()).map_or(0, |sent| sent.load(Ordering::Relaxed));
            samples.push(now.saturating_sub(Duration::from_nanos(sent)));
        }
        times.delivered.fetch_add(lines, Ordering::Relaxed);
    }
    Ok(samples)
}

fn lines(results: &mut [(ServerKind, Round)]) -> Vec<TableRow> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, value: &dyn Fn(&mut Round) -> f64| {
        let mut of = |wanted: ServerKind| {
            results.iter_mut().find(|(kind, _)| *kind == wanted).map(|(_, round)| value(round))
        };
        let (atoll, kubernetes) = (of(ServerKind::Atoll), of(ServerKind::Kubernetes));
        lines.push(TableRow { what: what.into(), unit, atoll, kubernetes, goal: Goal::None });
    };
    line("event latency, median", Unit::Seconds, &|round| round.latency.within(0.5));
    line("  p99", Unit::Seconds, &|round| round.latency.within(0.99));
    line("CPU time per create", Unit::Seconds, &|round| round.busy.as_secs_f64() / round.events as f64);
    line("  per delivered event", Unit::Seconds, &|round| {
        round.busy.as_secs_f64() / round.latency.len() as f64
    });
    line("create latency, median", Unit::Seconds, &|round| round.create.within(0.5));
    line("memory per watcher", Unit::Bytes, &|round| round.memory as f64 / WATCHERS as f64);
    lines
}

impl Round {
    fn describe(&mut self, kind: ServerKind) -> Value {
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
