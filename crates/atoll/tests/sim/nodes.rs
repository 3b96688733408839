//! Nodes and their Pods with faults, and their recovery.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Process, atoll};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": image }] },
        } },
    })
}

async fn available(admin: &Client, name: &str) -> u64 {
    let found = admin.get(&format!("{DEPLOYMENTS}/{name}")).await.expect(200);
    found["status"]["availableReplicas"].as_u64().unwrap_or(0)
}

/// Returns the status of a node's condition.
async fn condition(admin: &Client, node: &str, kind: &str) -> String {
    let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_string()
}

/// Waits until a node is ready and schedulable.
async fn wait_until_ready(admin: &Client, node: &str) {
    let path = format!("/api/v1/nodes/{node}");
    eventually("the node exists", async || admin.get(&path).await.status == 200).await;
    eventually("the node is ready", async || condition(admin, node, "Ready").await == "True").await;
    eventually("the node has no taint", async || {
        admin.get(&path).await.expect(200)["spec"].get("taints").is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_on_simulated_nodes() {
    let cluster = Atoll::simulate(&["--nodes=2", "--name=lab", "--region=r", "--zones=a,b", "--node-cpu=4"]);
    let admin = cluster.admin();
    // Pods that are created before a node is ready are scheduled to others.
    for node in ["lab-node-1", "lab-node-2"] {
        wait_until_ready(&admin, node).await;
    }
    admin.post(DEPLOYMENTS, deployment("web", "web:1", 4)).await.expect(201);
    eventually("all replicas are available", async || available(&admin, "web").await == 4).await;
    let pods = admin.get(PODS).await.expect(200);
    let nodes: std::collections::BTreeSet<&str> =
        pods["items"].as_array().unwrap().iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["lab-node-1", "lab-node-2"]);
    let node = admin.get("/api/v1/nodes/lab-node-2").await.expect(200);
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/region"], "r");
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "b");
    assert_eq!(node["status"]["allocatable"]["cpu"], "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn crashing_image_runs_after_the_fault_ends() {
    let cluster = Atoll::simulate(&["--nodes=1"]);
    let admin = cluster.admin();
    cluster.fault("add crash-loop --image bad:*");
    admin.post(DEPLOYMENTS, deployment("bad", "bad:1", 1)).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("good", "good:1", 1)).await.expect(201);
    eventually("the other Deployment is available", async || available(&admin, "good").await == 1).await;
    eventually("the container is restarted", async || {
        let pods = admin.get(&format!("{PODS}?labelSelector=app%3Dbad")).await.expect(200);
        pods["items"][0]["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0)
    })
    .await;
    cluster.fault("clear");
    eventually("the Deployment is available", async || available(&admin, "bad").await == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_node_reports_disk_pressure_until_the_fault_ends() {
    let cluster = Atoll::simulate(&["--nodes=1"]);
    let admin = cluster.admin();
    wait_until_ready(&admin, "sim-node-1").await;
    cluster.fault("add full-node sim-node-1");
    eventually("the node reports disk pressure", async || {
        condition(&admin, "sim-node-1", "DiskPressure").await == "True"
    })
    .await;
    cluster.fault("clear");
    eventually("the node reports no disk pressure", async || {
        condition(&admin, "sim-node-1", "DiskPressure").await == "False"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_and_partitioned_nodes_are_evicted_and_recover() {
    // Leases are renewed every ten seconds, and test machines are busy.
    let cluster = Atoll::simulate(&["--nodes=3", "--node-monitor-grace-period=25s"]);
    let admin = cluster.admin();
    let all = ["sim-node-1", "sim-node-2", "sim-node-3"];
    for node in all {
        wait_until_ready(&admin, node).await;
    }
    cluster.fault("add dead-node sim-node-1");
    cluster.fault("add partition --nodes sim-node-2");
    for node in &all[..2] {
        eventually("the node's readiness is unknown", async || {
            condition(&admin, node, "Ready").await == "Unknown"
        })
        .await;
        eventually("the node is tainted", async || {
            let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
            found["spec"]["taints"].to_string().contains("node.kubernetes.io/unreachable")
        })
        .await;
    }
    eventually("the third node is ready", async || condition(&admin, all[2], "Ready").await == "True").await;
    cluster.fault("clear");
    for node in &all[..2] {
        eventually("the node is ready and untainted", async || {
            let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
            condition(&admin, node, "Ready").await == "True" && found["spec"].get("taints").is_none()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_can_be_added_to_any_server() {
    let server = Atoll::simulate(&["--nodes=0", "--scheduler=false"]);
    let kubeconfig = server.kubeconfig();
    let at = ["sim", "nodes", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let line = [&at[..], &["--nodes", "2", "--name", "extra", "--scheduler"]].concat();
    let running = Process::start(&mut atoll(&line), "Simulating 2 nodes at https://").unwrap();
    let admin = server.admin();
    wait_until_ready(&admin, "extra-node-2").await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one" },
        "spec": { "containers": [{ "name": "main", "image": "one:1" }] },
    });
    admin.post(PODS, pod).await.expect(201);
    eventually("the pod runs", async || {
        admin.get(&format!("{PODS}/one")).await.expect(200)["status"]["phase"] == "Running"
    })
    .await;
    running.stop();
}
