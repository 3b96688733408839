//! Somebody who does something in a namespace: what cannot be done is an error with the reason, and waiting ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::pods::is_true;

/// How long a cluster may take for one thing.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks: many look at once.
pub const PAUSE: Duration = Duration::from_millis(200);

pub struct Player {
    pub cluster: Arc<Cluster>,
    pub namespace: &'static str,
    client: Client,
}

pub type Done = Result<(), String>;

impl Player {
    /// Creates the namespace, once there are nodes for what will be in it.
    pub async fn within(cluster: Arc<Cluster>, namespace: &'static str) -> Result<Player, String> {
        let player = Player { client: cluster.client(), cluster, namespace };
        for node in player.cluster.missing_nodes() {
            // Another one may have been faster.
            drop(player.create("/api/v1/nodes", node).await);
        }
        player.until("nodes", "/api/v1/nodes", |list| ready_nodes(list) >= 2).await?;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        player.create("/api/v1/namespaces", object).await?;
        // Pods wait for it.
        player.until("the default ServiceAccount", "serviceaccounts/default", |_| true).await?;
        Ok(player)
    }

    /// `pods/a` is one in this namespace, `apps/v1 deployments/a` too; anything that begins with a slash is itself.
    fn path(&self, place: &str) -> String {
        self.cluster.path(&match place.split_once(' ') {
            _ if place.starts_with('/') => place.to_owned(),
            Some((version, rest)) => format!("/apis/{version}/namespaces/{}/{rest}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{place}", self.namespace),
        })
    }

    pub async fn create(&self, place: &str, object: Value) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("POST {path}"), self.client.post(&path, &object).await)
    }

    pub async fn merge(&self, place: &str, patch: Value) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("PATCH {path}"), self.client.patch(&path, "merge", &patch).await)
    }

    pub async fn get(&self, place: &str) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("GET {path}"), self.client.get(&path).await)
    }

    /// The items of a list.
    pub async fn items(&self, place: &str) -> Result<Vec<Value>, String> {
        Ok(self.get(place).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Looks at an object until it is as it should be.
    pub async fn until(
        &self,
        what: &str,
        place: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let (deadline, mut looks) = (Instant::now() + PATIENCE, tokio::time::interval(PAUSE));
        loop {
            looks.tick().await;
            let seen = self.get(place).await;
            match &seen {
                Ok(object) if condition(object) => return seen,
                _ if Instant::now() < deadline => {}
                Ok(object) => return Err(format!("waited in vain for {what}: {}", summary(object))),
                Err(problem) => return Err(format!("waited in vain for {what}: {problem}")),
            }
        }
    }

    /// Until a list of Pods has so many that fit.
    pub async fn until_pods(&self, what: &str, count: usize, fits: impl Fn(&Value) -> bool) -> Done {
        let number = |list: &Value| items(list).filter(|item| fits(item)).count();
        self.until(&format!("{count} {what}"), "pods", |list| number(list) == count).await.map(drop)
    }
}

pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn ready_nodes(list: &Value) -> usize {
    // The controllers take taints away once they have seen that the node is ready.
    let is_ready =
        |node: &&Value| is_true(node, "Ready") && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
    items(list).filter(is_ready).count()
}

fn good(what: &str, answer: Result<Answer, atoll_testkit::Error>) -> Result<Value, String> {
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

/// What is worth telling of an object that is not as it should be.
fn summary(object: &Value) -> String {
    let told = match object["items"].as_array() {
        Some(items) => format!("{} items, the first: {}", items.len(), items.first().unwrap_or(&Value::Null)),
        None => format!("spec {} status {}", object["spec"], object["status"]),
    };
    match told.char_indices().nth(1500) {
        Some((cut, _)) => format!("{}…", &told[..cut]),
        None => told,
    }
}
