//! Every write that makes an object larger counts for the limits of its workspace.

use atoll_testkit::{Atoll, atoll as command, succeed};
use serde_json::{Value, json};

use crate::definitions::tenant;
use crate::protected_metadata::create_service_account;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const EXCEEDED: &str = "exceeded workspace limit";

#[tokio::test(flavor = "multi_thread")]
async fn bindings_count_for_the_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({ "bytes": "2Mi" })).await;
    create_service_account(&tenant).await;
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    for name in &names {
        let pod = json!({
            "metadata": { "name": name }, "spec": { "containers": [{ "name": "main", "image": "app" }] },
        });
        tenant.post(PODS, pod).await.expect(201);
    }
    let mut bound = 0;
    for name in &names {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": name, "annotations": { "filler": "x".repeat(500_000) } },
            "target": { "kind": "Node", "name": "node" },
        });
        let answer = tenant.post(&format!("{PODS}/{name}/binding"), binding).await;
        if answer.status == 201 {
            bound += 1;
            continue;
        }
        let message = answer.expect_status(403, "Forbidden");
        assert!(message.contains(EXCEEDED), "{message}");
        let pod = tenant.get(&format!("{PODS}/{name}")).await.expect(200);
        assert_eq!(pod["spec"]["nodeName"], Value::Null);
    }
    assert!(bound < 5, "bound {bound} pods with 500 kB each");
}

#[tokio::test(flavor = "multi_thread")]
async fn placements_count_for_the_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({ "bytes": "600Ki" })).await;
    let names: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
    for name in &names {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "mode": "none" } });
        tenant.post(CLUSTERS, cluster).await.expect(201);
    }
    let shares: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    let placement = json!({ "spec": { "clusters": shares } });
    let maps: Vec<String> = (0..100).map(|number| format!("m{number}")).collect();
    for name in &maps {
        tenant.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
    }
    let mut refused = 0;
    for name in &maps {
        let placed = tenant.merge(&format!("{}/placement", config_map(name)), &placement).await;
        if placed.status == 403 {
            let message = placed.expect_status(403, "Forbidden");
            assert!(message.contains(EXCEEDED), "{message}");
            refused += 1;
        }
    }
    assert!(refused > 0, "all of them are placed");
    // Changes that make objects smaller are always possible.
    let nowhere = json!({ "spec": { "clusters": [] } });
    tenant.merge(&format!("{}/placement", config_map("m0")), nowhere).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_count_for_the_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({ "bytes": "2Mi" })).await;
    let amounts: Value = (0..64)
        .map(|number| (format!("{}.com/{number}{}", "x".repeat(50), "y".repeat(60)), json!("1")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let heartbeat = json!({ "heartbeat": {
        "free": vec![amounts; 64], "kubernetesVersion": "v1", "syncer": { "instance": "a", "version": "1" },
    } });
    for number in 0..20 {
        let cluster = json!({ "metadata": { "name": format!("c{number}") }, "spec": { "mode": "none" } });
        tenant.post(CLUSTERS, cluster).await.expect(201);
    }
    for number in 0..20 {
        tenant.post(&format!("/services/sync/c{number}"), &heartbeat).await.expect(200);
    }
    let clusters = tenant.get(CLUSTERS).await;
    let size = clusters.body.len();
    assert!(size < 3 << 20, "the Clusters have {size} bytes");
    // All of them are alive.
    for cluster in clusters.json()["items"].as_array().unwrap() {
        assert_eq!(cluster["status"]["kubernetesVersion"], "v1", "{cluster}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_clusters_count_for_the_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({ "objects": 60 })).await;
    let id = atoll.admin().get("/apis/atoll.dev/v1alpha1/workspaces/team").await.expect(200)["status"]["id"]
        .clone();
    let cluster = json!({ "metadata": { "name": "own" }, "spec": { "mode": "none" } });
    tenant.post(CLUSTERS, cluster).await.expect(201);
    let map = tenant.post(CONFIG_MAPS, config_map_with("placed", "1")).await.expect(201);
    let placement = json!({ "spec": { "clusters": [{ "name": "own" }] } });
    tenant.merge(&format!("{}/placement", config_map("placed")), placement).await.expect(200);
    let event = |number: usize| {
        json!({
            "resource": { "version": "v1", "resource": "configmaps", "kind": "ConfigMap" },
            "workspace": id, "namespace": "default", "name": "placed", "uid": map["metadata"]["uid"],
            "id": format!("e{number}"), "event": { "reason": "Flood", "message": "from below", "type": "Normal" },
        })
    };
    for batch in 0..10 {
        let events: Vec<Value> = (batch * 10..batch * 10 + 10).map(event).collect();
        tenant.post("/services/sync/own", json!({ "events": events })).await;
    }
    let events = tenant.get("/api/v1/namespaces/default/events").await.expect(200);
    let count = events["items"].as_array().unwrap().len();
    assert!(count > 0 && count < 60, "{count} events");
    let refused = tenant.post(CONFIG_MAPS, config_map_with("one-more", "1")).await;
    let message = refused.expect_status(403, "Forbidden");
    assert!(message.contains(EXCEEDED), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_sealed_fields_count_for_the_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({ "bytes": "2Mi" })).await;
    let mut enable = command(&["dialect", "enable", "kcp", "--workspace", "root:team"]);
    succeed(enable.env("KUBECONFIG", atoll.kubeconfig()).stdin(std::process::Stdio::null()));
    let clusters = "/apis/workload.kcp.dev/v1alpha1/clusters";
    let mut created = 0;
    for number in 0..20 {
        let cluster = json!({
            "apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": format!("c{number}") },
            "spec": { "kubeconfig": "x".repeat(500_000) },
        });
        let answer = tenant.post(clusters, cluster).await;
        if answer.status == 201 {
            created += 1;
            continue;
        }
        let message = answer.expect_status(403, "Forbidden");
        assert!(message.contains(EXCEEDED), "{message}");
    }
    assert!(created > 0 && created < 5, "created {created} clusters with sealed kubeconfigs of 500 kB each");
    let secrets = tenant.get("/api/v1/namespaces/atoll-system/secrets").await.expect(200);
    assert!(secrets.to_string().len() < 4 << 20);
}
