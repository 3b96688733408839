//! Services and their endpoints.

use serde_json::{Value, json};

use super::template;
use crate::api::{Api, ScenarioResult};

/// A Service's EndpointSlices follow its pods, and are deleted with it.
pub async fn endpoint_slices(api: &Api) -> ScenarioResult {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "back"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "back"}}, "template": template("back")},
    });
    api.create("apps/v1 deployments", deployment).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "back"},
        "spec": {"selector": {"app": "back"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let service = api.create("services", service).await?;
    if !service["spec"]["clusterIP"].is_string() {
        return Err(format!("no address: {}", service["spec"]));
    }
    let slices = "discovery.k8s.io/v1 endpointslices?labelSelector=kubernetes.io/service-name=back";
    api.until("four endpoints", slices, |list| ready(list) == 4).await?;
    api.until("four addresses", "endpoints/back", |object| {
        object["subsets"][0]["addresses"].as_array().is_some_and(|addresses| addresses.len() == 4)
    })
    .await?;
    api.merge("apps/v1 deployments/back", json!({"spec": {"replicas": 2}})).await?;
    api.until("two endpoints", slices, |list| ready(list) == 2).await?;
    api.delete("services/back", "Background").await?;
    api.until("no slices", slices, |list| list["items"].as_array().is_some_and(Vec::is_empty)).await.map(drop)
}

/// Counts endpoints that are ready and not terminating.
fn ready(slices: &Value) -> usize {
    let endpoints = slices["items"].as_array().into_iter().flatten();
    let endpoints = endpoints.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
}
