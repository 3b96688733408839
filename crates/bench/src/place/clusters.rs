//! Clusters that send heartbeats and read their sync views, as agents do, but run nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::workloads::{GROUP, GROUPS};
use crate::connection::{Connection, Target};
use crate::error::{BenchError, BenchResult};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
/// Interval between the heartbeats of a cluster, as in a syncer.
const INTERVAL: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u64 = 30;
/// Maximum time until all clusters are ready.
const READY_TIMEOUT: Duration = Duration::from_secs(180);
/// Connections over which heartbeats are sent.
const SENDERS: usize = 8;
/// Nodes of each cluster. All workloads fit on any ten clusters.
const NODES: usize = 400;

pub struct ReportedClusters {
    count: usize,
    tasks: JoinSet<BenchResult<()>>,
    /// Clusters from this number on send no more heartbeats.
    alive: Arc<AtomicUsize>,
    problem: Arc<Mutex<Option<BenchError>>>,
    stopped: Arc<AtomicBool>,
}

pub fn name(cluster: usize) -> String {
    format!("cluster-{cluster:04}")
}

impl ReportedClusters {
    /// Registers clusters, sends their heartbeats and reads their views until dropped.
    pub async fn join(target: &Target, count: usize, arrivals: &Arc<Arrivals>) -> BenchResult<Self> {
        let mut connection = target.connect().await?;
        for cluster in 0..count {
            let labels = json!({ GROUP: GROUPS[cluster % GROUPS.len()] });
            let metadata = json!({ "name": name(cluster), "labels": labels });
            let object = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": { "mode": "pull" },
            });
            let request = target.request("POST", CLUSTERS, &object.to_string());
            let (answer, body) = connection.exchange_with_body(&request).await?;
            if answer.status != 201 {
                return Err(crate::connection::unexpected_response("POST", CLUSTERS, answer, &body));
            }
        }
        let mut clusters = ReportedClusters {
            count,
            tasks: JoinSet::new(),
            alive: Arc::new(AtomicUsize::new(count)),
            problem: Arc::default(),
            stopped: Arc::default(),
        };
        for cluster in 0..count {
            let view = open_view(target, &name(cluster)).await?;
            let arrivals = arrivals.clone();
            clusters.spawn(read_lines(view, move |line| arrivals.see_line(line)));
        }
        for sender in 0..SENDERS {
            let (target, alive) = (target.clone(), clusters.alive.clone());
            clusters.spawn(send_heartbeats(target, (sender..count).step_by(SENDERS).collect(), alive));
        }
        clusters.wait_until_ready(target).await?;
        Ok(clusters)
    }

    /// Runs a task in the background. The first one that fails is the problem of the measurement.
    pub fn spawn(&mut self, task: impl Future<Output = BenchResult<()>> + Send + 'static) {
        let (problem, stopped) = (self.problem.clone(), self.stopped.clone());
        self.tasks.spawn(async move {
            if let Err(error) = task.await
                && !stopped.load(Ordering::Relaxed)
            {
                problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            Ok(())
        });
    }

    /// Fails if a task in the background has failed.
    pub fn check(&self) -> BenchResult<()> {
        match self.problem.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Sends no more heartbeats of the last cluster.
    pub fn lose_one(&self) {
        self.alive.store(self.count - 1, Ordering::Relaxed);
    }

    async fn wait_until_ready(&self, target: &Target) -> BenchResult<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            self.check()?;
            let body = target.call("GET", CLUSTERS, "").await?;
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            let items = list["items"].as_array().into_iter().flatten();
            let ready = items.filter(|cluster| is_ready(cluster)).count();
            if ready == self.count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(BenchError::Response(format!("{ready} of {} clusters are ready", self.count)));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for ReportedClusters {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn is_ready(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn heartbeat(cluster: usize) -> Value {
    let free = json!({ "nodes": NODES, "cpu": "16", "memory": "64Gi", "pods": "110" });
    let nodes = json!({ "total": NODES, "ready": NODES });
    let syncer = json!({ "version": "bench", "instance": format!("bench-{cluster}") });
    json!({ "heartbeat": {
        "id": format!("bench-{cluster:04}"),
        "kubernetesVersion": "v1.36.0",
        "nodes": nodes,
        "free": [free],
        "syncer": syncer,
        "leaseDurationSeconds": LEASE_SECONDS,
    } })
}

/// Sends the heartbeats of some clusters, evenly distributed over the interval.
async fn send_heartbeats(target: Target, clusters: Vec<usize>, alive: Arc<AtomicUsize>) -> BenchResult<()> {
    let mut connection = target.connect().await?;
    let mut is_first = true;
    loop {
        let begun = Instant::now();
        let apart = INTERVAL / u32::try_from(clusters.len().max(1)).unwrap_or(u32::MAX);
        for (position, cluster) in clusters.iter().enumerate() {
            if *cluster >= alive.load(Ordering::Relaxed) {
                continue;
            }
            if !is_first {
                let due = begun + apart * u32::try_from(position).unwrap_or(u32::MAX);
                tokio::time::sleep_until(due).await;
            }
            let path = format!("/services/sync/{}", name(*cluster));
            let request = target.request("POST", &path, &heartbeat(*cluster).to_string());
            let (answer, body) = connection.exchange_with_body(&request).await?;
            if answer.status != 200 {
                return Err(crate::connection::unexpected_response("POST", &path, answer, &body));
            }
        }
        is_first = false;
        tokio::time::sleep_until(begun + INTERVAL).await;
    }
}

async fn open_view(target: &Target, cluster: &str) -> BenchResult<Connection> {
    let mut connection = target.connect().await?;
    connection.send(&target.request("GET", &format!("/services/sync/{cluster}"), "")).await?;
    Ok(connection)
}

/// Reads lines of a stream until the task is dropped.
pub async fn read_lines(mut stream: Connection, mut see: impl FnMut(&str)) -> BenchResult<()> {
    let mut rest = Vec::new();
    loop {
        let ended = stream.receive_some(|piece| rest.extend_from_slice(piece)).await?;
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n') {
            see(&String::from_utf8_lossy(line));
        }
        rest.drain(..whole);
        if ended.is_some() {
            return Err(BenchError::Response(format!("a stream ended with status {}", stream.status())));
        }
    }
}
