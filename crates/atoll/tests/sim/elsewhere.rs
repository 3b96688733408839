//! Simulated nodes of a server that is no simulated cluster: their kubelets answer, and things go wrong with them as well.

use std::process::Command;

use serde_json::json;

use crate::running::{Running, fault};
use crate::support::eventually;
use crate::support::process::{Atoll, atoll};
use crate::support::programs::{fail, kubectl, succeed};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_answer_and_suffer_wherever_their_server_is() {
    let server = Atoll::start();
    let kubeconfig = server.admin_kubeconfig();
    let line =
        ["sim", "nodes", "--kubeconfig", kubeconfig.to_str().unwrap(), "--nodes", "1", "--name", "lab"];
    let line = [&line[..], &["--scheduler"]].concat();
    let running = Running::start(&line, "Simulating 1 nodes at https://").unwrap();
    let admin = server.admin();
    let pod = json!({
        "metadata": { "name": "one" },
        "spec": { "containers": [{
            "name": "main", "image": "one:1", "command": ["sh", "-c", "echo hello; sleep infinity"],
        }] },
    });
    admin.post(PODS, pod).await.expect(201);
    eventually("the pod runs", async || {
        admin.get(&format!("{PODS}/one")).await.expect(200)["status"]["phase"] == "Running"
    })
    .await;
    let log = format!("{PODS}/one/log");
    eventually("it has said something", async || admin.get(&log).await.text() == "hello\n").await;
    if let Some(programs) = kubectl() {
        let mut command = Command::new(programs.join("kubectl"));
        command.arg("--kubeconfig").arg(&kubeconfig).args(["exec", "one", "--", "echo", "from within"]);
        assert_eq!(succeed(&mut command), "from within\n");
    }

    let condition = async |kind: &str| {
        let node = admin.get("/api/v1/nodes/lab-node-1").await.expect(200);
        let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    eventually("nodes read what goes wrong", async || {
        admin.get("/api/v1/namespaces/kube-system/configmaps/atoll-sim-faults").await.status == 200
    })
    .await;
    assert_eq!(fault(&kubeconfig, "add full-node lab-node-1"), "Fault 1: full-node lab-node-1.\n");
    eventually("it is full", async || condition("DiskPressure").await).await;
    fault(&kubeconfig, "add dead-node lab-node-1");
    assert_eq!(fault(&kubeconfig, "list"), "1  full-node lab-node-1\n2  dead-node lab-node-1\n");
    eventually("nobody answers", async || admin.get(&log).await.status != 200).await;
    assert_eq!(fault(&kubeconfig, "remove 2"), "Fault 2 is over.\n");
    eventually("somebody answers again", async || admin.get(&log).await.status == 200).await;
    assert_eq!(fault(&kubeconfig, "clear"), "Nothing goes wrong any more; faults ended: 1.\n");
    eventually("there is room", async || !condition("DiskPressure").await).await;
    let mut line = atoll(&["sim", "fault", "add", "missing-api", "batch/v1"]);
    let refused = fail(line.env("KUBECONFIG", &kubeconfig));
    assert!(refused.contains("only a whole simulated cluster can suffer that"), "{refused}");
    running.stop();
}
