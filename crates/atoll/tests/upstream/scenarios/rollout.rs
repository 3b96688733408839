//! A Deployment with fifty replicas, changed with kubectl.

use serde_json::{Value, json};

use super::{is_of_app, template};
use crate::api::{Api, ScenarioResult};

const DEPLOYMENT: &str = "apps/v1 deployments/web";
const REPLICAS: usize = 50;

/// The Deployment is created, scaled, rolled out, rolled back and deleted.
pub async fn deployment(api: &Api<'_>) -> ScenarioResult {
    let mut template = template("web");
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    api.create("apps/v1 deployments", deployment).await?;
    api.until("a complete deployment", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    api.kubectl("scale deployment/web --replicas=60").await?;
    api.until("60 replicas", DEPLOYMENT, |object| complete(object, 60)).await?;
    api.kubectl("scale deployment/web --replicas=50").await?;
    api.until("50 replicas", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;

    api.kubectl("set image deployment/web main=example.com/main:2").await?;
    api.kubectl("rollout status deployment/web --timeout=240s").await?;
    let deployed =
        api.until("the new image everywhere", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    expect(&deployed["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2")?;
    let history = api.kubectl("rollout history deployment/web").await?;
    if history.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count() != 2 {
        return Err(format!("not two revisions: {history}"));
    }

    api.kubectl("rollout undo deployment/web").await?;
    api.kubectl("rollout status deployment/web --timeout=240s").await?;
    let back = api.until("the old image everywhere", DEPLOYMENT, |object| complete(object, REPLICAS)).await?;
    expect(&back["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/main:1")?;
    let sets = api.items("apps/v1 replicasets").await?;
    if sets.len() != 2 {
        return Err(format!("{} ReplicaSets instead of two", sets.len()));
    }

    api.kubectl("delete deployment/web --timeout=240s").await?;
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
