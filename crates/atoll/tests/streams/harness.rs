//! A server, a kubelet that it can reach, nodes, Pods and kubectl.

use std::process::Output;
use std::sync::Arc;

use atoll_testkit::{Atoll, Client, Kubectl, Setup};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubelet::Kubelet;

/// The declared feature of nodes whose kubelets support WebSocket.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub struct TestCluster {
    pub atoll: Atoll,
    pub kubelet: Arc<Kubelet>,
    pub admin: Client,
    _directory: TempDir,
}

impl TestCluster {
    /// Starts a server with the Pods `old` and `new`, on nodes whose kubelets lack and have WebSocket
    /// support.
    pub async fn new() -> TestCluster {
        let directory = tempfile::tempdir().unwrap();
        // The server creates the authority when it starts, so the flag names a file that is written
        // afterwards.
        let data = directory.path().join("data");
        let atoll = Setup::new()
            .flag("--controllers", false)
            .flag("--disable-admission-plugins", "ServiceAccount")
            .flag("--kubelet-certificate-authority", data.join("ca.crt").display())
            .directory(&data)
            .start();
        let kubelet = Kubelet::start(&atoll.directory).await;
        let admin = atoll.admin();
        let cluster = TestCluster { atoll, kubelet, admin, _directory: directory };
        cluster.create_node("old", cluster.kubelet.address.port(), &[]).await;
        cluster.create_node("new", cluster.kubelet.address.port(), &[WEBSOCKETS]).await;
        for name in ["old", "new"] {
            cluster.create_pod(name, name, &["main"]).await;
        }
        cluster
    }

    pub async fn create_node(&self, name: &str, port: u16, features: &[&str]) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
                "declaredFeatures": features,
            },
        });
        self.admin.post("/api/v1/nodes", node).await.expect(201);
    }

    pub async fn create_pod(&self, name: &str, node: &str, containers: &[&str]) {
        let containers: Vec<Value> =
            containers.iter().map(|name| json!({ "name": name, "image": "x" })).collect();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": containers },
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        self.admin.post(PODS, pod).await.expect(201);
        // kubectl forwards ports of running Pods only.
        let status = json!({ "status": { "phase": "Running" } });
        self.admin.merge(&format!("{PODS}/{name}/status"), status).await.expect(200);
    }

    /// Returns `None`, with a printed reason, where kubectl is not available.
    pub fn kubectl(&self) -> Option<Kubectl> {
        Some(with_websockets(&Kubectl::new(&self.atoll.kubeconfig())?, true))
    }
}

/// Result of a kubectl command.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandResult {
    pub out: String,
    pub error: String,
    pub code: i32,
}

fn with_websockets(kubectl: &Kubectl, enabled: bool) -> Kubectl {
    let names = ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"];
    names.iter().fold(kubectl.clone(), |kubectl, name| kubectl.variable(name, enabled))
}

/// Returns the same kubectl with SPDY instead of WebSockets.
pub fn with_spdy(kubectl: &Kubectl) -> Kubectl {
    with_websockets(kubectl, false)
}

/// Runs a command with `input`, without blocking the kubelet.
pub async fn run(kubectl: &Kubectl, line: &str, input: &'static str) -> CommandResult {
    let (kubectl, line) = (kubectl.clone(), line.to_string());
    let running = tokio::task::spawn_blocking(move || kubectl.run_with_input(&line, input));
    let Output { status, stdout, stderr } = running.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandResult { out: text(stdout), error: text(stderr), code: status.code().unwrap() }
}
