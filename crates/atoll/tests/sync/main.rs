//! Objects placed on clusters, from the control plane to running pods and back, through the CLI: `atoll
//! start`, `atoll sim`, `atoll cluster join`, `atoll place`, `atoll syncer`.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "attacks use the rest")]
#[path = "../attacks/fake_cluster.rs"]
mod fake_cluster;
#[allow(dead_code, reason = "every suite uses a part of this")]
#[path = "../sim/running_command.rs"]
mod running_command;
#[path = "../support/support.rs"]
mod support;

mod application;
mod credentials;
mod events;
mod faulty_proxy;
mod flapping;
mod health;
mod interrupted;
mod joining;
mod objects;
mod pages;
mod reasons;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::application::Site;
use crate::joining::{Mode, place, start_agent};
use crate::objects::{create, object, wait_for, wait_until_deleted};
use crate::running_command::RunningCommand;
use crate::support::access::Access;
use crate::support::process::{Atoll, Setup};

/// A simulated cluster and its data.
struct Cluster {
    name: String,
    directory: TempDir,
    /// The listening address, with port 0 before the first start.
    address: String,
    running: Option<RunningCommand>,
}

impl Cluster {
    fn start(name: &str) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let mut cluster =
            Cluster { name: name.into(), directory, address: "127.0.0.1:0".into(), running: None };
        cluster.resume();
        cluster
    }

    /// Starts the cluster with its existing data at its previous address.
    fn resume(&mut self) {
        let directory = self.data_directory();
        let (directory, listen) = (directory.to_str().unwrap(), &self.address);
        let line = ["sim", "--name", &self.name, "--nodes", "3", "--data-dir", directory, "--listen", listen];
        let running = RunningCommand::start(&line, "is ready").unwrap();
        let printed = running.printed.concat();
        let (_, rest) = printed.split_once("https://").unwrap();
        self.address = rest.split_once(". ").unwrap().0.to_string();
        self.running = Some(running);
    }

    fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.data_directory().join("admin.kubeconfig")
    }

    fn admin(&self) -> Access {
        Access::from_kubeconfig(&self.kubeconfig())
    }
}

/// A control plane, and clusters that have joined it.
struct Fleet {
    atoll: Atoll,
    clusters: Vec<Cluster>,
    /// Agents of clusters with mode `none`.
    agents: Vec<RunningCommand>,
    /// The output of joining, with the agents' command lines.
    join_outputs: Vec<String>,
    /// Credentials of the agents.
    _credentials: TempDir,
}

impl Fleet {
    fn start(mode: Mode, names: &[&str]) -> Fleet {
        Fleet::start_with(Setup::new(), mode, names)
    }

    fn start_with(setup: Setup, mode: Mode, names: &[&str]) -> Fleet {
        let atoll = setup.start();
        let clusters: Vec<Cluster> = names.iter().map(|name| Cluster::start(name)).collect();
        let credentials = tempfile::tempdir().unwrap();
        let (mut agents, mut join_outputs) = (Vec::new(), Vec::new());
        for cluster in &clusters {
            let printed = join(&atoll.admin_kubeconfig(), cluster, mode, credentials.path());
            if let Mode::None = mode {
                agents.push(start_agent(&printed));
                join_outputs.push(printed);
            }
        }
        Fleet { atoll, clusters, agents, join_outputs, _credentials: credentials }
    }

    fn admin(&self) -> Access {
        self.atoll.admin()
    }

    fn place(&self, object: &str, on: &str) {
        place(&self.atoll.admin_kubeconfig(), "default", &[object], on);
    }
}

/// Joins a cluster and returns the command's output.
fn join(control_plane: &Path, cluster: &Cluster, mode: Mode, credentials: &Path) -> String {
    joining::join(control_plane, &cluster.name, &cluster.kubeconfig(), mode, credentials)
}

async fn application_is_deployed_changed_and_deleted(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let control_plane = fleet.atoll.admin_kubeconfig();
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    let site = Site { above, control_plane, below, cluster: "east", namespace: "shop" };
    site.deploy_and_check().await;
    site.change_and_check().await;
    site.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn application_runs_on_a_cluster_synced_by_push() {
    application_is_deployed_changed_and_deleted(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn application_runs_on_a_cluster_synced_by_an_agent() {
    application_is_deployed_changed_and_deleted(Mode::None).await;
}
