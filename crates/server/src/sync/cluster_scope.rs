//! The workspaces that a cluster serves: its own and all descendants, except those in which its name refers
//! to another cluster.

use atoll_fleet::Placement;
use atoll_registry::Registry;

/// A cluster together with the workspaces in which its name refers to it.
#[derive(Clone, Copy)]
pub struct ClusterScope<'a> {
    pub workspace: &'a str,
    pub cluster: &'a str,
    /// The UID of the Cluster.
    pub uid: &'a str,
}

impl ClusterScope<'_> {
    /// Whether a workspace is the Cluster's own or a descendant of it.
    pub fn contains(&self, registry: &Registry, workspace: &str) -> bool {
        registry.ancestry(workspace).iter().any(|above| above == self.workspace)
    }

    /// Returns the cluster's share of an object in a workspace.
    pub fn share<'p>(
        &self,
        registry: &Registry,
        workspace: &str,
        placement: &'p Placement,
    ) -> Option<&'p atoll_fleet::placement::Share> {
        let share = placement.share_of(self.cluster, self.uid)?;
        self.is_referenced(registry, workspace, &share.uid).then_some(share)
    }

    /// Whether this cluster has not yet confirmed the deletion of an object in a workspace.
    pub fn is_leaving(&self, registry: &Registry, workspace: &str, placement: &Placement) -> bool {
        let mut leaving = placement.leaving.iter().filter(|one| one.is_of(self.cluster, self.uid));
        leaving.any(|one| self.is_referenced(registry, workspace, &one.uid))
    }

    /// Whether this cluster has an object or may still have it.
    pub fn may_have(&self, registry: &Registry, workspace: &str, placement: &Placement) -> bool {
        self.share(registry, workspace, placement).is_some()
            || self.is_leaving(registry, workspace, placement)
    }

    /// Whether this cluster has objects in a namespace or may still have them.
    pub fn has_objects_in(&self, registry: &Registry, workspace: &str, namespace: &str) -> bool {
        let uids = registry.placements.uids_in(self.cluster, workspace, namespace);
        uids.iter().any(|share_uid| self.is_referenced(registry, workspace, share_uid))
    }

    fn is_referenced(&self, registry: &Registry, workspace: &str, share_uid: &str) -> bool {
        registry.is_share_on(self.workspace, self.cluster, self.uid, workspace, share_uid)
    }
}
