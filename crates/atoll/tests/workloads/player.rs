//! A user who acts in a namespace of a cluster.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::Api;
use crate::cluster::Cluster;
use crate::pods::is_true;

/// The timeout for a single condition.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Player {
    pub cluster: Arc<Cluster>,
    api: Api,
}

pub use crate::api::ScenarioResult as PlayResult;

impl Deref for Player {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Player {
    /// Creates the namespace once there are ready nodes.
    pub async fn within(cluster: Arc<Cluster>, namespace: &'static str) -> Result<Player, String> {
        let api = Api::new(&cluster.admin, cluster.kubectl.clone(), namespace, TIMEOUT);
        for node in cluster.missing_nodes() {
            // Another scenario may have created it.
            drop(api.create("/api/v1/nodes", node).await);
        }
        api.until("nodes", "/api/v1/nodes", |list| ready_nodes(list) >= 2).await?;
        api.create_namespace().await?;
        Ok(Player { cluster, api })
    }

    /// Polls until this many Pods match.
    pub async fn until_pods(&self, what: &str, count: usize, fits: impl Fn(&Value) -> bool) -> PlayResult {
        self.until_count(what, "pods", count, fits).await
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
