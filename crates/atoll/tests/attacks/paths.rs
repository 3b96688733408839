//! Names in a tenant's objects stay single segments of the paths that controllers request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::bindings::{TenantServer, create_tenant_workspace};
use crate::definitions::tenant;
use crate::proxied_pages::own_address;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
/// More than a controller processes at once.
const MANY: usize = 24;

/// Returns namespaces that would be paths: to a response that never ends, to everything, to something else.
fn paths() -> impl Iterator<Item = &'static str> {
    ["default/configmaps?watch=true&x=", "default/configmaps?watch=true#", "..", "default%2Fpods", "x y"]
        .into_iter()
        .cycle()
}

fn volume(name: &str, reference: Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/tmp/a" },
            "storageClassName": "", "claimRef": reference,
        },
    })
}

async fn wait_for_phase(client: &Client, path: &str, phase: &str) {
    let found = async || client.get(path).await.expect(200)["status"]["phase"] == phase;
    eventually(&format!("{path} is {phase}"), found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_reference_of_a_volume_is_no_path() {
    let server = TenantServer::start(&["owner"], &[("--grain", "pod")]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    for (number, namespace) in (0..MANY).zip(paths()) {
        let reference = json!({ "namespace": namespace, "name": "x", "uid": "u" });
        tenant.post(VOLUMES, volume(&format!("v{number}"), reference)).await.expect(201);
    }
    for (number, name) in ["", "..", "a/b", "a?watch=true"].into_iter().enumerate() {
        let reference = json!({ "namespace": "default", "name": name, "uid": "u" });
        tenant.post(VOLUMES, volume(&format!("n{number}"), reference)).await.expect(201);
    }
    // No such claim can exist, and volumes of other workspaces are bound.
    admin.post(VOLUMES, volume("free", Value::Null)).await.expect(201);
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    admin.post(CLAIMS, claim).await.expect(201);
    wait_for_phase(&admin, &format!("{CLAIMS}/data"), "Bound").await;
    for number in 0..MANY {
        wait_for_phase(&tenant, &format!("{VOLUMES}/v{number}"), "Released").await;
    }
}

/// The response of a Pod would name another workspace, in which the controller would write an Event.
#[tokio::test(flavor = "multi_thread")]
async fn claim_reference_of_a_volume_reaches_no_proxy() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let atoll = Setup::new().flag("--grain", "pod").arguments(&["--allow-tenant-addresses"]).start();
    let (admin, tenant) = (atoll.admin(), tenant(&atoll, "team", json!({})).await);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually("pods can be created", async || tenant.get(account).await.status == 200).await;
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        let annotations = json!({ "atoll.dev/workspace-id": "root", "atoll.dev/grain": "pod" });
        let claim = json!({
            "metadata": { "uid": "u", "namespace": "default", "annotations": annotations },
            "spec": { "volumeMode": "Block" },
        });
        let claim = claim.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            claim.len()
        );
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{claim}").as_bytes()).await;
        }
    });
    let pod = json!({
        "metadata": { "name": "evil" },
        "spec": { "nodeName": "node", "containers": [{ "name": "main", "image": "app" }] },
    });
    tenant.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    let status = json!({ "status": { "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }] } });
    tenant.merge("/api/v1/namespaces/default/pods/evil/status", status).await.expect(200);
    let proxied = format!("default/pods/http:evil:{port}/proxy");
    tenant.get(&format!("/api/v1/namespaces/{proxied}/")).await.expect(200);
    assert_eq!(connections.load(Ordering::Relaxed), 1, "the Pod responds");

    let reference = json!({ "namespace": format!("{proxied}/?x="), "name": "x", "uid": "u" });
    tenant.post(VOLUMES, volume("v", reference)).await.expect(201);
    wait_for_phase(&tenant, &format!("{VOLUMES}/v"), "Released").await;
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    let events = admin.get("/api/v1/namespaces/default/events").await.expect(200);
    let is_of_volume = |event: &&Value| event["reason"] == "VolumeMismatch";
    assert_eq!(events["items"].as_array().unwrap().iter().find(is_of_volume), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_of_a_cluster_is_no_path() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    let cluster = |name: &str, namespace: &str| {
        json!({
            "metadata": { "name": name },
            "spec": { "mode": "push", "credentials": { "secret": { "namespace": namespace, "name": "x" } } },
        })
    };
    for (number, namespace) in (0..MANY).zip(paths()) {
        tenant.post(CLUSTERS, cluster(&format!("c{number}"), namespace)).await.expect(201);
    }
    admin.post(CLUSTERS, cluster("prod", "atoll-system")).await.expect(201);
    let is_missing = async |client: &Client, name: &str| {
        let found = client.get(&format!("{CLUSTERS}/{name}")).await.expect(200);
        let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["reason"] == "CredentialsMissing")
    };
    eventually("the syncer of another workspace works", async || is_missing(&admin, "prod").await).await;
    for number in 0..MANY {
        let name = format!("c{number}");
        eventually("the Cluster says what is missing", async || is_missing(&tenant, &name).await).await;
    }
}
