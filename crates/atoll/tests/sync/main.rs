//! Objects that are placed on clusters, from the control plane down to running pods and back, with the programs as people
//! run them: `atoll start`, `atoll sim`, `atoll cluster join`, `atoll place`, `atoll syncer`.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "attacks use the rest")]
#[path = "../attacks/fake_cluster.rs"]
mod fake_cluster;
#[allow(dead_code, reason = "every suite uses a part of this")]
#[path = "../sim/running.rs"]
mod running;
#[path = "../support/support.rs"]
mod support;

mod application;
mod credentials;
mod doorway;
mod events;
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
use crate::joining::{Mode, place, syncer};
use crate::objects::{becomes, create, goes, object};
use crate::running::Running;
use crate::support::access::Access;
use crate::support::process::{Atoll, Setup};

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
        place(&self.atoll.admin_kubeconfig(), "default", &[object], on);
    }
}

/// What the command says.
fn join(control_plane: &Path, cluster: &Cluster, mode: Mode, papers: &Path) -> String {
    joining::join(control_plane, &cluster.name, &cluster.kubeconfig(), mode, papers)
}

async fn an_application_runs_where_it_is_placed(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let control_plane = fleet.atoll.admin_kubeconfig();
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    let site = Site { above, control_plane, below, cluster: "east", namespace: "shop" };
    site.arrives().await;
    site.follows().await;
    site.goes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_runs_where_it_is_placed_by_push() {
    an_application_runs_where_it_is_placed(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_runs_where_it_is_placed_by_hand() {
    an_application_runs_where_it_is_placed(Mode::None).await;
}
