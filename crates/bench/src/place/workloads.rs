//! The Deployments of the benchmark, and the policies that place them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::{Target, unexpected_response};
use crate::error::{BenchError, BenchResult};

/// Path of all Deployments.
pub const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const POLICIES: &str = "/apis/atoll.dev/v1alpha1/clusterplacementpolicies";
const POLICY: &str = "bench";
/// Label of namespaces in which the policy applies.
const LABEL: &str = "example.com/divided";
/// Label of clusters by which weights are given.
pub const GROUP: &str = "example.com/group";
pub const GROUPS: [&str; 2] = ["a", "b"];
/// Clusters of each Deployment under the policy.
pub const SHARES: u32 = 3;
/// Replicas of each Deployment.
const REPLICAS: usize = 6;
/// Deployments in a namespace.
const PER_NAMESPACE: usize = 200;
/// Connections that create objects.
const WRITERS: usize = 16;

/// The source of the decision about a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    Policy,
    Default,
}

impl DecidedBy {
    fn namespace(self, index: usize) -> String {
        let kind = if self == DecidedBy::Policy { "divided" } else { "default" };
        format!("{kind}-{:04}", index / PER_NAMESPACE)
    }
}

/// Path of the namespaced collection that has a workload.
pub fn collection(by: DecidedBy, index: usize) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", by.namespace(index))
}

/// Creates the namespaces of `workloads` workloads.
pub async fn create_namespaces(target: &Target, by: DecidedBy, workloads: usize) -> BenchResult<()> {
    for index in (0..workloads).step_by(PER_NAMESPACE) {
        let labels = json!({ LABEL: (by == DecidedBy::Policy).to_string() });
        let metadata = json!({ "name": by.namespace(index), "labels": labels });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }).to_string();
        target.call("POST", "/api/v1/namespaces", &namespace).await?;
    }
    Ok(())
}

/// Creates Deployments with the numbers from `first` on, as fast as possible.
pub async fn create(target: &Target, by: DecidedBy, first: usize, count: usize) -> BenchResult<()> {
    let (next, mut writers) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..WRITERS {
        let (target, next) = (target.clone(), next.clone());
        writers.spawn(async move {
            let mut connection = target.connect().await?;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                let (path, body) = (collection(by, index), deployment(first + index).to_string());
                let request = target.request("POST", &path, &body);
                let (answer, body) = connection.exchange_with_body(&request).await?;
                if answer.status != 201 {
                    return Err(unexpected_response("POST", &path, answer, &body));
                }
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.map_err(|error| BenchError::Machine(error.to_string()))??;
    }
    Ok(())
}

/// A Deployment as people write them: two containers with probes, ports, environment and requests.
pub fn deployment(number: usize) -> Value {
    let name = format!("w-{number:08}");
    let labels = json!({ "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench" });
    let probe = json!({ "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 });
    let requests = json!({ "cpu": "10m", "memory": "16Mi" });
    let main = json!({
        "name": "main",
        "image": "example/app:1.2.3",
        "ports": [{ "name": "http", "containerPort": 8080 }],
        "env": [{ "name": "LOG", "value": "info" }, { "name": "REGION", "value": "west" }],
        "readinessProbe": probe,
        "livenessProbe": probe,
        "resources": { "requests": requests, "limits": { "memory": "64Mi" } },
    });
    let proxy = json!({ "name": "proxy", "image": "example/proxy:4", "args": ["--to", "8080"], "resources": { "requests": requests } });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [main, proxy] } },
        },
    })
}

/// The policy that keeps workloads in the control plane, or divides them by weights of the two groups.
pub fn policy(weights: Option<[i64; 2]>) -> Value {
    let replicas = match weights {
        None => json!({ "division": "None" }),
        Some(weights) => {
            let weight = |(group, weight): (&str, i64)| json!({ "selector": { "matchLabels": { GROUP: group } }, "weight": weight });
            let weights: Vec<Value> = GROUPS.into_iter().zip(weights).map(weight).collect();
            json!({ "division": "Weighted", "weights": weights })
        }
    };
    json!({
        "apiVersion": "atoll.dev/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": { "name": POLICY },
        "spec": {
            "objects": [{ "kind": "Deployment" }],
            "namespaceSelector": { "matchLabels": { LABEL: "true" } },
            "replicas": replicas,
            "bounds": { "maxClusters": SHARES },
            "failover": { "after": "1s" },
        },
    })
}

/// Creates or replaces the policy.
pub async fn apply_policy(target: &Target, policy: &Value) -> BenchResult<()> {
    let path = format!("{POLICIES}/{POLICY}?fieldManager=bench&force=true");
    apply(&mut target.connect().await?, target, &path, policy).await
}

/// Applies an object on the server side.
pub async fn apply(
    connection: &mut crate::connection::Connection,
    target: &Target,
    path: &str,
    object: &Value,
) -> BenchResult<()> {
    let request = target.request_of("application/apply-patch+yaml", "PATCH", path, &object.to_string());
    let (answer, body) = connection.exchange_with_body(&request).await?;
    match answer.status {
        200 | 201 => Ok(()),
        _ => Err(unexpected_response("PATCH", path, answer, &body)),
    }
}
