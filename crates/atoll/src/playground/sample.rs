//! The sample application of a new playground.

use atoll_client::{Client, PatchType};
use atoll_placement::intent::ANNOTATION;
use serde_json::{Value, json};

/// Replicas per cluster.
const REPLICAS_PER_CLUSTER: usize = 3;

/// Creates the application in the control plane. The scheduler places the Deployment; its ConfigMap and
/// its Service are its dependents.
pub async fn create(client: &Client, clusters: &[&str]) -> Result<(), String> {
    for (path, object) in objects(clusters) {
        let applying = format!("{path}?fieldManager=atoll-playground&force=true");
        let applied = client.patch(&applying, PatchType::Apply, &object).await;
        applied.map_err(|status| format!("the sample application: {}", status.message()))?;
    }
    Ok(())
}

fn objects(clusters: &[&str]) -> [(&'static str, Value); 3] {
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
    let mut divided = metadata.clone();
    if !clusters.is_empty() {
        let weights: Vec<String> = clusters.iter().map(|name| format!("{name}=1")).collect();
        divided["annotations"] = json!({ ANNOTATION: weights.join(",") });
    }
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": divided,
        "spec": {
            "replicas": REPLICAS_PER_CLUSTER * clusters.len(),
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
