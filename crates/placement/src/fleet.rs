//! The fleet as decisions see it: clusters, and the ledger of their capacity.

use std::sync::Arc;

use crate::cluster::{CapacityReport, ClusterState};
use crate::demand::{Needs, ObjectKey};
use crate::resources::Resources;

/// All clusters of a control plane with the ledger. A clone is cheap enough to try something out on.
#[derive(Clone, Debug, Default)]
pub struct Fleet {}

impl Fleet {
    pub fn new() -> Fleet {
        Fleet::default()
    }

    /// Adds a cluster, or replaces its state. Its report and what is reserved there stay.
    pub fn set_cluster(&mut self, state: ClusterState) {
        let _ = state;
    }

    /// Removes a cluster with everything that is reserved there.
    pub fn remove_cluster(&mut self, uid: &str) {
        let _ = uid;
    }

    /// Sets the last report of a cluster; ignored if the cluster is not known.
    pub fn set_report(&mut self, uid: &str, report: Arc<CapacityReport>) {
        let _ = (uid, report);
    }

    /// Sets what an object takes: replicas by uid of the cluster, instead of everything that was set for it
    /// before. Of each share, what the report of its cluster does not count as bound is reserved.
    pub fn reserve(&mut self, object: &ObjectKey, needs: &Arc<Needs>, shares: &[(Arc<str>, i64)]) {
        let _ = (object, needs, shares);
    }

    /// Forgets an object.
    pub fn forget(&mut self, uid: &str) {
        let _ = uid;
    }

    pub fn cluster(&self, uid: &str) -> Option<&ClusterState> {
        let _ = uid;
        None
    }

    /// All clusters, in the order of registration.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterState> {
        std::iter::empty()
    }

    /// Clusters that serve a workspace, by its path, in the order of registration.
    pub fn serving<'a>(&'a self, workspace_path: &'a str) -> impl Iterator<Item = &'a ClusterState> {
        let _ = workspace_path;
        std::iter::empty()
    }

    /// The cluster that a name means in a workspace: the nearest of this name.
    pub fn named(&self, workspace_path: &str, name: &str) -> Option<&ClusterState> {
        let _ = (workspace_path, name);
        None
    }

    /// What is free on a cluster less what is reserved there; `None` before its first report.
    pub fn free(&self, uid: &str) -> Option<Resources> {
        let _ = uid;
        None
    }

    /// Number of further pods with these needs that fit the nodes and limits of a cluster; `None` before
    /// its first report.
    pub fn fits(&self, uid: &str, needs: &Needs) -> Option<i64> {
        let _ = (uid, needs);
        None
    }
}
