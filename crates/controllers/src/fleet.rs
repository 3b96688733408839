//! Controllers for the clusters that have joined the control plane. Syncers copy objects and status.
//!
//! ```text
//!   placed workloads ─► dependents ─► placements of the objects that they refer to
//!   ObjectStatus of each cluster, placements, conditions of Clusters ─► statuses ─► the status above
//!   endpoints in ObjectStatuses of Services ─► endpoints ─► EndpointSlices above
//!   heartbeats (Leases) ─► health ─► conditions of the Cluster
//! ```

mod changed_clusters;
pub(crate) mod cluster_lookup;
mod dependents;
mod endpoints;
mod health;
pub(crate) mod reports;
mod statuses;

use atoll_informer::resources;

use crate::catalog::ControllerSelection;
use crate::context::Context;

/// Aliases by which these controllers are selected.
const NAMES: [&str; 4] = ["clusterhealth", "objectstatus", "placementfollower", "endpointslicemerging"];

/// Runs the selected controllers once the first cluster exists. Without clusters the watches would only cost
/// memory.
pub async fn run(context: Context, selection: &ControllerSelection) {
    if !NAMES.iter().any(|name| selection.includes_alias(name)) {
        return;
    }
    let (exists, mut joined) = tokio::sync::watch::channel(false);
    context.informers.of(&resources::CLUSTERS).listen(move |_| {
        exists.send_replace(true);
    });
    // The channel closes when the cache is dropped.
    if joined.wait_for(|joined| *joined).await.is_err() {
        return;
    }
    let running = async |name: &str, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        if selection.includes_alias(name) {
            work.await;
        }
    };
    tokio::join!(
        running(NAMES[0], Box::pin(health::run(context.clone()))),
        running(NAMES[1], Box::pin(statuses::run(context.clone()))),
        running(NAMES[2], Box::pin(dependents::run(context.clone()))),
        running(NAMES[3], Box::pin(endpoints::run(context.clone()))),
    );
}
