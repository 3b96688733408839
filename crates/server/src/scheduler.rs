//! Whether a scheduler runs: in this process, or outside of the server (`atoll controllers`), where it renews a Lease.

use atoll_fleet::scheduled;
use atoll_meta::time;
use atoll_registry::{ObjectRef, bootstrap};
use serde_json::Value;

use crate::Server;

const NAMESPACE: &str = "kube-system";

impl Server {
    /// Whether a scheduler places workloads.
    pub fn has_scheduler(&self) -> bool {
        self.runs_scheduler || self.has_scheduler_outside()
    }

    fn has_scheduler_outside(&self) -> bool {
        let object_ref =
            ObjectRef { workspace: bootstrap::ROOT, namespace: NAMESPACE, name: scheduled::LEASE };
        let leases = self.registry.catalog.stored("coordination.k8s.io", "leases");
        let Some(stored) = leases.and_then(|row| self.registry.get(row, &object_ref).ok()) else {
            return false;
        };
        let lease: Value = serde_json::from_slice(&stored.json()).unwrap_or_default();
        let now = time::parse(&self.registry.now());
        now.is_ok_and(|now| scheduled::is_lease_held(&lease, now.seconds))
    }
}
