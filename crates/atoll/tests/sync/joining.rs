//! Clusters join a control plane, and are synced in one way or the other.

use std::path::Path;

use crate::running::Running;
use crate::support::process::atoll;
use crate::support::programs::succeed;

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Push,
    None,
}

/// What the command says.
pub fn join(control_plane: &Path, name: &str, kubeconfig: &Path, mode: Mode, papers: &Path) -> String {
    let mode = match mode {
        Mode::Push => "push",
        Mode::None => "none",
    };
    let mut command = atoll(&["cluster", "join", name, "--mode", mode]);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--write-to").arg(papers);
    succeed(command.arg("--control-plane-kubeconfig").arg(control_plane))
}

/// Runs the command that joining has printed.
pub fn syncer(said: &str) -> Running {
    let line = said.lines().map(str::trim).find(|line| line.contains("--from-kubeconfig")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    Running::start(&words, "Syncing the cluster").unwrap()
}

/// Places an object on clusters by hand.
pub fn place(control_plane: &Path, namespace: &str, objects: &[&str], on: &str) {
    let mut command = atoll(&["place"]);
    command.args(objects).args(["--on", on, "-n", namespace]);
    succeed(command.arg("--kubeconfig").arg(control_plane));
}
