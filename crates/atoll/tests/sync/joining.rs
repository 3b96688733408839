//! Clusters join a control plane and are synced in one of two modes.

use std::path::Path;

use atoll_testkit::{Atoll, Process, atoll, succeed};
use serde_json::json;

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Push,
    /// An agent in the cluster.
    Pull,
    None,
}

/// Joins a cluster and returns the command's output.
pub fn join(control_plane: &Path, name: &str, kubeconfig: &Path, mode: Mode, credentials: &Path) -> String {
    let mode = match mode {
        Mode::Push => "push",
        Mode::Pull => "pull",
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

/// Starts the agent of a cluster in pull mode, with the account of its Pod, which does not run in a simulated
/// cluster.
pub async fn start_pull_agent(name: &str, cluster: &Atoll, credentials: &Path) -> Process {
    let below = cluster.admin();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 },
    });
    let path = "/api/v1/namespaces/atoll-system/serviceaccounts/atoll-syncer/token";
    let token = below.post(path, request).await.expect(201);
    let directory = credentials.join(format!("{name}.account"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("token"), token["status"]["token"].as_str().unwrap()).unwrap();
    std::fs::write(directory.join("ca.crt"), &below.endpoint().authority_pem).unwrap();
    let mut command = atoll(&["syncer", name, "--in-cluster", "--service-account"]);
    command.arg(&directory).env("KUBERNETES_SERVICE_HOST", cluster.address.ip().to_string());
    command.env("KUBERNETES_SERVICE_PORT", cluster.address.port().to_string());
    Process::start(&mut command, "Syncing cluster").unwrap()
}

/// Places objects on clusters by hand.
pub fn place(control_plane: &Path, namespace: &str, objects: &[&str], on: &str) {
    let mut command = atoll(&["place"]);
    command.args(objects).args(["--on", on, "-n", namespace]);
    succeed(command.arg("--kubeconfig").arg(control_plane));
}
