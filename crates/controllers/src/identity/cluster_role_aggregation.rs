//! ClusterRole aggregation: updates the rules of aggregated roles when a role of the workspace changes.

// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go

use std::sync::Arc;

use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, list_and_watch, resources};
use atoll_meta::aggregation::{aggregate_rules, differs};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::context::Context;

const MANAGER: &str = "clusterrole-aggregation-controller";
/// Number of workspaces that are processed concurrently.
const WORKERS: usize = 8;

pub async fn run(context: Context) {
    let (api, queue) = (context.api(), Queue::new());
    let controller = Arc::new(Controller { api: api.clone() });
    // Bootstrap roles are already aggregated, and appear in the watch only after a change.
    let following = list_and_watch(api, ListWatch::all(&resources::CLUSTER_ROLES), |event| {
        if let ListWatchEvent::Upserted(role) | ListWatchEvent::Deleted(role) = event {
            // Any role of the workspace may aggregate the changed one, so all are processed together.
            queue.add(Key::of(&role).in_workspace(""));
        }
    });
    let working = queue.work("cluster roles", WORKERS, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key.workspace).await }
    });
    tokio::join!(following, working);
}

struct Controller {
    api: ApiScope,
}

impl Controller {
    async fn sync(&self, workspace: &str) -> Result<Next, Status> {
        match self.gather(workspace).await {
            Ok(()) => Ok(Next::Done),
            // The workspace is being deleted, or is gone.
            Err(status) if matches!(status.reason(), "NotFound" | "Forbidden") => Ok(Next::Done),
            Err(status) => Err(status),
        }
    }

    /// Aggregates once. Roles that aggregate aggregated roles are processed when those have changed.
    async fn gather(&self, workspace: &str) -> Result<(), Status> {
        let all = self.api.list(&resources::CLUSTER_ROLES, workspace, "", false).await?;
        for role in &all {
            let name = object::name(role);
            match aggregate_rules(role, &all) {
                Ok(Some(rules)) if differs(role, &rules) => self.apply(workspace, name, &rules).await?,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(
                        error,
                        workspace,
                        role = name,
                        "aggregating the rules of a cluster role failed"
                    );
                }
            }
        }
        Ok(())
    }

    async fn apply(&self, workspace: &str, name: &str, rules: &[Value]) -> Result<(), Status> {
        let configuration = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": rules,
        });
        let (roles, key) = (&resources::CLUSTER_ROLES, Key::new(workspace, "", name));
        self.api.apply(roles, &key, MANAGER, &configuration).await.map(drop)
    }
}
