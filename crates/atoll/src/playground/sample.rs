//! The application that a new playground has.

use atoll_client::{Client, PatchType};
use serde_json::{Value, json};

/// Puts it into a cluster. It greets from there.
pub async fn create(client: &Client, cluster: &str) -> Result<(), String> {
    for (path, object) in objects(cluster) {
        let path = format!("{path}?fieldManager=atoll-playground&force=true");
        let applied = client.patch(&path, PatchType::Apply, &object).await;
        applied.map_err(|status| format!("the sample application: {}", status.message()))?;
    }
    Ok(())
}

fn objects(cluster: &str) -> [(&'static str, Value); 3] {
    let labels = json!({ "app": "hello" });
    let metadata = json!({ "name": "hello", "namespace": "default", "labels": labels });
    let settings = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": { "greeting": format!("Hello from {cluster}") },
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
            "replicas": 3,
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
