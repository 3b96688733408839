//! The Lease by which the server knows that a scheduler runs outside of it: direct writes of placements are then refused.

use std::time::Duration;

use atoll_client::{Client, PatchType};
use atoll_fleet::scheduled::{LEASE, LEASE_SECONDS};
use atoll_informer::{Clock, SystemClock};
use atoll_meta::Status;
use serde_json::json;

const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// The Lease of the scheduler in this process.
pub struct SchedulerLease {
    client: Client,
    holder: String,
    path: String,
}

impl SchedulerLease {
    /// Takes the Lease.
    pub async fn take(client: Client) -> Result<SchedulerLease, Status> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let path =
            format!("/clusters/root/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{LEASE}");
        let lease = SchedulerLease { client, holder: format!("{host}_{}", std::process::id()), path };
        lease.renew().await?;
        Ok(lease)
    }

    /// Renews the Lease for as long as it is polled.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            if let Err(status) = self.renew().await {
                tracing::warn!(%status, "cannot renew the Lease of the scheduler; will retry in ten seconds");
            }
        }
    }

    /// Gives the Lease back, unless another scheduler has taken it meanwhile.
    pub async fn release(&self) -> Result<(), Status> {
        let lease = self.client.get(&self.path).await?;
        if lease["spec"]["holderIdentity"] != *self.holder {
            return Ok(());
        }
        let version = &lease["metadata"]["resourceVersion"];
        let options = json!({ "preconditions": { "resourceVersion": version } });
        self.client.delete_with(&self.path, &options).await.map(drop)
    }

    async fn renew(&self) -> Result<(), Status> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": LEASE, "namespace": "kube-system" },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": SystemClock.now().to_micro_time(),
            },
        });
        let path = format!("{}?fieldManager=atoll-controllers&force=true", self.path);
        self.client.patch(&path, PatchType::Apply, &lease).await.map(drop)
    }
}
