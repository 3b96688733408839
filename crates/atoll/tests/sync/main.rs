//! Objects placed on clusters, from the control plane to running pods and back, through the CLI: `atoll
//! start`, `atoll sim`, `atoll cluster join`, `atoll place`, `atoll syncer`.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "attacks use the rest")]
#[path = "../attacks/fake_cluster.rs"]
mod fake_cluster;
#[path = "../support/support.rs"]
mod support;

mod application;
mod credentials;
mod divided;
mod endpoints;
mod events;
mod faulty_proxy;
mod flapping;
mod health;
mod imported_types;
mod imports;
mod interrupted;
mod joining;
mod moving;
mod objects;
mod pages;
mod pod_access;
mod pulling;
mod reasons;
mod tunnel_limits;
mod tunnels;

use atoll_testkit::{Atoll, Client, Process, Setup};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::application::Site;
use crate::joining::{Mode, join, place, start_agent, start_pull_agent};
use crate::objects::{create, object, wait_for, wait_until_deleted};

fn start_cluster(name: &str) -> Atoll {
    Atoll::simulate(&["--name", name, "--nodes", "3"])
}

/// A control plane, and clusters that have joined it.
struct Fleet {
    atoll: Atoll,
    clusters: Vec<Atoll>,
    /// Agents of clusters with mode `none` or `pull`.
    agents: Vec<Process>,
    /// The output of joining, with the agents' command lines.
    join_outputs: Vec<String>,
    /// Credentials of the agents.
    credentials: TempDir,
}

impl Fleet {
    fn start(mode: Mode, names: &[&str]) -> Fleet {
        Fleet::start_with(Setup::new(), mode, names)
    }

    /// Starts without the scheduler: the test decides about shares.
    fn start_unscheduled(mode: Mode, names: &[&str]) -> Fleet {
        Fleet::start_with(Setup::new().flag("--controllers", "*,-placementscheduler"), mode, names)
    }

    fn start_with(setup: Setup, mode: Mode, names: &[&str]) -> Fleet {
        let atoll = setup.start();
        let clusters: Vec<Atoll> = names.iter().map(|name| start_cluster(name)).collect();
        let credentials = tempfile::tempdir().unwrap();
        let (mut agents, mut join_outputs) = (Vec::new(), Vec::new());
        for (name, cluster) in names.iter().zip(&clusters) {
            let printed = join(&atoll.kubeconfig(), name, &cluster.kubeconfig(), mode, credentials.path());
            match mode {
                Mode::Push => {}
                Mode::None => {
                    agents.push(start_agent(&printed));
                    join_outputs.push(printed);
                }
                Mode::Pull => {
                    let starting = start_pull_agent(name, cluster, credentials.path());
                    agents.push(tokio::task::block_in_place(|| Handle::current().block_on(starting)));
                }
            }
        }
        Fleet { atoll, clusters, agents, join_outputs, credentials }
    }

    fn admin(&self) -> Client {
        self.atoll.admin()
    }

    fn place(&self, object: &str, on: &str) {
        place(&self.atoll.kubeconfig(), "default", &[object], on);
    }
}

async fn application_is_deployed_changed_and_deleted(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let control_plane = fleet.atoll.kubeconfig();
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

#[tokio::test(flavor = "multi_thread")]
async fn application_runs_on_a_cluster_synced_by_pull() {
    application_is_deployed_changed_and_deleted(Mode::Pull).await;
}
