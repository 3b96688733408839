//! A real cluster of one node with running containers, through `upstream/cluster`.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::Process;
use crate::upstream::{BUILD_TIMEOUT, READY, announced_url};

/// Set where real clusters are expected to start: a cluster that does not start is a failure then.
const REQUIRED: &str = "ATOLL_REQUIRE_CLUSTERS";

/// A running `upstream/cluster`. Dropping it stops everything in it and removes its data.
pub struct RealCluster {
    process: Process,
    directory: TempDir,
    url: String,
}

impl RealCluster {
    /// Starts several clusters at the same time. Returns `None`, with a printed reason, where clusters cannot
    /// run.
    pub fn start<const COUNT: usize>() -> Option<[RealCluster; COUNT]> {
        let starting = [(); COUNT].map(|()| std::thread::spawn(RealCluster::start_one));
        let started = starting.map(|thread| match thread.join() {
            Ok(started) => started,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        if let Some(reason) = started.iter().find_map(|one| one.as_ref().err()) {
            let required = std::env::var_os(REQUIRED).is_some();
            assert!(!required, "real clusters are required here: {reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        Some(started.map(|one| one.unwrap_or_else(|reason| panic!("{reason}"))))
    }

    /// Starts one cluster, or returns the reason why it cannot run.
    fn start_one() -> Result<RealCluster, String> {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/cluster"));
        command.arg(directory.path());
        match Process::start_within(BUILD_TIMEOUT, &mut command, READY) {
            Ok(process) => {
                let url = announced_url(&process);
                Ok(RealCluster { process, directory, url })
            }
            Err(failure) => Err(failure.errors.trim().to_string()),
        }
    }

    /// Returns the address of the API server. Ports of the node are at the same address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path of an administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Cuts the cluster off from the machine: its API server and its Pods cannot be reached any more, and nothing in
    /// it changes. Packets go to a hardware address that does not exist, so that none takes another route.
    pub fn disconnect(&self) {
        let (node, interface) = (self.node(), self.interface());
        ip(&format!("neighbor replace {node} lladdr 02:00:00:00:00:01 nud permanent dev {interface}"));
    }

    /// Connects the cluster again.
    pub fn reconnect(&self) {
        ip(&format!("neighbor del {} dev {}", self.node(), self.interface()));
    }

    fn node(&self) -> &str {
        let address = self.url.strip_prefix("https://").and_then(|url| url.rsplit_once(':'));
        address.map_or("", |(node, _)| node)
    }

    /// The interface of the machine that leads to the cluster. `upstream/node` derives it and the address of the node
    /// from the same number.
    fn interface(&self) -> String {
        let parts: Vec<u32> = self.node().split('.').filter_map(|part| part.parse().ok()).collect();
        match parts[..] {
            [198, second, third, fourth] => {
                format!("atoll{}", (second - 18) * 16384 + third * 64 + fourth / 4)
            }
            _ => panic!("{} is not an address of a cluster", self.url),
        }
    }

    /// Returns the directory with its logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

fn ip(arguments: &str) {
    let mut command = Command::new("ip");
    // Directories of administration programs are not in every user's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).args(arguments.split(' '));
    crate::succeed(&mut command);
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait();
    }
}
