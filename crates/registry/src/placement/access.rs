//! What a Cluster asks of those who place objects on it: which workspaces may, and which Pod Security level pods must meet.

use std::collections::HashSet;
use std::sync::Arc;

use atoll_fleet::closed::{Choice, closed};
use atoll_fleet::{Placement, pod_security, workspaces};
use atoll_meta::{Status, object};
use atoll_store::Key;
use atoll_watch::{Object, Scope};
use serde_json::Value;

use crate::Registry;
use crate::catalog::ATOLL;
use crate::row::Row;

/// A Cluster, and where it is registered.
pub struct Registered {
    /// Id of the workspace.
    pub workspace: String,
    pub cluster: Value,
}

impl Registry {
    /// The Cluster that a placement in a workspace means: the one with this uid or, if none is given, the nearest of that name.
    pub fn cluster(&self, workspace: &str, name: &str, uid: &str) -> Option<Registered> {
        let snapshot = self.snapshot();
        self.line(workspace).into_iter().find_map(|workspace| {
            let found = snapshot.get(&Key::object(ATOLL, "clusters", &workspace, "", name))?;
            let cluster = crate::parse(&found.json()).ok()?;
            (uid.is_empty() || object::uid(&cluster) == uid).then_some(Registered { workspace, cluster })
        })
    }

    /// The Clusters that placements in a workspace can name, the nearest first. Of several with one name, placements mean the
    /// nearest, so the others are left out.
    pub fn in_reach(&self, workspace: &str) -> impl Iterator<Item = Registered> + use<> {
        let snapshot = self.snapshot();
        let mut found: Vec<(String, Arc<Object>)> = Vec::new();
        let mut names = HashSet::new();
        for workspace in self.line(workspace) {
            let scope = Scope::new(ATOLL, "clusters", Some(&workspace), Some(""));
            for cluster in snapshot.list(&scope, None) {
                if names.insert(cluster.name().to_string()) {
                    found.push((workspace.clone(), cluster));
                }
            }
        }
        found.into_iter().filter_map(|(workspace, cluster)| {
            let cluster = crate::parse(&cluster.json()).ok()?;
            Some(Registered { workspace, cluster })
        })
    }

    /// Whether a Cluster lets objects of a workspace be placed on it, see `spec.workspaces`.
    pub fn serves(&self, workspace: &str, registered: &Registered) -> bool {
        let path = self.placements.lineage.path(&registered.workspace, workspace);
        path.is_some_and(|path| workspaces::may_use(&registered.cluster, &path))
    }

    /// Which Cluster takes an object of a workspace that is on none yet.
    pub fn choice(&self, row: &Row, workspace: &str, object: &Value) -> Choice {
        // What is in no namespace goes down only from where the cluster is registered.
        let is_meant =
            |one: &Registered| (row.namespaced || one.workspace == workspace) && self.serves(workspace, one);
        Choice::among(self.in_reach(workspace).filter(is_meant).map(|registered| {
            let refusal = closed(&registered.cluster).map(|closed| closed.short());
            let refusal = refusal.or_else(|| self.violates(row, workspace, object, &registered));
            (object::name(&registered.cluster).to_string(), refusal)
        }))
    }

    /// Why objects of a workspace cannot be placed anew on a Cluster, if so.
    pub fn closed(&self, workspace: &str, registered: &Registered) -> Option<String> {
        if self.serves(workspace, registered) {
            return None;
        }
        let path = self.placements.lineage.path(&registered.workspace, workspace);
        let path = path.as_deref().unwrap_or(workspace);
        Some(format!(
            "the cluster does not serve workspace {path}; an administrator of the workspace in which the cluster is registered \
             adds it to spec.workspaces of the Cluster"
        ))
    }

    /// What an object's pod template violates of what a Cluster asks of pods of its namespace.
    pub fn violates(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
        registered: &Registered,
    ) -> Option<String> {
        let namespace = Key::object("", "namespaces", workspace, "", object::namespace(object));
        let namespace = self.snapshot().get(&namespace);
        let label = |key: &str| namespace.as_ref().and_then(|namespace| namespace.facts.label(key));
        let is_registered_there = registered.workspace == workspace;
        let resource = (row.group.as_str(), row.resource.as_str());
        pod_security::refusal(&registered.cluster, is_registered_there, label, resource, object)
    }

    /// Refuses an update that gives an object on clusters a pod template which one of them does not allow. What has not changed
    /// stays allowed: a stricter level stops nothing that runs.
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
            if let Some(violation) = self.violates(row, workspace, new, &registered) {
                return Err(Status::forbidden(&row.group, &row.resource, object::name(old), violation));
            }
        }
        Ok(())
    }
}
