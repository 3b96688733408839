//! What belongs to something that was deleted.

use serde_json::json;

use super::{runs, template};
use crate::api::{Api, Done};

const PLACE: &str = "apps/v1 replicasets/owner";

async fn owner(api: &Api<'_>) -> Done {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "owner"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "owned"}}, "template": template("owned")},
    });
    api.create("apps/v1 replicasets", object).await?;
    api.until_count("pods that run", "pods", 3, runs("owned")).await
}

/// The owner goes at once, its pods soon.
pub async fn background(api: &Api<'_>) -> Done {
    owner(api).await?;
    api.delete(PLACE, "Background").await?;
    api.until_gone(PLACE).await?;
    api.until_count("pods left", "pods", 0, |_| true).await
}

/// The owner goes last.
pub async fn foreground(api: &Api<'_>) -> Done {
    owner(api).await?;
    let deleted = api.delete(PLACE, "Foreground").await?;
    if deleted["metadata"]["finalizers"] != json!(["foregroundDeletion"]) {
        return Err(format!("no finalizer in {}", deleted["metadata"]));
    }
    api.until_gone(PLACE).await?;
    let left = api.items("pods").await?.len();
    if left == 0 { Ok(()) } else { Err(format!("{left} pods outlive their owner")) }
}

/// The pods stay, without an owner, and a new one adopts them.
pub async fn orphan(api: &Api<'_>) -> Done {
    owner(api).await?;
    let before = api.items("pods").await?;
    api.delete(PLACE, "Orphan").await?;
    api.until_gone(PLACE).await?;
    let free = |pod: &serde_json::Value| {
        runs("owned")(pod) && pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    };
    api.until_count("pods without an owner", "pods", 3, free).await?;
    owner(api).await?;
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
