//! Access to Clusters: the workspaces that may use one, and the Pod Security level that pods must meet.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_fleet::cluster::ClusterView;
use atoll_fleet::placement_refusal::{ClusterChoice, placement_refusal};
use atoll_fleet::{Placement, pod_security, workspaces};
use atoll_meta::{Status, object};
use atoll_store::Key;
use serde_json::Value;

use crate::Registry;
use crate::row::{Row, SharedRow};

/// Number of Clusters that are considered for an advice.
const MAX_CONSIDERED: usize = 100;

/// A Cluster and its registering workspace.
pub struct RegisteredCluster {
    /// Id of the registering workspace.
    pub workspace: String,
    /// Its fields that decide about placements.
    pub cluster: Arc<Value>,
}

impl Registry {
    /// A placeable object and its row.
    pub(super) fn placeable_object(&self, key: &Key) -> Result<Option<(SharedRow, Value)>, Status> {
        let Some((parts, found)) = key.parts().zip(self.snapshot().get(key)) else { return Ok(None) };
        let found = crate::parse(&found.json())?;
        let version = object::api_version(&found).rsplit('/').next().unwrap_or_default();
        let row = self.find_stored(&parts, version);
        Ok(row.filter(|row| super::is_placeable(row)).map(|row| (row, found)))
    }

    /// The Cluster to which a placement in a workspace refers: the one with this uid or, if none is given,
    /// the nearest one of that name.
    pub fn cluster(&self, workspace: &str, name: &str, uid: &str) -> Option<RegisteredCluster> {
        self.ancestry(workspace).into_iter().find_map(|workspace| {
            let cluster = self.placements.clusters.get(&workspace, name)?;
            (uid.is_empty() || object::uid(&cluster) == uid)
                .then_some(RegisteredCluster { workspace, cluster })
        })
    }

    /// The Cluster of this name that is registered in a workspace.
    pub fn own_cluster(&self, workspace: &str, name: &str) -> Option<Arc<Value>> {
        self.placements.clusters.get(workspace, name)
    }

    /// The Clusters to which placements in a workspace can refer, nearest first, up to a number. Only the nearest
    /// Cluster of each name is included.
    pub fn reachable_clusters(&self, workspace: &str, most: usize) -> Vec<RegisteredCluster> {
        let (ancestry, known) = (self.ancestry(workspace), &self.placements.clusters);
        let mut found = Vec::new();
        for (above, workspace) in ancestry.iter().enumerate() {
            let is_nearest =
                |name: &str| !ancestry[..above].iter().any(|nearer| known.contains(nearer, name));
            let own = known.list(workspace, most - found.len(), is_nearest).into_iter();
            found.extend(own.map(|cluster| RegisteredCluster { workspace: workspace.clone(), cluster }));
        }
        found
    }

    /// Whether objects of a workspace may be placed on a Cluster, see `spec.workspaces`.
    pub fn cluster_serves(&self, workspace: &str, registered: &RegisteredCluster) -> bool {
        let path = self.placements.workspaces.path(&registered.workspace, workspace);
        path.is_some_and(|path| workspaces::may_use(&registered.cluster, &path))
    }

    /// The Cluster for an object that is not placed yet.
    pub fn cluster_choice(&self, row: &Row, workspace: &str, object: &Value) -> ClusterChoice {
        // Cluster-scoped objects are placed only from the registering workspace.
        let is_meant = |one: &RegisteredCluster| {
            (row.namespaced || one.workspace == workspace) && self.cluster_serves(workspace, one)
        };
        let reachable = self.reachable_clusters(workspace, MAX_CONSIDERED).into_iter();
        // Only the first refusal is shown, and many clusters require the same Pod Security level.
        let mut violations: HashMap<(Option<String>, bool), Option<String>> = HashMap::new();
        ClusterChoice::among(reachable.filter(is_meant).map(|registered| {
            let refusal = placement_refusal(&registered.cluster).map(|closed| closed.short());
            let refusal = refusal.or_else(|| {
                let level = ClusterView::of(&registered.cluster).pod_security().map(str::to_owned);
                let rule = (level, registered.workspace == workspace);
                let violation = violations.entry(rule);
                violation
                    .or_insert_with(|| self.pod_security_violation(row, workspace, object, &registered))
                    .clone()
            });
            (object::name(&registered.cluster).to_string(), refusal)
        }))
    }

    /// The reason why objects of a workspace cannot be placed on a Cluster, if there is one.
    pub fn refusal_reason(&self, workspace: &str, registered: &RegisteredCluster) -> Option<String> {
        if self.cluster_serves(workspace, registered) {
            return None;
        }
        let path = self.placements.workspaces.path(&registered.workspace, workspace);
        let path = path.as_deref().unwrap_or(workspace);
        Some(format!(
            "the cluster does not serve workspace {path}; an administrator of the workspace in which the cluster is registered \
             adds it to spec.workspaces of the Cluster"
        ))
    }

    /// The violation of a Cluster's Pod Security level by an object's pod template.
    pub fn pod_security_violation(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
        registered: &RegisteredCluster,
    ) -> Option<String> {
        let namespace = Key::object("", "namespaces", workspace, "", object::namespace(object));
        let namespace = self.snapshot().get(&namespace);
        let label = |key: &str| namespace.as_ref().and_then(|namespace| namespace.facts.label(key));
        let is_registered_there = registered.workspace == workspace;
        let resource = (row.group.as_str(), row.resource.as_str());
        pod_security::refusal(&registered.cluster, is_registered_there, label, resource, object)
    }

    /// Refuses an update of a placed object whose new pod template is not allowed by one of its clusters. An
    /// unchanged template stays allowed: a stricter level does not stop running pods.
    pub(crate) fn check_template(
        &self,
        row: &Row,
        workspace: &str,
        new: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        if !pod_security::changes_template(&row.group, &row.resource, new, old) {
            return Ok(());
        }
        for share in Placement::of(old).clusters {
            let Some(registered) = self.cluster(workspace, &share.name, &share.uid) else { continue };
            if let Some(violation) = self.pod_security_violation(row, workspace, new, &registered) {
                return Err(Status::forbidden(&row.group, &row.resource, object::name(old), violation));
            }
        }
        Ok(())
    }
}
