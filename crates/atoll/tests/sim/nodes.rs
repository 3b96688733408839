//! Nodes and what runs on them: they suffer, and recover.

use serde_json::{Value, json};

use crate::running::{Cluster, Running};
use crate::support::access::Access;
use crate::support::eventually;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": image }] },
        } },
    })
}

async fn available(admin: &Access, name: &str) -> u64 {
    let found = admin.get(&format!("{DEPLOYMENTS}/{name}")).await.expect(200);
    found["status"]["availableReplicas"].as_u64().unwrap_or(0)
}

/// The condition of a node.
async fn condition(admin: &Access, node: &str, kind: &str) -> String {
    let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_on_simulated_nodes() {
    let cluster = Cluster::start(&["--nodes=2", "--name=lab", "--region=r", "--zones=a,b", "--node-cpu=4"]);
    let admin = cluster.admin();
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
async fn an_image_that_crashes_runs_when_it_is_mended() {
    let cluster = Cluster::start(&["--nodes=1"]);
    let admin = cluster.admin();
    cluster.fault("add crash-loop --image bad:*");
    admin.post(DEPLOYMENTS, deployment("bad", "bad:1", 1)).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("good", "good:1", 1)).await.expect(201);
    eventually("others run", async || available(&admin, "good").await == 1).await;
    eventually("it is started again", async || {
        let pods = admin.get(&format!("{PODS}?labelSelector=app%3Dbad")).await.expect(200);
        pods["items"][0]["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0)
    })
    .await;
    cluster.fault("clear");
    eventually("it runs", async || available(&admin, "bad").await == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_says_so_until_there_is_room_again() {
    let cluster = Cluster::start(&["--nodes=1"]);
    let admin = cluster.admin();
    eventually("it is ready", async || admin.get("/api/v1/nodes/sim-node-1").await.status == 200).await;
    eventually("it is ready", async || condition(&admin, "sim-node-1", "Ready").await == "True").await;
    cluster.fault("add full-node sim-node-1");
    eventually("it is full", async || condition(&admin, "sim-node-1", "DiskPressure").await == "True").await;
    cluster.fault("clear");
    eventually("there is room", async || condition(&admin, "sim-node-1", "DiskPressure").await == "False")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_dead_or_cut_off_are_given_up_and_come_back() {
    // Leases are renewed every ten seconds, and machines that test are busy.
    let cluster = Cluster::start(&["--nodes=3", "--node-monitor-grace-period=25s"]);
    let admin = cluster.admin();
    let all = ["sim-node-1", "sim-node-2", "sim-node-3"];
    for node in all {
        eventually("it is there", async || admin.get(&format!("/api/v1/nodes/{node}")).await.status == 200)
            .await;
        eventually("it is ready", async || condition(&admin, node, "Ready").await == "True").await;
    }
    cluster.fault("add dead-node sim-node-1");
    cluster.fault("add partition --nodes sim-node-2");
    for node in &all[..2] {
        eventually("it is given up", async || condition(&admin, node, "Ready").await == "Unknown").await;
        eventually("it is tainted", async || {
            let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
            found["spec"]["taints"].to_string().contains("node.kubernetes.io/unreachable")
        })
        .await;
    }
    eventually("the third is well", async || condition(&admin, all[2], "Ready").await == "True").await;
    cluster.fault("clear");
    for node in &all[..2] {
        eventually("it is back", async || {
            let found = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
            condition(&admin, node, "Ready").await == "True" && found["spec"].get("taints").is_none()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_can_be_added_to_any_server() {
    let server = Cluster::start(&["--nodes=0", "--scheduler=false"]);
    let kubeconfig = server.kubeconfig();
    let at = ["sim", "nodes", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let line = [&at[..], &["--nodes", "2", "--name", "extra", "--scheduler"]].concat();
    let running = Running::start(&line, "Simulating 2 nodes at https://").unwrap();
    let admin = server.admin();
    eventually("it is there", async || admin.get("/api/v1/nodes/extra-node-2").await.status == 200).await;
    eventually("it is ready", async || condition(&admin, "extra-node-2", "Ready").await == "True").await;
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
