//! The abilities that a cluster needs. Each scenario has its own namespace, so that all can run at the same
//! time.

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

use crate::api::{Api, ScenarioResult};
use crate::cluster::Cluster;

/// The number of nodes.
pub const NODES: usize = 5;

/// The timeout for a single condition.
const TIMEOUT: Duration = Duration::from_secs(240);
/// The timeout of one scenario.
const LIMIT: Duration = Duration::from_secs(900);

type Scenario = for<'a> fn(&'a Api) -> Pin<Box<dyn Future<Output = ScenarioResult> + 'a>>;

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), |api| Box::pin($module::$name(api)))),*]
    };
}

/// All scenarios by name.
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

/// The result of a scenario.
pub struct ScenarioOutcome {
    pub name: &'static str,
    pub result: ScenarioResult,
    duration: Duration,
}

impl ScenarioOutcome {
    /// Returns a message if the scenario failed.
    pub fn failure(&self, server: &str) -> Option<String> {
        let problem = self.result.as_ref().err()?;
        Some(format!("{server}: {}: {problem}", self.name))
    }
}

impl fmt::Display for ScenarioOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = if self.result.is_ok() { "works" } else { "FAILS" };
        out.pad(&format!("{:<28} {result} {:5.1} s", self.name, self.duration.as_secs_f64()))
    }
}

/// Runs all scenarios at the same time, then deletes their namespaces.
pub async fn run_scenarios(cluster: &Cluster) -> Vec<ScenarioOutcome> {
    let ready = timed("nodes", create_nodes(cluster)).await;
    let selected = selected_scenarios();
    let running = selected.iter().map(|(name, scenario)| {
        timed(name, async move {
            let api = api(cluster, namespace(name));
            api.create_namespace().await?;
            scenario(&api).await
        })
    });
    let mut outcomes = vec![ready];
    outcomes.extend(futures_util::future::join_all(running).await);
    let deletions = selected.iter().map(|(name, _)| async move {
        let api = api(cluster, "default");
        let place = format!("/api/v1/namespaces/{}", namespace(name));
        api.delete(&place, "Background").await?;
        api.until_gone(&place).await
    });
    let deleting =
        async { futures_util::future::join_all(deletions).await.into_iter().collect::<ScenarioResult>() };
    outcomes.push(timed("namespaces_go", deleting).await);
    outcomes
}

/// Returns the scenarios that `UPSTREAM_SCENARIOS` names, separated by commas, or all.
fn selected_scenarios() -> Vec<(&'static str, Scenario)> {
    let Ok(names) = std::env::var("UPSTREAM_SCENARIOS") else { return ALL.to_vec() };
    ALL.iter().filter(|(name, _)| names.split(',').any(|wanted| wanted == *name)).copied().collect()
}

fn api(cluster: &Cluster, namespace: &'static str) -> Api {
    Api::new(&cluster.admin(), Some(cluster.kubectl.clone()), namespace, TIMEOUT)
}

/// Returns a namespace with a digit in its name, which is masked in log messages.
fn namespace(name: &'static str) -> &'static str {
    Box::leak(format!("{}-1", name.replace('_', "-")).into_boxed_str())
}

async fn timed(name: &'static str, scenario: impl Future<Output = ScenarioResult>) -> ScenarioOutcome {
    let start = Instant::now();
    let result = tokio::time::timeout(LIMIT, scenario).await;
    let result = result.unwrap_or_else(|_| Err(format!("not done after {} s", LIMIT.as_secs())));
    ScenarioOutcome { name, result, duration: start.elapsed() }
}

/// Creates nodes and waits until they are ready.
async fn create_nodes(cluster: &Cluster) -> ScenarioResult {
    let api = api(cluster, "default");
    for number in 0..NODES {
        api.create("/api/v1/nodes", node(&format!("node-{number}"))).await?;
    }
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        let ready = conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        });
        // The controllers remove the taints once they have observed that the node is ready.
        ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    };
    api.until_count("nodes that are ready", "/api/v1/nodes", NODES, ready).await
}

pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
    }})
}

/// Returns a pod template with one container.
pub fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    })
}

/// Returns a predicate for objects of this application.
pub fn is_of_app(app: &str) -> impl Fn(&Value) -> bool {
    move |object| object["metadata"]["labels"]["app"] == app
}

/// Returns a predicate for running pods of this application.
pub fn is_running_of(app: &str) -> impl Fn(&Value) -> bool {
    move |pod| {
        is_of_app(app)(pod)
            && pod["status"]["phase"] == "Running"
            && pod["metadata"]["deletionTimestamp"].is_null()
    }
}
