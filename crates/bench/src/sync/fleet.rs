//! The control plane and the clusters that have joined it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NAMESPACE;
use super::traffic::Traffic;
use crate::connection::Target;
use crate::error::{BenchError, Outcome};
use crate::progress;
use crate::server::{Kind, Running, runtime};
use crate::session::Session;

/// Ports are found before they are used, and somebody else may be faster; whoever joins does what is left to do.
const ATTEMPTS: usize = 3;
/// How long clusters that have joined may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

pub struct Fleet {
    pub control_plane: Running,
    pub clusters: Vec<Cluster>,
    pub traffic: Traffic,
    program: PathBuf,
    directory: PathBuf,
    joined: usize,
    number: usize,
}

pub struct Cluster {
    pub name: String,
    pub running: Running,
    kubeconfig: PathBuf,
}

impl Fleet {
    pub fn start(session: &Session) -> Outcome<Fleet> {
        let directory = session.directory(Kind::Atoll);
        let control_plane = again(|| session.programs.start_whole(&directory.join("control-plane")))?;
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

    /// Starts so many clusters more.
    pub fn grow(&mut self, session: &Session, more: usize) -> Outcome<()> {
        for number in self.clusters.len()..self.clusters.len() + more {
            let name = format!("c{number:03}");
            let directory = self.directory.join(&name);
            let running = again(|| session.programs.start_sim(&directory, 1))?;
            let kubeconfig = lead(&directory, &running.target, &self.traffic)?;
            self.clusters.push(Cluster { name, running, kubeconfig });
        }
        Ok(())
    }

    /// Lets those join that have not, and returns how long it took until all were ready.
    pub fn join(&mut self) -> Outcome<Duration> {
        let began = Instant::now();
        let admin = self.directory.join("control-plane/data/admin.kubeconfig");
        for cluster in &self.clusters[self.joined..] {
            again(|| self.join_one(cluster, &admin))?;
        }
        self.joined = self.clusters.len();
        runtime()?.block_on(self.ready(began))
    }

    fn join_one(&self, cluster: &Cluster, admin: &Path) -> Outcome<()> {
        let mut command = Command::new(&self.program);
        command.args(["cluster", "join", &cluster.name]).arg("--kubeconfig").arg(&cluster.kubeconfig);
        command.arg("--control-plane-kubeconfig").arg(admin).stdin(Stdio::null());
        let ended = command.output().map_err(|error| BenchError::file(&self.program, &error))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(BenchError::Start(format!("{} did not join: {}", cluster.name, said.trim())))
    }

    async fn ready(&self, began: Instant) -> Outcome<Duration> {
        let deadline = Instant::now() + PATIENCE;
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
                return Err(BenchError::Answer(format!("clusters are not ready, such as: {shown}")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The first of so many numbers that nothing was called by.
    pub fn number(&mut self, count: usize) -> usize {
        let first = self.number;
        self.number += count;
        first
    }

    /// Stops everything, and returns how long it had kept cores busy.
    pub fn stop(self) -> Outcome<Duration> {
        let mut busy = self.control_plane.stop()?;
        for cluster in self.clusters {
            busy += cluster.running.stop()?;
        }
        Ok(busy)
    }
}

fn again<T>(mut start: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        match (start(), attempts.next()) {
            (Err(error), Some(_)) => progress(&format!("once more: {error}")),
            (outcome, _) => return outcome,
        }
    }
}

fn is_ready(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Writes a kubeconfig of an administrator that leads past whoever counts.
fn lead(directory: &Path, target: &Target, traffic: &Traffic) -> Outcome<PathBuf> {
    let (from, to) = (directory.join("data/admin.kubeconfig"), directory.join("counted.kubeconfig"));
    let text = fs::read_to_string(&from).map_err(|error| BenchError::file(&from, &error))?;
    let address = traffic.lead(target.address)?;
    let led = text.replace(&format!(":{}", target.address.port()), &format!(":{}", address.port()));
    fs::write(&to, led).map_err(|error| BenchError::file(&to, &error))?;
    Ok(to)
}
