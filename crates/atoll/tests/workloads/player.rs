//! A client that acts in a namespace: failures are errors with a reason, and waiting times out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_testkit::{ApiResponse, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::pods::is_true;

/// The timeout for a single condition.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// The polling interval. Many scenarios poll at the same time.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub struct Player {
    pub cluster: Arc<Cluster>,
    pub namespace: &'static str,
    client: Client,
}

pub type PlayResult = Result<(), String>;

impl Player {
    /// Creates the namespace once there are ready nodes.
    pub async fn within(cluster: Arc<Cluster>, namespace: &'static str) -> Result<Player, String> {
        let player = Player { client: cluster.client(), cluster, namespace };
        for node in player.cluster.missing_nodes() {
            // Another scenario may have created it.
            drop(player.create("/api/v1/nodes", node).await);
        }
        player.until("nodes", "/api/v1/nodes", |list| ready_nodes(list) >= 2).await?;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        player.create("/api/v1/namespaces", object).await?;
        // Pods need it.
        player.until("the default ServiceAccount", "serviceaccounts/default", |_| true).await?;
        Ok(player)
    }

    /// Returns the path of `pods/a` or `apps/v1 deployments/a` in this namespace. Paths with a leading slash
    /// are returned unchanged.
    fn path(&self, resource: &str) -> String {
        self.cluster.path(&match resource.split_once(' ') {
            _ if resource.starts_with('/') => resource.to_owned(),
            Some((version, rest)) => format!("/apis/{version}/namespaces/{}/{rest}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{resource}", self.namespace),
        })
    }

    pub async fn create(&self, resource: &str, object: Value) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("POST {path}"), self.client.post(&path, &object).await)
    }

    pub async fn merge(&self, resource: &str, patch: Value) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("PATCH {path}"), self.client.patch(&path, "merge", &patch).await)
    }

    pub async fn get(&self, resource: &str) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("GET {path}"), self.client.get(&path).await)
    }

    /// Returns the items of a list.
    pub async fn items(&self, resource: &str) -> Result<Vec<Value>, String> {
        Ok(self.get(resource).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Polls an object until a condition holds.
    pub async fn until(
        &self,
        what: &str,
        resource: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let (deadline, mut ticks) = (Instant::now() + TIMEOUT, tokio::time::interval(POLL_INTERVAL));
        loop {
            ticks.tick().await;
            let seen = self.get(resource).await;
            match &seen {
                Ok(object) if condition(object) => return seen,
                _ if Instant::now() < deadline => {}
                Ok(object) => return Err(format!("timed out waiting for {what}: {}", summary(object))),
                Err(problem) => return Err(format!("timed out waiting for {what}: {problem}")),
            }
        }
    }

    /// Polls until this many Pods match.
    pub async fn until_pods(&self, what: &str, count: usize, fits: impl Fn(&Value) -> bool) -> PlayResult {
        let number = |list: &Value| items(list).filter(|item| fits(item)).count();
        self.until(&format!("{count} {what}"), "pods", |list| number(list) == count).await.map(drop)
    }
}

pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn ready_nodes(list: &Value) -> usize {
    // The controllers remove taints once they have observed that the node is ready.
    let is_ready =
        |node: &&Value| is_true(node, "Ready") && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
    items(list).filter(is_ready).count()
}

fn checked(what: &str, answer: Result<ApiResponse, atoll_testkit::ClientError>) -> Result<Value, String> {
    match answer {
        Ok(answer) if answer.status < 300 => Ok(answer.json()),
        Ok(answer) => {
            let body = answer.json();
            let message = body["message"].as_str().map_or(answer.text(), str::to_owned);
            Err(format!("{what}: {} {message}", answer.status))
        }
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Returns the parts of an object that are useful in an error message.
fn summary(object: &Value) -> String {
    let text = match object["items"].as_array() {
        Some(items) => format!("{} items, the first: {}", items.len(), items.first().unwrap_or(&Value::Null)),
        None => format!("spec {} status {}", object["spec"], object["status"]),
    };
    match text.char_indices().nth(1500) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
