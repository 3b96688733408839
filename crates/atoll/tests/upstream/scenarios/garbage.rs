//! Garbage collection of owned objects.

use serde_json::json;

use super::{is_running_of, template};
use crate::api::{Api, ScenarioResult};

const OWNER: &str = "apps/v1 replicasets/owner";

async fn create_owner(api: &Api) -> ScenarioResult {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "owner"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "owned"}}, "template": template("owned")},
    });
    api.create("apps/v1 replicasets", object).await?;
    api.until_count("pods that run", "pods", 3, is_running_of("owned")).await
}

/// Background deletion: the owner is deleted first, its pods afterwards.
pub async fn background(api: &Api) -> ScenarioResult {
    create_owner(api).await?;
    api.delete(OWNER, "Background").await?;
    api.until_gone(OWNER).await?;
    api.until_count("pods left", "pods", 0, |_| true).await
}

/// Foreground deletion: the owner is deleted last.
pub async fn foreground(api: &Api) -> ScenarioResult {
    create_owner(api).await?;
    let deleted = api.delete(OWNER, "Foreground").await?;
    if deleted["metadata"]["finalizers"] != json!(["foregroundDeletion"]) {
        return Err(format!("no finalizer in {}", deleted["metadata"]));
    }
    api.until_gone(OWNER).await?;
    let left = api.items("pods").await?.len();
    if left == 0 { Ok(()) } else { Err(format!("{left} pods outlive their owner")) }
}

/// Orphaning: the pods are kept without an owner, and a new ReplicaSet adopts them.
pub async fn orphan(api: &Api) -> ScenarioResult {
    create_owner(api).await?;
    let before = api.items("pods").await?;
    api.delete(OWNER, "Orphan").await?;
    api.until_gone(OWNER).await?;
    let free = |pod: &serde_json::Value| {
        is_running_of("owned")(pod) && pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    };
    api.until_count("pods without an owner", "pods", 3, free).await?;
    create_owner(api).await?;
    let owned = |pod: &serde_json::Value| pod["metadata"]["ownerReferences"][0]["name"] == "owner";
    api.until_count("pods that are adopted", "pods", 3, owned).await?;
    let names = |pods: &[serde_json::Value]| {
        let mut names: Vec<String> = pods.iter().map(|pod| pod["metadata"]["name"].to_string()).collect();
        names.sort();
        names
    };
    let after = api.items("pods").await?;
    match names(&before) == names(&after) {
        true => Ok(()),
        false => Err(format!("other pods: {:?} instead of {:?}", names(&after), names(&before))),
    }
}
