//! The placement policies of a namespace.

use atoll_placement::policy::Policy;
use atoll_watch::Scope;

use crate::Registry;
use crate::catalog::ATOLL;

impl Registry {
    /// The policies that can apply to objects of a namespace: its own, those of its workspace, and those of
    /// the workspaces above. Cluster-scoped objects are in no namespace.
    pub fn placement_policies(&self, workspace: &str, namespace: &str) -> Vec<Policy> {
        let snapshot = self.snapshot();
        let read = |resource: &str, workspace: &str, namespace: &str, distance: usize| -> Vec<Policy> {
            let scope = Scope::new(ATOLL, resource, Some(workspace), Some(namespace));
            let stored = snapshot.list(&scope, None);
            // The server accepts no other policies, so one that cannot be read is of a newer version.
            let parsed = stored.filter_map(|policy| Policy::parse(&crate::parse(&policy.json()).ok()?).ok());
            parsed.map(|policy| Policy { distance, ..policy }).collect()
        };
        let mut found = match namespace {
            "" => Vec::new(),
            namespace => read("placementpolicies", workspace, namespace, 0),
        };
        for (distance, workspace) in self.ancestry(workspace).iter().enumerate() {
            found.extend(read("clusterplacementpolicies", workspace, "", distance));
        }
        found
    }
}
