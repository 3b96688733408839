//! Things that happen at a steady pace on one side, and when each of them is seen on the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::{NAMESPACE, RATE};
use crate::connection::{Connection, Target, refused};
use crate::error::{BenchError, Outcome};
use crate::load::NUMBER;
use crate::samples::Samples;

pub const CONFIG_MAPS: (&str, &str) = ("/api/v1", "configmaps");
pub const INGRESSES: (&str, &str) = ("/apis/networking.k8s.io/v1", "ingresses");
const MERGE: &str = "application/merge-patch+json";
/// Each is late only if ten in a row are.
const WORKERS: usize = 10;
/// How long the last one may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What stands before the number of an object, and before that of a status.
const OBJECT: &str = "\"c-";
const STATUS: &str = "\"s-";

/// Numbers from `first` on, when each was sent and when it was seen.
pub struct Course {
    first: usize,
    /// Time from one to the next.
    apart: Duration,
    began: Instant,
    /// Nanoseconds after `began`; 0 if that has not happened.
    sent: Vec<AtomicU64>,
    seen: Vec<AtomicU64>,
    left: AtomicUsize,
}

impl Course {
    pub fn new(events: usize, first: usize) -> Arc<Course> {
        Course::paced(events, first, Duration::from_secs(1) / RATE)
    }

    /// One as soon as the other is sent.
    pub fn at_once(events: usize, first: usize) -> Arc<Course> {
        Course::paced(events, first, Duration::ZERO)
    }

    fn paced(events: usize, first: usize, apart: Duration) -> Arc<Course> {
        let zeros = || (0..events).map(|_| AtomicU64::new(0)).collect();
        let (sent, seen, left) = (zeros(), zeros(), AtomicUsize::new(events));
        Arc::new(Course { first, apart, began: Instant::now(), sent, seen, left })
    }

    /// When it is the turn of that one.
    async fn due(&self, start: Instant, index: usize) {
        tokio::time::sleep_until(start + self.apart * u32::try_from(index).unwrap_or(u32::MAX)).await;
    }

    /// Numbers as they are written in names.
    fn written(&self, index: usize) -> String {
        format!("{:08}", self.first + index)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn send(&self, index: usize) {
        self.sent[index].store(self.now(), Ordering::Relaxed);
    }

    /// Looks for the number behind `marker` in a line of a watch.
    fn see(&self, marker: &str, line: &str) {
        let number = line.find(marker).and_then(|at| line.get(at + marker.len()..at + marker.len() + 8));
        let number = number.and_then(|digits| digits.parse::<usize>().ok());
        let index = number.and_then(|number| number.checked_sub(self.first));
        let Some(seen) = index.and_then(|index| self.seen.get(index)) else { return };
        if seen.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How long each was under way, once all have been seen.
    fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        for (sent, seen) in self.sent.iter().zip(&self.seen) {
            let nanos = seen.load(Ordering::Relaxed).saturating_sub(sent.load(Ordering::Relaxed));
            samples.push(Duration::from_nanos(nanos));
        }
        samples
    }

    async fn over(&self) -> Outcome<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.left.load(Ordering::Relaxed) {
                0 => return Ok(()),
                left if Instant::now() > deadline => {
                    let all = self.sent.len();
                    return Err(BenchError::Answer(format!("{left} of {all} never arrived")));
                }
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

/// Creates objects above, spread over the clusters, and sees them arrive below.
pub async fn down(
    fleet: &Fleet,
    course: &Arc<Course>,
    (version, resource): (&'static str, &'static str),
    body: &str,
) -> Outcome<Samples> {
    let mut tasks = JoinSet::new();
    for cluster in &fleet.clusters {
        let watch = open(&cluster.running.target, &format!("{version}/{resource}")).await?;
        tasks.spawn(follow(watch, course.clone(), OBJECT));
    }
    let collection = format!("{version}/namespaces/{NAMESPACE}/{resource}");
    let names: Arc<[String]> = fleet.clusters.iter().map(|cluster| cluster.name.clone()).collect();
    let start = Instant::now() + Duration::from_millis(200);
    for worker in 0..WORKERS {
        let (target, course, names) = (fleet.control_plane.target.clone(), course.clone(), names.clone());
        let (collection, body) = (collection.clone(), body.to_string());
        tasks.spawn(async move {
            let mut connection = target.connect().await?;
            for index in (worker..course.sent.len()).step_by(WORKERS) {
                let name = course.written(index);
                let created = target.request("POST", &collection, &body.replace(NUMBER, &name));
                let placement =
                    json!({"spec": {"clusters": [{"name": names[index % names.len()]}]}}).to_string();
                let path = format!("{collection}/c-{name}/placement");
                let placed = target.request_of(MERGE, "PATCH", &path, &placement);
                course.due(start, index).await;
                course.send(index);
                exchange(&mut connection, &created, &collection).await?;
                exchange(&mut connection, &placed, &path).await?;
            }
            Ok(())
        });
    }
    finish(tasks, course).await
}

/// Creates objects above and then places them all on the first cluster; returns how long it takes until all are there.
pub async fn burst(fleet: &Fleet, course: &Arc<Course>, body: &str) -> Outcome<Duration> {
    let (version, resource) = CONFIG_MAPS;
    let [cluster, ..] = &fleet.clusters[..] else { return Ok(Duration::ZERO) };
    let collection = format!("{version}/namespaces/{NAMESPACE}/{resource}");
    let target = &fleet.control_plane.target;
    let mut connection = target.connect().await?;
    for index in 0..course.sent.len() {
        let created = target.request("POST", &collection, &body.replace(NUMBER, &course.written(index)));
        exchange(&mut connection, &created, &collection).await?;
    }
    let mut tasks = JoinSet::new();
    let watch = open(&cluster.running.target, &format!("{version}/{resource}")).await?;
    tasks.spawn(follow(watch, course.clone(), OBJECT));
    let placement = json!({"spec": {"clusters": [{"name": cluster.name}]}}).to_string();
    let began = Instant::now();
    for worker in 0..WORKERS {
        let (target, course) = (target.clone(), course.clone());
        let (collection, placement) = (collection.clone(), placement.clone());
        tasks.spawn(async move {
            let mut connection = target.connect().await?;
            for index in (worker..course.sent.len()).step_by(WORKERS) {
                let path = format!("{collection}/c-{}/placement", course.written(index));
                let placed = target.request_of(MERGE, "PATCH", &path, &placement);
                course.send(index);
                exchange(&mut connection, &placed, &path).await?;
            }
            Ok(())
        });
    }
    finish(tasks, course).await?;
    Ok(began.elapsed())
}

/// Changes the status of objects in the clusters, one after the other, and sees that above.
pub async fn up(fleet: &Fleet, course: &Arc<Course>, objects: &Arc<Course>) -> Outcome<Samples> {
    let (version, resource) = INGRESSES;
    let mut tasks = JoinSet::new();
    let watch = open(&fleet.control_plane.target, &format!("{version}/{resource}")).await?;
    tasks.spawn(follow(watch, course.clone(), STATUS));
    // Which namespace stands for ours is the syncer's choice.
    let mut places = HashMap::new();
    for cluster in &fleet.clusters {
        let body = cluster.running.target.call("GET", &format!("{version}/{resource}"), "").await?;
        for item in parsed(&body)?["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            if let (Some(name), Some(namespace)) = (metadata["name"].as_str(), metadata["namespace"].as_str())
            {
                places.insert(name.to_string(), namespace.to_string());
            }
        }
    }
    let places = Arc::new(places);
    let targets: Arc<[Target]> =
        fleet.clusters.iter().map(|cluster| cluster.running.target.clone()).collect();
    let start = Instant::now() + Duration::from_millis(1000);
    for worker in 0..WORKERS {
        let (course, objects) = (course.clone(), objects.clone());
        let (places, targets) = (places.clone(), targets.clone());
        tasks.spawn(async move {
            let mut connections: HashMap<usize, Connection> = HashMap::new();
            for index in (worker..course.sent.len()).step_by(WORKERS) {
                let object = index % objects.sent.len();
                let cluster = object % targets.len();
                let name = format!("c-{}", objects.written(object));
                let namespace = places.get(&name).map_or(NAMESPACE, String::as_str);
                let path = format!("{version}/namespaces/{namespace}/{resource}/{name}/status");
                let host = format!("s-{}.example.com", course.written(index));
                let status =
                    json!({"status": {"loadBalancer": {"ingress": [{"hostname": host}]}}}).to_string();
                let request = targets[cluster].request_of(MERGE, "PATCH", &path, &status);
                let mut connection = match connections.remove(&cluster) {
                    Some(connection) => connection,
                    None => targets[cluster].connect().await?,
                };
                course.due(start, index).await;
                course.send(index);
                exchange(&mut connection, &request, &path).await?;
                connections.insert(cluster, connection);
            }
            Ok(())
        });
    }
    finish(tasks, course).await
}

async fn exchange(connection: &mut Connection, request: &[u8], path: &str) -> Outcome<()> {
    let (answer, body) = connection.whole(request).await?;
    match answer.status {
        200..300 => Ok(()),
        _ => Err(refused("a write to", path, answer, &body)),
    }
}

/// Waits until everything was sent and seen. Watches go on as long as that takes.
async fn finish(mut tasks: JoinSet<Outcome<()>>, course: &Course) -> Outcome<Samples> {
    let sending = course.apart * u32::try_from(course.sent.len()).unwrap_or(u32::MAX);
    let over = tokio::time::timeout(sending + PATIENCE, async {
        let mut workers = WORKERS;
        while workers > 0 {
            match tasks.join_next().await {
                Some(Ok(outcome)) => outcome?,
                Some(Err(error)) => return Err(BenchError::Machine(error.to_string())),
                None => break,
            }
            workers -= 1;
        }
        course.over().await
    });
    let late = |_| BenchError::Answer("what was to be sent could not be sent in time".into());
    over.await.map_err(late)??;
    Ok(course.samples())
}

/// A watch of everything that happens from now on.
async fn open(target: &Target, path: &str) -> Outcome<Connection> {
    let list = parsed(&target.call("GET", &format!("{path}?limit=1"), "").await?)?;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = format!("{path}?watch=true&resourceVersion={revision}");
    let mut connection = target.connect().await?;
    connection.send(&target.request("GET", &path, "")).await?;
    while connection.status() == 0 {
        if connection.receive_some(|_| ()).await?.is_some() {
            return Err(BenchError::Answer("a watch ended at once".into()));
        }
    }
    match connection.status() {
        200 => Ok(connection),
        status => Err(BenchError::Answer(format!("a watch was answered {status}"))),
    }
}

/// Follows a watch for as long as it is polled.
async fn follow(mut watch: Connection, course: Arc<Course>, marker: &'static str) -> Outcome<()> {
    let mut rest = Vec::new();
    loop {
        if watch.receive_some(|piece| rest.extend_from_slice(piece)).await?.is_some() {
            return Err(BenchError::Answer("a watch ended before everything was seen".into()));
        }
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n') {
            course.see(marker, &String::from_utf8_lossy(line));
        }
        rest.drain(..whole);
    }
}

fn parsed(body: &[u8]) -> Outcome<Value> {
    serde_json::from_slice(body).map_err(|error| BenchError::Answer(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seen_once_each() {
        let course = Course::new(2, 10);
        for (line, left) in [
            (r#"{"object":{"metadata":{"name":"c-00000009"}}}"#, 2),
            (r#"{"object":{"metadata":{"name":"c-00000010"}}}"#, 1),
            (r#"{"object":{"metadata":{"name":"c-00000010"}}}"#, 1),
            (r#"{"object":{"metadata":{"name":"c-1"#, 1),
            (r#"{"object":{"metadata":{"name":"c-00000012"}}}"#, 1),
            ("", 1),
            (r#"{"object":{"metadata":{"name":"c-00000011"}}}"#, 0),
        ] {
            course.see(OBJECT, line);
            assert_eq!(course.left.load(Ordering::Relaxed), left, "{line}");
        }
    }

    #[test]
    fn time_counts_from_sending() {
        let course = Course::new(1, 0);
        course.send(0);
        course.see(STATUS, r#"{"hostname":"s-00000000.example.com"}"#);
        let mut samples = course.samples();
        assert!(samples.within(1.0) < 4.0, "counted from when it was sent");
    }
}
