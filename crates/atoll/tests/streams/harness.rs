//! A server, a kubelet that it can reach, nodes, Pods and kubectl.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubelet::Kubelet;
use crate::support::access::Access;
use crate::support::process::{Atoll, Setup};
use crate::support::programs;

/// The declared feature of nodes whose kubelets support WebSocket.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub struct TestCluster {
    pub atoll: Atoll,
    pub kubelet: Arc<Kubelet>,
    pub admin: Access,
    home: TempDir,
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
        let admin = Access::from_kubeconfig(&atoll.admin_kubeconfig());
        let cluster = TestCluster { atoll, kubelet, admin, home: directory };
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
        let program = programs::kubectl()?.join("kubectl");
        let kubeconfig = self.atoll.admin_kubeconfig();
        Some(Kubectl { program, kubeconfig, home: self.home.path().to_path_buf(), websockets: true })
    }
}

#[derive(Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    websockets: bool,
}

/// Result of a kubectl command.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandResult {
    pub out: String,
    pub error: String,
    pub code: i32,
}

impl Kubectl {
    /// Returns the same kubectl with SPDY instead of WebSockets.
    pub fn with_spdy(&self) -> Kubectl {
        Kubectl { websockets: false, ..self.clone() }
    }

    /// `line` is split at spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig).args(line.split(' '));
        for name in ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"] {
            command.env(name, self.websockets.to_string());
        }
        command
    }

    /// Runs a command with `input`, without blocking the kubelet.
    pub async fn run(&self, line: &str, input: &'static str) -> CommandResult {
        let mut command = self.command(line);
        let running = tokio::task::spawn_blocking(move || {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let writing = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
            let output = child.wait_with_output().unwrap();
            // The command may exit before it has read all input.
            let _ = writing.join().unwrap();
            output
        });
        let Output { status, stdout, stderr } = running.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandResult { out: text(stdout), error: text(stderr), code: status.code().unwrap() }
    }
}
