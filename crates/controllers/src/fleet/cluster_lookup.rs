//! Finds the clusters that a workspace can use, and whether their last reports are current.

use std::sync::Arc;

use atoll_fleet::placed_condition::Health;
use atoll_fleet::placement_refusal::{ClusterChoice, is_fenced, placement_refusal};
use atoll_fleet::workspaces::may_use;
use atoll_fleet::{ClusterView, pod_security};
use atoll_informer::{ApiScope, Cache, Key, Resource};
use atoll_meta::object;
use serde_json::Value;

use crate::context::Intents;

/// Reason under which the reports of a cluster that is not ready are still current.
const CURRENT: &str = "Flapping";

pub struct ClusterLookup {
    pub clusters: Arc<Cache>,
    pub api: ApiScope,
    pub intents: Intents,
}

impl ClusterLookup {
    /// Returns the cluster that would accept an unplaced object. The namespace's pod security level is not
    /// known here; a placement that violates it is refused.
    pub fn choice(&self, resource: (&str, &str), object: &Value) -> ClusterChoice {
        let mut found: Vec<(String, Option<String>)> = Vec::new();
        let workspace = Key::of(object).workspace;
        for (id, path) in self.api.ancestry(&workspace) {
            for cluster in self.clusters.list(&id, "") {
                let name = object::name(&cluster).to_string();
                if !may_use(&cluster, &path) || found.iter().any(|(nearer, _)| *nearer == name) {
                    continue;
                }
                let refusal = placement_refusal(&cluster)
                    .map(|closed| closed.short())
                    .or_else(|| pod_security::refusal(&cluster, path.is_empty(), |_| None, resource, object));
                if refusal.is_none() {
                    return ClusterChoice::Accepts(name);
                }
                found.push((name, refusal));
            }
        }
        ClusterChoice::among(found)
    }

    /// Returns advice for an object that is not placed.
    pub fn advice(&self, resource: &Resource, object: &Value) -> String {
        let workspace = Key::of(object).workspace;
        let is_missing = |name: &str| self.health(&workspace, name, "") == Health::Missing;
        if let Some((source, name)) = (self.intents)(object).into_iter().find(|(_, name)| is_missing(name)) {
            return format!("its {source} names the cluster {name:?}, which does not exist");
        }
        let choice = self.choice((&resource.group, &resource.plural), object);
        choice.advice(&resource.kind, object::namespace(object), object::name(object)).unwrap_or_else(|| {
            "no cluster has joined; join one with: atoll cluster join NAME --kubeconfig FILE".to_string()
        })
    }

    /// Returns the health of the cluster with this name and uid; without a uid, of the nearest one with that
    /// name.
    pub fn health(&self, workspace: &str, name: &str, uid: &str) -> Health {
        let ancestry = self.api.ancestry(workspace);
        let matches_uid = |cluster: &Arc<Value>| uid.is_empty() || object::uid(cluster) == uid;
        let found = ancestry
            .iter()
            .find_map(|(id, _)| self.clusters.get(&Key::new(id, "", name)).filter(matches_uid));
        found.map_or(Health::Missing, |cluster| health(&cluster))
    }
}

/// Properties of a cluster that decide whether it accepts unplaced objects, and from which workspaces.
#[derive(PartialEq)]
pub struct AcceptanceTerms {
    closed: Option<String>,
    workspaces: Option<Vec<Value>>,
    pod_security: Option<String>,
}

impl AcceptanceTerms {
    pub fn of(cluster: &Value) -> AcceptanceTerms {
        let view = ClusterView::of(cluster);
        AcceptanceTerms {
            closed: placement_refusal(cluster).map(|closed| closed.short()),
            workspaces: view.workspaces().map(<[Value]>::to_vec),
            pod_security: view.pod_security().map(String::from),
        }
    }
}

/// Returns the health of a cluster, which affects the status of objects placed on it.
pub fn health(cluster: &Value) -> Health {
    if is_fenced(cluster) {
        return Health::NotReady("the cluster is fenced: nothing counts as running there".to_string());
    }
    match ClusterView::of(cluster).condition("Ready") {
        Some(ready) if !ready.is_true() && ready.reason() != CURRENT => {
            Health::NotReady(format!("the cluster is not ready: {}: {}", ready.reason(), ready.message()))
        }
        // Without a health controller, the reports of clusters count.
        _ => Health::Ready,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn not_ready_clusters_have_no_current_reports() {
        let cluster = |status: &str, reason: &str| {
            json!({ "status": { "conditions": [
                { "type": "Ready", "status": status, "reason": reason, "message": "m" },
            ] } })
        };
        let not_ready = |reason: &str| Health::NotReady(format!("the cluster is not ready: {reason}: m"));
        for (cluster, expected) in [
            (json!({}), Health::Ready),
            (cluster("True", "Synced"), Health::Ready),
            (cluster("False", "Flapping"), Health::Ready),
            (cluster("False", "SyncerSilent"), not_ready("SyncerSilent")),
            (cluster("Unknown", "NeverHeardOf"), not_ready("NeverHeardOf")),
        ] {
            assert_eq!(health(&cluster), expected, "{cluster}");
        }
    }
}
