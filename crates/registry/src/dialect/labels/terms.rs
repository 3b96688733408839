//! The conditions under which clusters accept objects whose labels name them.

use atoll_fleet::labels::cluster_labels;
use atoll_fleet::placement_refusal::{PlacementRefusal, placement_refusal};
use atoll_meta::object;
use bytes::Bytes;
use serde_json::Value;

use super::is_name;
use crate::Registry;
use crate::row::Row;

/// Whether a Cluster accepts new objects, from which workspaces, and with which Pod Security level.
#[derive(Clone, PartialEq)]
pub struct Terms {
    closed: Option<PlacementRefusal>,
    workspaces: Value,
    pod_security: Value,
}

impl Terms {
    pub fn of(stored: &Bytes) -> Terms {
        let cluster = atoll_meta::json::parse(stored).map(|parsed| parsed.value).unwrap_or_default();
        let spec = &cluster["spec"];
        let (workspaces, pod_security) = (spec["workspaces"].clone(), spec["podSecurity"].clone());
        Terms { closed: placement_refusal(&cluster), workspaces, pod_security }
    }
}

/// The result of a label that names a cluster.
pub struct LabelTarget<'a> {
    pub label: &'a str,
    pub cluster: &'a str,
    /// The uid of the Cluster, or the reason why it does not accept the object; `None` if there is no such
    /// Cluster.
    pub outcome: Option<Result<String, String>>,
}

impl Registry {
    /// The results of the labels of an object that name clusters which it is not on yet.
    pub fn label_targets<'a>(&self, row: &Row, workspace: &str, object: &'a Value) -> Vec<LabelTarget<'a>> {
        let target = |(label, cluster)| LabelTarget {
            label,
            cluster,
            outcome: self.admits(row, workspace, object, cluster),
        };
        cluster_labels(object).into_iter().map(target).collect()
    }

    /// Whether a cluster accepts an object that is not on it yet: its uid, or the reason why not.
    /// Cluster-scoped objects are placed only from the registering workspace.
    pub(super) fn admits(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
        name: &str,
    ) -> Option<Result<String, String>> {
        let registered = is_name(name).then(|| self.cluster(workspace, name, "")).flatten()?;
        if !row.namespaced && registered.workspace != workspace {
            return None;
        }
        let refusal = self
            .refusal_reason(workspace, &registered)
            .or_else(|| placement_refusal(&registered.cluster).map(|closed| closed.why()))
            .or_else(|| self.pod_security_violation(row, workspace, object, &registered));
        Some(match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(object::uid(&registered.cluster).to_string()),
        })
    }
}
