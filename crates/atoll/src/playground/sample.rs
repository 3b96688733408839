//! The sample application of a new playground.

use atoll_client::{Client, PatchType};
use serde_json::{Value, json};

/// Replicas per cluster.
const REPLICAS_PER_CLUSTER: usize = 3;

/// Creates the application in the control plane and places it on all clusters.
pub async fn create(client: &Client, clusters: &[&str]) -> Result<(), String> {
    for (path, object) in objects(clusters.len()) {
        let applying = format!("{path}?fieldManager=atoll-playground&force=true");
        let applied = client.patch(&applying, PatchType::Apply, &object).await;
        applied.map_err(|status| format!("the sample application: {}", status.message()))?;
        // Dependents are placed automatically.
        let shares: Vec<Value> = match object["kind"].as_str() {
            Some("Deployment") => clusters
                .iter()
                .map(|name| json!({ "name": name, "replicas": REPLICAS_PER_CLUSTER }))
                .collect(),
            Some("Service") => clusters.iter().map(|name| json!({ "name": name })).collect(),
            _ => continue,
        };
        let placement = json!({ "spec": { "clusters": shares, "force": true } });
        let placed = client.patch(&format!("{path}/placement"), PatchType::Merge, &placement).await;
        placed.map_err(|status| format!("placing the sample application: {}", status.message()))?;
    }
    Ok(())
}

fn objects(clusters: usize) -> [(&'static str, Value); 3] {
    let labels = json!({ "app": "hello" });
    let metadata = json!({ "name": "hello", "namespace": "default", "labels": labels });
    let settings = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": { "greeting": "Hello from wherever I was placed" },
    });
    let container = json!({
        "name": "hello",
        "image": "nginx:1.29",
        "ports": [{ "name": "http", "containerPort": 80 }],
        "envFrom": [{ "configMapRef": { "name": "hello" } }],
        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
    });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": REPLICAS_PER_CLUSTER * clusters,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": { "selector": labels, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] },
    });
    [
        ("/api/v1/namespaces/default/configmaps/hello", settings),
        ("/apis/apps/v1/namespaces/default/deployments/hello", deployment),
        ("/api/v1/namespaces/default/services/hello", service),
    ]
}
