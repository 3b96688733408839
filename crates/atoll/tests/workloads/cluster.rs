//! The three clusters that must not differ.

use atoll_testkit::{Atoll, Client, Kubectl, Process, Programs, atoll};
use serde_json::{Value, json};

use crate::real;

/// The behaviour of KWOK's nodes and pods, equal to that of simulated ones.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workloads/stages.yaml");
/// Nodes that every cluster has from the beginning. Scenarios that depend on nodes create their own.
const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];

// Fields are dropped in this order: first the clients, then the server.
enum Server {
    Simulated { _atoll: Atoll },
    Workspace { _nodes: Process, _atoll: Atoll },
    Real { _cluster: real::Cluster },
}

pub struct Cluster {
    pub name: &'static str,
    server: Server,
    pub admin: Client,
    /// kubectl as an administrator, if available.
    pub kubectl: Option<Kubectl>,
}

impl Cluster {
    /// Starts `atoll sim`.
    pub fn simulated() -> Cluster {
        let atoll = Atoll::simulate(&["--name=sim", "--nodes=2"]);
        let (admin, kubectl) = (atoll.admin(), Kubectl::new(&atoll.kubeconfig()));
        Cluster { name: "atoll sim", server: Server::Simulated { _atoll: atoll }, admin, kubectl }
    }

    /// Starts `atoll start` with a workspace of grain `pod`, and `atoll sim nodes`.
    pub fn workspace() -> Cluster {
        let server = Atoll::start_with(&["--grain=pod"]);
        let workspace =
            json!({"apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": "team"}});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let root = server.admin();
        runtime.block_on(root.post("/apis/atoll.dev/v1alpha1/workspaces", workspace)).expect(201);
        let admin = root.workspace("root:team");
        let kubeconfig = server.directory.join("team.kubeconfig");
        std::fs::write(&kubeconfig, admin.kubeconfig()).unwrap();
        let mut nodes = atoll(&["sim", "nodes", "--nodes=2", "--scheduler", "--kubeconfig"]);
        let nodes = Process::start(nodes.arg(&kubeconfig), "nodes at https://").unwrap();
        let server = Server::Workspace { _nodes: nodes, _atoll: server };
        Cluster { name: "a workspace", server, admin, kubectl: Kubectl::new(&kubeconfig) }
    }

    /// Starts kube-apiserver, kube-controller-manager, kube-scheduler and KWOK.
    pub fn real(programs: &Programs) -> Cluster {
        let cluster = real::Cluster::of_kube_apiserver(programs, STAGES);
        let (admin, kubectl) = (cluster.admin(), Some(cluster.kubectl.clone()));
        Cluster { name: "kube-apiserver", server: Server::Real { _cluster: cluster }, admin, kubectl }
    }

    pub fn is_real(&self) -> bool {
        matches!(self.server, Server::Real { .. })
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
