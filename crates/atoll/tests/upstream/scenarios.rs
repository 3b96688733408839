//! What a cluster has to be able to do. Each scenario has a namespace of its own, so that all can run at once.

mod disruption;
mod garbage;
mod rollout;
mod services;
mod volumes;
mod workloads;

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Api, Done};
use crate::cluster::Cluster;

/// How many nodes there are.
pub const NODES: usize = 5;

/// How long one of them may take, whatever it waits for.
const LIMIT: Duration = Duration::from_secs(900);

type Scenario = for<'a> fn(&'a Api<'a>) -> Pin<Box<dyn Future<Output = Done> + 'a>>;

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), |api| Box::pin($module::$name(api)))),*]
    };
}

/// By name.
const ALL: &[(&str, Scenario)] = scenarios![
    rollout::deployment,
    workloads::stateful_set,
    workloads::daemon_set,
    workloads::job,
    workloads::cron_job,
    workloads::autoscaler,
    disruption::eviction,
    services::endpoint_slices,
    volumes::claim,
    garbage::background,
    garbage::foreground,
    garbage::orphan,
];

/// How a scenario ended.
pub struct Outcome {
    pub name: &'static str,
    pub result: Done,
    took: Duration,
}

impl Outcome {
    /// What went wrong, if anything did.
    pub fn failure(&self, server: &str) -> Option<String> {
        let problem = self.result.as_ref().err()?;
        Some(format!("{server}: {}: {problem}", self.name))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = if self.result.is_ok() { "works" } else { "FAILS" };
        out.pad(&format!("{:<28} {result} {:5.1} s", self.name, self.took.as_secs_f64()))
    }
}

/// All of them, at once; then their namespaces go.
pub async fn play(cluster: &Cluster) -> Vec<Outcome> {
    let ready = timed("nodes", nodes(cluster)).await;
    let chosen = chosen();
    let running = chosen.iter().map(|(name, scenario)| {
        timed(name, async move {
            let api = Api::within(cluster, namespace(name)).await?;
            scenario(&api).await
        })
    });
    let mut outcomes = vec![ready];
    outcomes.extend(futures_util::future::join_all(running).await);
    let emptied = chosen.iter().map(|(name, _)| async move {
        let api = Api::anywhere(cluster);
        let place = format!("/api/v1/namespaces/{}", namespace(name));
        api.delete(&place, "Background").await?;
        api.until_gone(&place).await
    });
    let emptying = async { futures_util::future::join_all(emptied).await.into_iter().collect::<Done>() };
    outcomes.push(timed("namespaces_go", emptying).await);
    outcomes
}

/// Those that `UPSTREAM_SCENARIOS` names, with commas between them, or all.
fn chosen() -> Vec<(&'static str, Scenario)> {
    let Ok(names) = std::env::var("UPSTREAM_SCENARIOS") else { return ALL.to_vec() };
    ALL.iter().filter(|(name, _)| names.split(',').any(|wanted| wanted == *name)).copied().collect()
}

/// With a digit: that is masked in complaints.
fn namespace(name: &'static str) -> &'static str {
    Box::leak(format!("{}-1", name.replace('_', "-")).into_boxed_str())
}

async fn timed(name: &'static str, scenario: impl Future<Output = Done>) -> Outcome {
    let begin = Instant::now();
    let result = tokio::time::timeout(LIMIT, scenario).await;
    let result = result.unwrap_or_else(|_| Err(format!("not done after {} s", LIMIT.as_secs())));
    Outcome { name, result, took: begin.elapsed() }
}

/// Nodes come and are ready.
async fn nodes(cluster: &Cluster) -> Done {
    let api = Api::anywhere(cluster);
    for number in 0..NODES {
        api.create("/api/v1/nodes", node(&format!("node-{number}"))).await?;
    }
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        let ready = conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        });
        // The controllers take it away once they have seen that the node is ready.
        ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    };
    api.until_count("nodes that are ready", "/api/v1/nodes", NODES, ready).await
}

pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
    }})
}

/// A pod template with one container.
pub fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    })
}

/// Whether it belongs to this application.
pub fn of(app: &str) -> impl Fn(&Value) -> bool {
    move |object| object["metadata"]["labels"]["app"] == app
}

/// Whether a pod of this application runs.
pub fn runs(app: &str) -> impl Fn(&Value) -> bool {
    move |pod| {
        of(app)(pod) && pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    }
}
