//! Clusters join a control plane and are synced in one of two modes.

use std::path::Path;

use atoll_testkit::{Process, atoll, succeed};

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Push,
    None,
}

/// Joins a cluster and returns the command's output.
pub fn join(control_plane: &Path, name: &str, kubeconfig: &Path, mode: Mode, credentials: &Path) -> String {
    let mode = match mode {
        Mode::Push => "push",
        Mode::None => "none",
    };
    let mut command = atoll(&["cluster", "join", name, "--mode", mode]);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--write-to").arg(credentials);
    succeed(command.arg("--control-plane-kubeconfig").arg(control_plane))
}

/// Starts the agent with the command line that joining has printed.
pub fn start_agent(printed: &str) -> Process {
    let line = printed.lines().map(str::trim).find(|line| line.contains("--from-kubeconfig")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    Process::start(&mut atoll(&words), "Syncing cluster").unwrap()
}

/// Places objects on clusters by hand.
pub fn place(control_plane: &Path, namespace: &str, objects: &[&str], on: &str) {
    let mut command = atoll(&["place"]);
    command.args(objects).args(["--on", on, "-n", namespace]);
    succeed(command.arg("--kubeconfig").arg(control_plane));
}
