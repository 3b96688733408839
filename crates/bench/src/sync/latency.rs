//! Sends events at a steady rate on one side and measures when they are seen on the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::{NAMESPACE, RATE};
use crate::connection::{Connection, Target, unexpected_response};
use crate::error::{BenchError, BenchResult};
use crate::load::NUMBER;
use crate::samples::Samples;

pub const CONFIG_MAPS: (&str, &str) = ("/api/v1", "configmaps");
pub const INGRESSES: (&str, &str) = ("/apis/networking.k8s.io/v1", "ingresses");
const MERGE: &str = "application/merge-patch+json";
/// Number of concurrent senders. An event is delayed only if ten in a row are slow.
const WORKERS: usize = 10;
/// Maximum time until the last event is seen.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Text before the number of an object, and before the number of a status, in a watch event.
const OBJECT: &str = "\"c-";
const STATUS: &str = "\"s-";

/// Times at which numbered events were sent and seen. The numbers start at `first`.
pub struct EventTimes {
    first: usize,
    /// Interval between events.
    apart: Duration,
    began: Instant,
    /// Nanoseconds after `began`; 0 if the event was not sent or seen.
    sent: Vec<AtomicU64>,
    seen: Vec<AtomicU64>,
    left: AtomicUsize,
}

impl EventTimes {
    pub fn new(events: usize, first: usize) -> Arc<EventTimes> {
        EventTimes::paced(events, first, Duration::from_secs(1) / RATE)
    }

    /// Creates the events of a burst, without an interval.
    pub fn at_once(events: usize, first: usize) -> Arc<EventTimes> {
        EventTimes::paced(events, first, Duration::ZERO)
    }

    fn paced(events: usize, first: usize, apart: Duration) -> Arc<EventTimes> {
        let zeros = || (0..events).map(|_| AtomicU64::new(0)).collect();
        let (sent, seen, left) = (zeros(), zeros(), AtomicUsize::new(events));
        Arc::new(EventTimes { first, apart, began: Instant::now(), sent, seen, left })
    }

    /// Waits until an event is due.
    async fn due(&self, start: Instant, index: usize) {
        tokio::time::sleep_until(start + self.apart * u32::try_from(index).unwrap_or(u32::MAX)).await;
    }

    /// Returns the number of an event as it is written in names.
    fn written(&self, index: usize) -> String {
        format!("{:08}", self.first + index)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn send(&self, index: usize) {
        self.sent[index].store(self.now(), Ordering::Relaxed);
    }

    /// Records the number after `marker` in a line of a watch.
    fn see(&self, marker: &str, line: &str) {
        let number = line.find(marker).and_then(|at| line.get(at + marker.len()..at + marker.len() + 8));
        let number = number.and_then(|digits| digits.parse::<usize>().ok());
        let index = number.and_then(|number| number.checked_sub(self.first));
        let Some(seen) = index.and_then(|index| self.seen.get(index)) else { return };
        if seen.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the latencies after all events have been seen.
    fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        for (sent, seen) in self.sent.iter().zip(&self.seen) {
            let nanos = seen.load(Ordering::Relaxed).saturating_sub(sent.load(Ordering::Relaxed));
            samples.push(Duration::from_nanos(nanos));
        }
        samples
    }

    async fn wait_until_seen(&self) -> BenchResult<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.left.load(Ordering::Relaxed) {
                0 => return Ok(()),
                left if Instant::now() > deadline => {
                    let all = self.sent.len();
                    return Err(BenchError::Response(format!(
                        "{left} of {all} events were not seen in time"
                    )));
                }
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

/// Creates objects above, distributed over the clusters, and measures when they are seen below.
pub async fn down(
    fleet: &Fleet,
    times: &Arc<EventTimes>,
    (version, resource): (&'static str, &'static str),
    body: &str,
) -> BenchResult<Samples> {
    let mut tasks = JoinSet::new();
    for cluster in &fleet.clusters {
        let watch = open_watch(&cluster.running.target, &format!("{version}/{resource}")).await?;
        tasks.spawn(read_watch(watch, times.clone(), OBJECT));
    }
    let collection = format!("{version}/namespaces/{NAMESPACE}/{resource}");
    let names: Arc<[String]> = fleet.clusters.iter().map(|cluster| cluster.name.clone()).collect();
    let start = Instant::now() + Duration::from_millis(200);
    for worker in 0..WORKERS {
        let (target, times, names) = (fleet.control_plane.target.clone(), times.clone(), names.clone());
        let (collection, body) = (collection.clone(), body.to_string());
        tasks.spawn(async move {
            let mut connection = target.connect().await?;
            for index in (worker..times.sent.len()).step_by(WORKERS) {
                let name = times.written(index);
                let created = target.request("POST", &collection, &body.replace(NUMBER, &name));
                let placement =
                    json!({"spec": {"clusters": [{"name": names[index % names.len()]}]}}).to_string();
                let path = format!("{collection}/c-{name}/placement");
                let placed = target.request_of(MERGE, "PATCH", &path, &placement);
                times.due(start, index).await;
                times.send(index);
                exchange(&mut connection, &created, &collection).await?;
                exchange(&mut connection, &placed, &path).await?;
            }
            Ok(())
        });
    }
    finish(tasks, times).await
}

/// Creates objects above, namespaces all of them on the first cluster, and returns the time until all have
/// arrived.
pub async fn burst(fleet: &Fleet, times: &Arc<EventTimes>, body: &str) -> BenchResult<Duration> {
    let (version, resource) = CONFIG_MAPS;
    let [cluster, ..] = &fleet.clusters[..] else { return Ok(Duration::ZERO) };
    let collection = format!("{version}/namespaces/{NAMESPACE}/{resource}");
    let target = &fleet.control_plane.target;
    let mut connection = target.connect().await?;
    for index in 0..times.sent.len() {
        let created = target.request("POST", &collection, &body.replace(NUMBER, &times.written(index)));
        exchange(&mut connection, &created, &collection).await?;
    }
    let mut tasks = JoinSet::new();
    let watch = open_watch(&cluster.running.target, &format!("{version}/{resource}")).await?;
    tasks.spawn(read_watch(watch, times.clone(), OBJECT));
    let placement = json!({"spec": {"clusters": [{"name": cluster.name}]}}).to_string();
    let began = Instant::now();
    for worker in 0..WORKERS {
        let (target, times) = (target.clone(), times.clone());
        let (collection, placement) = (collection.clone(), placement.clone());
        tasks.spawn(async move {
            let mut connection = target.connect().await?;
            for index in (worker..times.sent.len()).step_by(WORKERS) {
                let path = format!("{collection}/c-{}/placement", times.written(index));
                let placed = target.request_of(MERGE, "PATCH", &path, &placement);
                times.send(index);
                exchange(&mut connection, &placed, &path).await?;
            }
            Ok(())
        });
    }
    finish(tasks, times).await?;
    Ok(began.elapsed())
}

/// Changes the statuses of objects in the clusters and measures when the changes are seen above.
pub async fn up(fleet: &Fleet, times: &Arc<EventTimes>, objects: &Arc<EventTimes>) -> BenchResult<Samples> {
    let (version, resource) = INGRESSES;
    let mut tasks = JoinSet::new();
    let watch = open_watch(&fleet.control_plane.target, &format!("{version}/{resource}")).await?;
    tasks.spawn(read_watch(watch, times.clone(), STATUS));
    // The syncer chooses the names of the namespaces below.
    let mut namespaces = HashMap::new();
    for cluster in &fleet.clusters {
        let body = cluster.running.target.call("GET", &format!("{version}/{resource}"), "").await?;
        for item in parsed(&body)?["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            if let (Some(name), Some(namespace)) = (metadata["name"].as_str(), metadata["namespace"].as_str())
            {
                namespaces.insert(name.to_string(), namespace.to_string());
            }
        }
    }
    let namespaces = Arc::new(namespaces);
    let targets: Arc<[Target]> =
        fleet.clusters.iter().map(|cluster| cluster.running.target.clone()).collect();
    let start = Instant::now() + Duration::from_millis(1000);
    for worker in 0..WORKERS {
        let (times, objects) = (times.clone(), objects.clone());
        let (namespaces, targets) = (namespaces.clone(), targets.clone());
        tasks.spawn(async move {
            let mut connections: HashMap<usize, Connection> = HashMap::new();
            for index in (worker..times.sent.len()).step_by(WORKERS) {
                let object = index % objects.sent.len();
                let cluster = object % targets.len();
                let name = format!("c-{}", objects.written(object));
                let namespace = namespaces.get(&name).map_or(NAMESPACE, String::as_str);
                let path = format!("{version}/namespaces/{namespace}/{resource}/{name}/status");
                let host = format!("s-{}.example.com", times.written(index));
                let status =
                    json!({"status": {"loadBalancer": {"ingress": [{"hostname": host}]}}}).to_string();
                let request = targets[cluster].request_of(MERGE, "PATCH", &path, &status);
                let mut connection = match connections.remove(&cluster) {
                    Some(connection) => connection,
                    None => targets[cluster].connect().await?,
                };
                times.due(start, index).await;
                times.send(index);
                exchange(&mut connection, &request, &path).await?;
                connections.insert(cluster, connection);
            }
            Ok(())
        });
    }
    finish(tasks, times).await
}

async fn exchange(connection: &mut Connection, request: &[u8], path: &str) -> BenchResult<()> {
    let (answer, body) = connection.exchange_with_body(request).await?;
    match answer.status {
        200..300 => Ok(()),
        _ => Err(unexpected_response("write to", path, answer, &body)),
    }
}

/// Waits until all events were sent and seen. The watches keep running during that time.
async fn finish(mut tasks: JoinSet<BenchResult<()>>, times: &EventTimes) -> BenchResult<Samples> {
    let sending = times.apart * u32::try_from(times.sent.len()).unwrap_or(u32::MAX);
    let over = tokio::time::timeout(sending + TIMEOUT, async {
        let mut workers = WORKERS;
        while workers > 0 {
            match tasks.join_next().await {
                Some(Ok(outcome)) => outcome?,
                Some(Err(error)) => return Err(BenchError::Machine(error.to_string())),
                None => break,
            }
            workers -= 1;
        }
        times.wait_until_seen().await
    });
    let late = |_| BenchError::Response("the events could not be sent in time".into());
    over.await.map_err(late)??;
    Ok(times.samples())
}

/// Opens a watch that starts at the current revision.
pub async fn open_watch(target: &Target, path: &str) -> BenchResult<Connection> {
    let list = parsed(&target.call("GET", &format!("{path}?limit=1"), "").await?)?;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = format!("{path}?watch=true&resourceVersion={revision}");
    let mut connection = target.connect().await?;
    connection.send(&target.request("GET", &path, "")).await?;
    while connection.status() == 0 {
        if connection.receive_some(|_| ()).await?.is_some() {
            return Err(BenchError::Response("a watch ended immediately".into()));
        }
    }
    match connection.status() {
        200 => Ok(connection),
        status => Err(BenchError::Response(format!("a watch returned {status}"))),
    }
}

/// Reads a watch until the task is dropped.
async fn read_watch(mut watch: Connection, times: Arc<EventTimes>, marker: &'static str) -> BenchResult<()> {
    let mut rest = Vec::new();
    loop {
        if watch.receive_some(|piece| rest.extend_from_slice(piece)).await?.is_some() {
            return Err(BenchError::Response("a watch ended before all events were seen".into()));
        }
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n') {
            times.see(marker, &String::from_utf8_lossy(line));
        }
        rest.drain(..whole);
    }
}

fn parsed(body: &[u8]) -> BenchResult<Value> {
    serde_json::from_slice(body).map_err(|error| BenchError::Response(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_counted_once() {
        let times = EventTimes::new(2, 10);
        for (line, left) in [
            (r#"{"object":{"metadata":{"name":"c-00000009"}}}"#, 2),
            (r#"{"object":{"metadata":{"name":"c-00000010"}}}"#, 1),
            (r#"{"object":{"metadata":{"name":"c-00000010"}}}"#, 1),
            (r#"{"object":{"metadata":{"name":"c-1"#, 1),
            (r#"{"object":{"metadata":{"name":"c-00000012"}}}"#, 1),
            ("", 1),
            (r#"{"object":{"metadata":{"name":"c-00000011"}}}"#, 0),
        ] {
            times.see(OBJECT, line);
            assert_eq!(times.left.load(Ordering::Relaxed), left, "{line}");
        }
    }

    #[test]
    fn latency_is_measured_from_sending() {
        let times = EventTimes::new(1, 0);
        times.send(0);
        times.see(STATUS, r#"{"hostname":"s-00000000.example.com"}"#);
        let mut samples = times.samples();
        assert!(samples.within(1.0) < 4.0, "latency starts at sending");
    }
}
