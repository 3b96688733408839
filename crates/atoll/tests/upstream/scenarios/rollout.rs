//! A Deployment with fifty replicas, changed with kubectl.

use serde_json::{Value, json};

use super::{is_of_app, template};
use crate::api::{Api, ScenarioResult};

const DEPLOYMENT: &str = "apps/v1 deployments/web";
const REPLICAS: usize = 50;

/// The Deployment is created, scaled, rolled out, rolled back and deleted.
pub async fn deployment(api: &Api) -> ScenarioResult {
    let mut template = template("web");
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    api.create("apps/v1 deployments", deployment).await?;
    api.until("a complete deployment", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    kubectl(api, "scale deployment/web --replicas=60").await?;
    api.until("60 replicas", DEPLOYMENT, |object| complete(object, 60)).await?;
    kubectl(api, "scale deployment/web --replicas=50").await?;
    api.until("50 replicas", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;

    kubectl(api, "set image deployment/web main=example.com/main:2").await?;
    kubectl(api, "rollout status deployment/web --timeout=240s").await?;
    let deployed =
        api.until("the new image everywhere", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    expect(&deployed["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2")?;
    let history = kubectl(api, "rollout history deployment/web").await?;
    if history.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count() != 2 {
        return Err(format!("not two revisions: {history}"));
    }

    kubectl(api, "rollout undo deployment/web").await?;
    kubectl(api, "rollout status deployment/web --timeout=240s").await?;
    let back = api.until("the old image everywhere", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    expect(&back["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/main:1")?;
    let sets = api.items("apps/v1 replicasets").await?;
    if sets.len() != 2 {
        return Err(format!("{} ReplicaSets instead of two", sets.len()));
    }

    kubectl(api, "delete deployment/web --timeout=240s").await?;
    api.until_count("replica sets left", "apps/v1 replicasets", 0, |_| true).await?;
    api.until_count("pods left", "pods", 0, is_of_app("web")).await
}

/// Returns whether the latest generation is observed and all replicas are updated and available.
fn complete(deployment: &Value, replicas: usize) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|name| status[name] == replicas)
}

fn expect(value: &Value, expected: &str) -> ScenarioResult {
    if value == expected { Ok(()) } else { Err(format!("{value} instead of {expected:?}")) }
}

/// Runs kubectl with a timeout for each request.
async fn kubectl(api: &Api, line: &str) -> Result<String, String> {
    Ok(api.kubectl(&format!("--request-timeout=120s {line}")).await?.unwrap_or_default())
}
