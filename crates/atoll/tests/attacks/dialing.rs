//! Workspaces below root can name addresses in many objects. For them, the control plane never connects to
//! its own addresses or to a metadata service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fake_cluster::{FakeCluster, condition};

/// Creates a workspace below root.
async fn workspace(control_plane: &Atoll) -> Client {
    let root = control_plane.admin();
    let made =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    root.post("/apis/atoll.dev/v1alpha1/workspaces", made).await.expect(201);
    let team = root.workspace("root:team");
    eventually("the workspace is there", async || team.get("/api/v1/namespaces/default").await.status == 200)
        .await;
    team
}

/// Listens on a local port. Returns the port and the number of connections accepted so far.
async fn start_listener() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    (port, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_tenants_do_not_reach_local_addresses() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let team = workspace(&control_plane).await;
    let hidden = FakeCluster::start("hidden").await;
    hidden.register(&team, "hidden").await;
    eventually("the address is rejected", async || {
        let [status, reason, message] = condition(&team, "hidden", "Ready").await;
        let is_refused = status == "False" && reason == "AddressRefused";
        if is_refused {
            assert!(
                message.contains("a loopback address") && message.contains("--allow-tenant-addresses"),
                "{message}"
            );
        }
        is_refused
    })
    .await;
    assert_eq!(hidden.connections.load(Ordering::Relaxed), 0);
    // Administrators of root may use such addresses.
    hidden.register(&control_plane.admin(), "seen").await;
    eventually("root reaches the cluster", async || {
        condition(&control_plane.admin(), "seen", "Ready").await[0] == "True"
    })
    .await;
    clusters_of_tenants_reach_allowed_addresses().await;
}

async fn clusters_of_tenants_reach_allowed_addresses() {
    let setup =
        Setup::new().flag("--cluster-grace-period", 12).variable("ATOLL_ALLOW_TENANT_ADDRESSES", "true");
    let control_plane = setup.start();
    let team = workspace(&control_plane).await;
    let near = FakeCluster::start("near").await;
    near.register(&team, "near").await;
    eventually("the cluster is ready", async || condition(&team, "near", "Ready").await[0] == "True").await;
}

fn node(name: &str, kind: &str, address: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "status": {
        "addresses": [{ "type": kind, "address": address }],
    } })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_pods_of_tenants_do_not_reach_local_addresses() {
    let control_plane = Setup::new().flag("--controllers", false).start();
    let team = workspace(&control_plane).await;
    let (port, count) = start_listener().await;
    let pods = "/api/v1/namespaces/default/pods";
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    team.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    for (name, kind, address, why) in [
        ("loopback", "InternalIP", "127.0.0.1", "a loopback address"),
        ("other-loopback", "InternalIP", "127.8.9.10", "a loopback address"),
        ("mapped", "InternalIP", "::ffff:127.0.0.1", "a loopback address"),
        ("named", "Hostname", "localhost", "a loopback address (localhost is "),
        ("unspecified", "InternalIP", "0.0.0.0", "an unspecified address"),
        ("metadata", "InternalIP", "169.254.169.254", "a link-local address"),
        ("alibaba", "InternalIP", "100.100.100.200", "a metadata service"),
        ("aws", "InternalIP", "fd00:ec2::254", "a metadata service"),
    ] {
        team.post("/api/v1/nodes", node(name, kind, address)).await.expect(201);
        let mut status = node(name, kind, address)["status"].clone();
        status["daemonEndpoints"] = json!({ "kubeletEndpoint": { "Port": port } });
        team.merge(&format!("/api/v1/nodes/{name}/status"), json!({ "status": status })).await.expect(200);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": name, "containers": [{ "name": "c", "image": "i" }] },
        });
        team.post(pods, pod).await.expect(201);
        for path in [
            format!("{pods}/{name}/log"),
            format!("/api/v1/nodes/{name}/proxy/"),
            format!("/api/v1/nodes/{name}:{port}/proxy/"),
        ] {
            let answer = team.get(&path).await.expect(403);
            let message = answer["message"].as_str().unwrap();
            assert!(
                message.contains(why) && message.contains("--allow-tenant-addresses"),
                "{path}: {message}"
            );
        }
        // A tenant can also write the address into the status of a pod.
        let ip: Option<std::net::IpAddr> = address.parse().ok();
        if let Some(ip) = ip.filter(|_| name == "alibaba" || name == "aws") {
            let status = json!({ "status": { "podIP": ip, "podIPs": [{ "ip": ip }] } });
            team.merge(&format!("{pods}/{name}/status"), status).await.expect(200);
            let answer = team.get(&format!("{pods}/{name}:{port}/proxy/")).await.expect(403);
            assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
        }
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
}
