//! Whose objects a cluster serves: those of its workspace and of all below it, but for those that mean another cluster by its name.

use atoll_fleet::Placement;
use atoll_registry::Registry;

/// The workspaces that mean this cluster when they name it.
#[derive(Clone, Copy)]
pub struct Family<'a> {
    pub workspace: &'a str,
    pub cluster: &'a str,
    /// Of the Cluster.
    pub uid: &'a str,
}

impl Family<'_> {
    /// Whether a workspace is the one of the Cluster, or below it.
    pub fn has(&self, registry: &Registry, workspace: &str) -> bool {
        registry.line(workspace).iter().any(|above| above == self.workspace)
    }

    /// The share that this cluster has of an object in a workspace.
    pub fn share<'p>(
        &self,
        registry: &Registry,
        workspace: &str,
        placement: &'p Placement,
    ) -> Option<&'p atoll_fleet::placement::Share> {
        let share = placement.share_of(self.cluster, self.uid)?;
        self.is_meant(registry, workspace, &share.uid).then_some(share)
    }

    /// Whether this cluster is still to let go of an object in a workspace.
    pub fn leaves(&self, registry: &Registry, workspace: &str, placement: &Placement) -> bool {
        let mut leaving = placement.leaving.iter().filter(|one| one.is_of(self.cluster, self.uid));
        leaving.any(|one| self.is_meant(registry, workspace, &one.uid))
    }

    /// Whether this cluster has an object, or may still have it.
    pub fn holds(&self, registry: &Registry, workspace: &str, placement: &Placement) -> bool {
        self.share(registry, workspace, placement).is_some() || self.leaves(registry, workspace, placement)
    }

    /// Whether this cluster has something in a namespace, or may still have it.
    pub fn has_placed(&self, registry: &Registry, workspace: &str, namespace: &str) -> bool {
        registry.placements.on(self.cluster).iter().any(|(key, share_uid)| {
            key.parts().is_some_and(|parts| {
                parts.workspace == workspace
                    && parts.namespace == namespace
                    && self.is_meant(registry, workspace, share_uid)
            })
        })
    }

    fn is_meant(&self, registry: &Registry, workspace: &str, share_uid: &str) -> bool {
        registry.is_meant(self.workspace, self.cluster, self.uid, workspace, share_uid)
    }
}
