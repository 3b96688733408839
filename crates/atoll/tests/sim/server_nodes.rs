//! Simulated nodes of a server that is not a simulated cluster: their kubelets respond, and faults affect
//! them as well.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use atoll_meta::time;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Kubectl, Process, atoll, fail, fault, succeed};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_respond_and_have_faults_at_any_server() {
    let server = Atoll::start();
    let kubeconfig = server.kubeconfig();
    let line =
        ["sim", "nodes", "--kubeconfig", kubeconfig.to_str().unwrap(), "--nodes", "1", "--name", "lab"];
    let line = [&line[..], &["--scheduler"]].concat();
    let running = Process::start(&mut atoll(&line), "Simulating 1 nodes at https://").unwrap();
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
    eventually("the log is served", async || admin.get(&log).await.text() == "hello\n").await;
    if let Some(kubectl) = Kubectl::new(&kubeconfig) {
        assert_eq!(kubectl.run("exec one -- echo from within"), "from within\n");
    }

    let condition = async |kind: &str| {
        let node = admin.get("/api/v1/nodes/lab-node-1").await.expect(200);
        let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    eventually("nodes read the faults", async || {
        admin.get("/api/v1/namespaces/kube-system/configmaps/atoll-sim-faults").await.status == 200
    })
    .await;
    assert_eq!(fault(&kubeconfig, "add full-node lab-node-1"), "Fault 1: full-node lab-node-1.\n");
    eventually("the node reports disk pressure", async || condition("DiskPressure").await).await;
    fault(&kubeconfig, "add dead-node lab-node-1");
    assert_eq!(fault(&kubeconfig, "list"), "1  full-node lab-node-1\n2  dead-node lab-node-1\n");
    eventually("the kubelet does not respond", async || admin.get(&log).await.status != 200).await;
    assert_eq!(fault(&kubeconfig, "remove 2"), "Fault 2 was removed.\n");
    eventually("the kubelet responds again", async || admin.get(&log).await.status == 200).await;
    assert_eq!(fault(&kubeconfig, "clear"), "All faults were removed: 1.\n");
    eventually("the node reports no disk pressure", async || !condition("DiskPressure").await).await;
    let mut line = atoll(&["sim", "fault", "add", "missing-api", "batch/v1"]);
    let refused = fail(line.env("KUBECONFIG", &kubeconfig));
    assert!(refused.contains("only a simulated cluster supports this fault"), "{refused}");
    running.stop();
}

/// An ordinary server with simulated nodes.
struct ServerWithNodes {
    // Declared before the server: its clients are dropped first.
    _nodes: Process,
    server: Atoll,
    kubeconfig: PathBuf,
}

impl ServerWithNodes {
    /// Starts nodes named `lab-node-1` and so on, and waits until they are ready and read faults.
    async fn start(count: usize) -> ServerWithNodes {
        let server = Atoll::start();
        let kubeconfig = server.kubeconfig();
        let number = count.to_string();
        let line = ["sim", "nodes", "--name", "lab", "--nodes", &number, "--kubeconfig"];
        let line = [&line[..], &[kubeconfig.to_str().unwrap()]].concat();
        let nodes = Process::start(&mut atoll(&line), "nodes at https://").unwrap();
        let server = ServerWithNodes { _nodes: nodes, server, kubeconfig };
        for node in 1..=count {
            eventually("the node is ready", async || server.condition(node, "Ready").await == "True").await;
        }
        let admin = server.admin();
        eventually("nodes read the faults", async || {
            admin.get("/api/v1/namespaces/kube-system/configmaps/atoll-sim-faults").await.status == 200
        })
        .await;
        server
    }

    fn admin(&self) -> Client {
        self.server.admin()
    }

    fn fault(&self, words: &str) -> String {
        fault(&self.kubeconfig, words)
    }

    async fn condition(&self, node: usize, kind: &str) -> String {
        let answer = self.admin().get(&format!("/api/v1/nodes/lab-node-{node}")).await;
        let all = answer.json()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == kind);
        found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_string()
    }

    /// Creates a Pod on the first node.
    async fn create_pod(&self, name: &str, image: &str) {
        let container =
            json!({ "name": "main", "image": image, "command": ["sh", "-c", "echo hello; sleep infinity"] });
        let spec = json!({ "nodeName": "lab-node-1", "containers": [container] });
        self.admin().post(PODS, json!({ "metadata": { "name": name }, "spec": spec })).await.expect(201);
    }

    async fn status(&self, pod: &str) -> Value {
        self.admin().get(&format!("{PODS}/{pod}")).await.expect(200)["status"].take()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_and_partitioned_nodes_become_unready() {
    let server = ServerWithNodes::start(3).await;
    server.fault("add dead-node lab-node-1");
    server.fault("add partition --nodes lab-node-2");
    for node in [1, 2] {
        eventually("the node's readiness is unknown", async || {
            server.condition(node, "Ready").await == "Unknown"
        })
        .await;
    }
    eventually("the third node is ready", async || server.condition(3, "Ready").await == "True").await;
    server.fault("clear");
    for node in [1, 2] {
        eventually("the node is ready again", async || server.condition(node, "Ready").await == "True").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_heavy_loss_become_unready() {
    let server = ServerWithNodes::start(1).await;
    server.fault("add lossy --rate 1");
    eventually("the node's readiness is unknown", async || server.condition(1, "Ready").await == "Unknown")
        .await;
    server.create_pod("patient", "web:1").await;
    server.fault("clear");
    eventually("the node is ready again", async || server.condition(1, "Ready").await == "True").await;
    eventually("the first pod runs", async || server.status("patient").await["phase"] == "Running").await;
    // A low rate of loss does not make nodes unready.
    server.fault("add lossy --rate 0.3");
    server.create_pod("unlucky", "web:1").await;
    eventually("the second pod runs", async || server.status("unlucky").await["phase"] == "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_latency_crashes_and_clock_skew() {
    let server = ServerWithNodes::start(2).await;
    let latency = Duration::from_secs(3);
    server.fault("add slow --latency 3s");
    // When this fault is visible, the earlier one is effective as well.
    server.fault("add full-node lab-node-2");
    eventually("the node reports disk pressure", async || {
        server.condition(2, "DiskPressure").await == "True"
    })
    .await;
    let start = Instant::now();
    server.create_pod("late", "web:1").await;
    eventually("the pod runs", async || server.status("late").await["phase"] == "Running").await;
    // The node observes the Pod late, and its status is late as well.
    assert!(start.elapsed() >= 2 * latency, "{:?}", start.elapsed());
    server.fault("clear");
    eventually("the node reports no disk pressure", async || {
        server.condition(2, "DiskPressure").await == "False"
    })
    .await;

    server.fault("add crash-loop --image bad:*");
    server.create_pod("bad", "bad:1").await;
    eventually("the container is restarted", async || {
        server.status("bad").await["containerStatuses"][0]["restartCount"].as_u64() > Some(0)
    })
    .await;
    server.fault("clear");
    eventually("the pod runs", async || server.status("bad").await["containerStatuses"][0]["ready"] == true)
        .await;

    let admin = server.admin();
    let is_ahead = async || {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/lab-node-1";
        let lease = admin.get(lease).await.expect(200);
        let renewed = time::parse(lease["spec"]["renewTime"].as_str().unwrap()).unwrap().seconds;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        renewed > now.cast_signed() + 1800
    };
    server.fault("add clock-skew +1h");
    eventually("the node's clock is ahead", is_ahead).await;
    server.fault("clear");
    eventually("the node's clock is correct", async || !is_ahead().await).await;

    let log = format!("{PODS}/late/log");
    assert_eq!(admin.get(&log).await.text(), "hello\n");
    server.fault("add dead-cluster");
    eventually("the kubelet does not respond", async || admin.get(&log).await.status != 200).await;
    server.fault("clear");
    eventually("the kubelet responds again", async || admin.get(&log).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_of_a_workspace_serve_logs() {
    let server = Atoll::start();
    let root = server.admin();
    succeed(atoll(&["workspace", "create", "team"]).env("KUBECONFIG", server.kubeconfig()));
    let kubeconfig = server.directory.join("team.kubeconfig");
    std::fs::copy(server.kubeconfig(), &kubeconfig).unwrap();
    succeed(atoll(&["workspace", "use", "team"]).env("KUBECONFIG", &kubeconfig));
    let file = kubeconfig.to_str().unwrap();
    let line = ["sim", "nodes", "--nodes", "1", "--name", "lab", "--scheduler", "--kubeconfig", file];
    let running = Process::start(&mut atoll(&line), "Simulating 1 nodes at https://").unwrap();
    let team = root.workspace("root:team");
    let pod = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": { "containers": [{
            "name": "main", "image": "one:1", "command": ["sh", "-c", "echo hello; sleep infinity"],
        }] } })
    };
    team.post(PODS, pod("one")).await.expect(201);
    let log = format!("{PODS}/one/log");
    eventually("the log is served", async || team.get(&log).await.text() == "hello\n").await;

    // The server trusts this kubelet only, whatever other addresses the workspace has in its nodes.
    let node = team.get("/api/v1/nodes/lab-node-1").await.expect(200);
    let mut forged = json!({ "metadata": { "name": "forged" }, "status": node["status"] });
    forged["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = server.address.port().into();
    team.post("/api/v1/nodes", forged.clone()).await.expect(201);
    team.merge("/api/v1/nodes/forged/status", json!({ "status": forged["status"] })).await.expect(200);
    let mut server = pod("two");
    server["spec"]["nodeName"] = "forged".into();
    team.post(PODS, server).await.expect(201);
    let refused = team.get(&format!("{PODS}/two/log")).await;
    assert!(matches!(refused.status, 400 | 403), "{}", refused.text());

    // `atoll sim nodes` removes the entry when it ends.
    let trusted_kubelets = "/api/v1/namespaces/atoll-system/configmaps?labelSelector=atoll.dev/kubelets";
    assert_eq!(root.get(trusted_kubelets).await.expect(200)["items"].as_array().unwrap().len(), 1);
    running.stop();
    assert_eq!(root.get(trusted_kubelets).await.expect(200)["items"].as_array().unwrap().len(), 0);
}
