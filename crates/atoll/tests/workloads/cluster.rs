//! The three clusters that must not differ.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use atoll_testkit::{Atoll, Client, Programs, SimulatedNodes, TOKEN};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real;

/// The behaviour of KWOK's nodes and pods, equal to that of simulated ones.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workloads/stages.yaml");
/// Nodes that every cluster has from the beginning. Scenarios that depend on nodes create their own.
const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];

// Fields are dropped in this order: first the clients, then the server.
enum Server {
    Simulated(Atoll),
    Workspace { _nodes: SimulatedNodes, atoll: Atoll },
    Real(real::Cluster),
}

pub struct Cluster {
    pub name: &'static str,
    server: Server,
    /// The prefix of all paths.
    base: &'static str,
    kubeconfig: PathBuf,
    /// The kubectl binary, if available.
    kubectl: Option<OsString>,
    /// The home directory of kubectl, for its discovery cache.
    home: TempDir,
}

impl Cluster {
    /// Starts `atoll sim`.
    pub fn simulated(kubectl: Option<OsString>) -> Cluster {
        let atoll = Atoll::simulate(&["--name=sim", "--nodes=2"]);
        let kubeconfig = atoll.kubeconfig();
        Cluster::new("atoll sim", Server::Simulated(atoll), "", kubeconfig, kubectl)
    }

    /// Starts `atoll start` with a workspace of grain `pod`, and `atoll sim nodes`.
    pub fn workspace(kubectl: Option<OsString>) -> Cluster {
        let base = "/clusters/root:team";
        let atoll = Atoll::start_with(&["--grain=pod"]);
        let workspace =
            json!({"apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": "team"}});
        let client = atoll.client();
        let making = client.post("/apis/atoll.dev/v1alpha1/workspaces", &workspace);
        let made = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(making)
            .unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
        let kubeconfig = atoll.data_dir().join("team.kubeconfig");
        let authority = STANDARD.encode(std::fs::read(atoll.authority()).unwrap());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "team",
            "clusters": [{"name": "team", "cluster": {
                "server": format!("{}{base}", atoll.url()), "certificate-authority-data": authority,
            }}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "team", "context": {"cluster": "team", "user": "admin"}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let nodes = SimulatedNodes::start(&kubeconfig, &["--nodes=2", "--scheduler"]);
        let server = Server::Workspace { _nodes: nodes, atoll };
        Cluster::new("a workspace", server, base, kubeconfig, kubectl)
    }

    /// Starts kube-apiserver, kube-controller-manager, kube-scheduler and KWOK.
    pub fn real(programs: &Programs, kubectl: Option<OsString>) -> Cluster {
        let cluster = real::Cluster::of_kube_apiserver(programs, STAGES);
        let kubeconfig = cluster.kubeconfig();
        Cluster::new("kube-apiserver", Server::Real(cluster), "", kubeconfig, kubectl)
    }

    fn new(
        name: &'static str,
        server: Server,
        base: &'static str,
        kubeconfig: PathBuf,
        kubectl: Option<OsString>,
    ) -> Cluster {
        Cluster { name, server, base, kubeconfig, kubectl, home: tempfile::tempdir().unwrap() }
    }

    pub fn is_real(&self) -> bool {
        matches!(self.server, Server::Real(_))
    }

    pub fn client(&self) -> Client {
        match &self.server {
            Server::Simulated(atoll) | Server::Workspace { atoll, .. } => atoll.client(),
            Server::Real(cluster) => cluster.client(),
        }
    }

    /// Returns the full path of an API path.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns kubectl as an administrator, if available.
    pub fn kubectl(&self) -> Option<Command> {
        let mut command = Command::new(self.kubectl.as_ref()?);
        command.env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        Some(command)
    }

    /// Returns nodes that must be created. Simulated nodes register themselves.
    pub fn missing_nodes(&self) -> Vec<Value> {
        let node = |name: &&str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {
                "name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            }})
        };
        if self.is_real() { NODES.iter().map(node).collect() } else { Vec::new() }
    }
}
