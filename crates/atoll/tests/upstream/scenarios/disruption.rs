//! Pods that a disruption budget protects.

use atoll_testkit::RequestContent;
use http::Method;
use serde_json::json;

use super::{is_running_of, template};
use crate::api::{Api, ScenarioResult};

/// A budget rejects an eviction, then allows one, and the pod is replaced.
pub async fn eviction(api: &Api) -> ScenarioResult {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kept"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "kept"}}, "template": template("kept")},
    });
    api.create("apps/v1 deployments", deployment).await?;
    api.until_count("pods that run", "pods", 3, is_running_of("kept")).await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "kept"}}},
    });
    api.create("policy/v1 poddisruptionbudgets", budget).await?;
    let place = "policy/v1 poddisruptionbudgets/kept";
    api.until("a budget that counts three", place, |object| {
        object["status"]["currentHealthy"] == 3 && object["status"]["disruptionsAllowed"] == 0
    })
    .await?;
    let pods = api.items("pods").await?;
    let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let evict = || {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let path = format!("pods/{name}/eviction");
        async move { api.send(Method::POST, &path, RequestContent::Json(eviction)).await }
    };
    let refused = evict().await?;
    if refused.status != 429 {
        return Err(format!("an eviction that the budget forbids: {} {}", refused.status, refused.text()));
    }
    api.merge(place, json!({"spec": {"minAvailable": 2}})).await?;
    api.until("one allowed disruption", place, |object| object["status"]["disruptionsAllowed"] == 1).await?;
    let allowed = evict().await?;
    if allowed.status != 201 {
        return Err(format!("an eviction that the budget allows: {} {}", allowed.status, allowed.text()));
    }
    api.until_gone(&format!("pods/{name}")).await?;
    api.until_count("pods that run", "pods", 3, is_running_of("kept")).await
}
