//! Objects that are placed on clusters, from the control plane down to running pods and back, with the programs as people
//! run them: `atoll start`, `atoll sim`, `atoll cluster join`, `atoll place`, `atoll syncer`.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "every suite uses a part of this")]
#[path = "../sim/running.rs"]
mod running;
#[path = "../support/support.rs"]
mod support;

mod application;
mod credentials;
mod events;
mod health;
mod interrupted;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::Running;
use crate::support::access::Access;
use crate::support::eventually;
use crate::support::process::{Atoll, Setup, atoll};
use crate::support::programs::succeed;

/// A simulated cluster and its data.
struct Cluster {
    name: String,
    directory: TempDir,
    /// Where it listens, or may.
    address: String,
    running: Option<Running>,
}

impl Cluster {
    fn start(name: &str) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let mut cluster =
            Cluster { name: name.into(), directory, address: "127.0.0.1:0".into(), running: None };
        cluster.resume();
        cluster
    }

    /// Starts it with the data that it has, where it was before.
    fn resume(&mut self) {
        let place = self.place();
        let (place, listen) = (place.to_str().unwrap(), &self.address);
        let line = ["sim", "--name", &self.name, "--nodes", "3", "--data-dir", place, "--listen", listen];
        let running = Running::start(&line, "is ready").unwrap();
        let said = running.said.concat();
        let (_, rest) = said.split_once("https://").unwrap();
        self.address = rest.split_once(". ").unwrap().0.to_string();
        self.running = Some(running);
    }

    fn place(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.place().join("admin.kubeconfig")
    }

    fn admin(&self) -> Access {
        Access::from_kubeconfig(&self.kubeconfig())
    }
}

/// A control plane, with clusters that have joined it.
struct Fleet {
    atoll: Atoll,
    clusters: Vec<Cluster>,
    /// Those that somebody runs by hand.
    syncers: Vec<Running>,
    /// What joining has said of how to run these.
    lines: Vec<String>,
    /// What belongs to these.
    _papers: TempDir,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Push,
    None,
}

impl Fleet {
    fn start(mode: Mode, names: &[&str]) -> Fleet {
        Fleet::with(Setup::new(), mode, names)
    }

    fn with(setup: Setup, mode: Mode, names: &[&str]) -> Fleet {
        let atoll = setup.start();
        let clusters: Vec<Cluster> = names.iter().map(|name| Cluster::start(name)).collect();
        let papers = tempfile::tempdir().unwrap();
        let (mut syncers, mut lines) = (Vec::new(), Vec::new());
        for cluster in &clusters {
            let said = join(&atoll.admin_kubeconfig(), cluster, mode, papers.path());
            if let Mode::None = mode {
                syncers.push(syncer(&said));
                lines.push(said);
            }
        }
        Fleet { atoll, clusters, syncers, lines, _papers: papers }
    }

    fn admin(&self) -> Access {
        self.atoll.admin()
    }

    fn place(&self, object: &str, on: &str) {
        let kubeconfig = self.atoll.admin_kubeconfig();
        succeed(&mut atoll(&["place", object, "--on", on, "--kubeconfig", kubeconfig.to_str().unwrap()]));
    }
}

/// What the command says.
fn join(control_plane: &Path, cluster: &Cluster, mode: Mode, papers: &Path) -> String {
    let mode = match mode {
        Mode::Push => "push",
        Mode::None => "none",
    };
    let kubeconfig = cluster.kubeconfig();
    succeed(&mut atoll(&[
        "cluster",
        "join",
        &cluster.name,
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--mode",
        mode,
        "--write-to",
        papers.to_str().unwrap(),
        "--control-plane-kubeconfig",
        control_plane.to_str().unwrap(),
    ]))
}

/// Runs the command that joining has printed.
fn syncer(said: &str) -> Running {
    let line = said.lines().map(str::trim).find(|line| line.contains("--from-kubeconfig")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    Running::start(&words, "Syncing the cluster").unwrap()
}

async fn create(access: &Access, path: &str, object: Value) -> Value {
    access.post(path, object).await.expect(201)
}

/// Waits until what is at `path` is as it should be.
async fn becomes(what: &str, access: &Access, path: &str, is: impl Fn(&Value) -> bool) {
    eventually(what, async || {
        let answer = access.get(path).await;
        answer.status == 200 && is(&answer.json())
    })
    .await;
}

async fn goes(access: &Access, path: &str) {
    eventually(&format!("{path} is gone"), async || access.get(path).await.status == 404).await;
}

fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}
