//! A control plane with simulated clusters.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NAMESPACE;
use super::traffic::Traffic;
use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::progress;
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;

/// Number of attempts to start or join. Ports are chosen before they are used, and another process may take
/// one of them. Joining can be repeated.
const ATTEMPTS: usize = 3;
/// Maximum time for joined clusters to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

pub struct Fleet {
    pub control_plane: RunningServer,
    pub clusters: Vec<Cluster>,
    pub traffic: Traffic,
    program: PathBuf,
    directory: PathBuf,
    joined: usize,
    number: usize,
}

pub struct Cluster {
    pub name: String,
    pub running: RunningServer,
    kubeconfig: PathBuf,
}

impl Fleet {
    pub fn start(session: &Session) -> BenchResult<Fleet> {
        let directory = session.directory(ServerKind::Atoll);
        let control_plane =
            retry(|| session.programs.start_with_controllers(&directory.join("control-plane")))?;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).to_string();
        runtime()?.block_on(control_plane.target.call("POST", "/api/v1/namespaces", &namespace))?;
        Ok(Fleet {
            control_plane,
            clusters: Vec::new(),
            traffic: Traffic::new()?,
            program: session.programs.atoll.clone(),
            directory,
            joined: 0,
            number: 0,
        })
    }

    /// Starts `more` clusters with `nodes` nodes each.
    pub fn grow(&mut self, session: &Session, more: usize, nodes: usize) -> BenchResult<()> {
        for number in self.clusters.len()..self.clusters.len() + more {
            let name = format!("c{number:03}");
            let directory = self.directory.join(&name);
            let running = retry(|| session.programs.start_sim(&directory, nodes))?;
            let kubeconfig = write_proxied_kubeconfig(&directory, &running.target, &self.traffic)?;
            self.clusters.push(Cluster { name, running, kubeconfig });
        }
        Ok(())
    }

    /// Joins the new clusters and returns the time until all clusters were ready.
    pub fn join(&mut self) -> BenchResult<Duration> {
        let began = Instant::now();
        let admin = self.directory.join("control-plane/data/admin.kubeconfig");
        for cluster in &self.clusters[self.joined..] {
            retry(|| self.join_one(cluster, &admin))?;
        }
        self.joined = self.clusters.len();
        runtime()?.block_on(self.ready(began))
    }

    fn join_one(&self, cluster: &Cluster, admin: &Path) -> BenchResult<()> {
        let mut command = Command::new(&self.program);
        command.args(["cluster", "join", &cluster.name]).arg("--kubeconfig").arg(&cluster.kubeconfig);
        command.arg("--control-plane-kubeconfig").arg(admin).stdin(Stdio::null());
        let ended = command.output().map_err(|error| BenchError::file(&self.program, &error))?;
        if ended.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&ended.stderr);
        Err(BenchError::Start(format!("cannot join {}: {}", cluster.name, stderr.trim())))
    }

    async fn ready(&self, began: Instant) -> BenchResult<Duration> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let body = self.control_plane.target.call("GET", CLUSTERS, "").await?;
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            let clusters = || list["items"].as_array().into_iter().flatten();
            if clusters().filter(|cluster| is_ready(cluster)).count() == self.joined {
                return Ok(began.elapsed());
            }
            if Instant::now() > deadline {
                let late = clusters().find(|cluster| !is_ready(cluster)).map(|cluster| &cluster["status"]);
                let shown = late.map(Value::to_string).unwrap_or_default();
                return Err(BenchError::Response(format!("clusters are not ready; status of one: {shown}")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reserves `count` unused numbers and returns the first.
    pub fn number(&mut self, count: usize) -> usize {
        let first = self.number;
        self.number += count;
        first
    }

    /// Stops all servers and returns their CPU time.
    pub fn stop(self) -> BenchResult<Duration> {
        let mut busy = self.control_plane.stop()?;
        for cluster in self.clusters {
            busy += cluster.running.stop()?;
        }
        Ok(busy)
    }
}

fn retry<T>(mut start: impl FnMut() -> BenchResult<T>) -> BenchResult<T> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        match (start(), attempts.next()) {
            (Err(error), Some(_)) => progress(&format!("retrying: {error}")),
            (outcome, _) => return outcome,
        }
    }
}

fn is_ready(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Writes an administrator's kubeconfig that connects through the counting proxy, and returns its path.
fn write_proxied_kubeconfig(directory: &Path, target: &Target, traffic: &Traffic) -> BenchResult<PathBuf> {
    let (from, to) = (directory.join("data/admin.kubeconfig"), directory.join("counted.kubeconfig"));
    let text = fs::read_to_string(&from).map_err(|error| BenchError::file(&from, &error))?;
    let address = traffic.proxy(target.address)?;
    let proxied = text.replace(&format!(":{}", target.address.port()), &format!(":{}", address.port()));
    fs::write(&to, proxied).map_err(|error| BenchError::file(&to, &error))?;
    Ok(to)
}
