//! Whose objects a cluster serves: those of its workspace and of all below it, but for those that mean another cluster by its name.

use atoll_registry::Registry;

/// The workspaces that mean this cluster when they name it.
pub struct Family<'a> {
    pub workspace: &'a str,
    pub cluster: &'a str,
}

impl Family<'_> {
    /// Whether a workspace is one of them: no nearer one has a cluster of that name.
    pub fn has(&self, registry: &Registry, workspace: &str) -> bool {
        registry.home_of_cluster(workspace, self.cluster).as_deref() == Some(self.workspace)
    }
}
