//! What a control plane does for the clusters that have joined it; who copies objects there and back is somebody else.
//!
//! ```text
//!   placed workloads ─► followers ─► placements of what they refer to
//!   ObjectStatus of each cluster, placements, conditions of Clusters ─► statuses ─► the status above
//!   heartbeats (Leases) ─► health ─► conditions of the Cluster
//! ```

mod followers;
mod health;
mod reach;
mod records;
mod statuses;

use atoll_informer::resources;

use crate::catalog::Choice;
use crate::context::Context;

/// As they are chosen.
const NAMES: [&str; 3] = ["clusterhealth", "objectstatus", "placementfollower"];

/// Runs the chosen ones of them, from the first cluster on: without any there is nothing to do, and watching would cost
/// something all the same.
pub async fn run(context: Context, choice: &Choice) {
    if !NAMES.iter().any(|name| choice.includes_alias(name)) {
        return;
    }
    let (there, mut joined) = tokio::sync::watch::channel(false);
    context.informers.of(&resources::CLUSTERS).listen(move |_| {
        there.send_replace(true);
    });
    // The cache lives as long as whoever listens to it.
    if joined.wait_for(|joined| *joined).await.is_err() {
        return;
    }
    let running = async |name: &str, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        if choice.includes_alias(name) {
            work.await;
        }
    };
    tokio::join!(
        running(NAMES[0], Box::pin(health::run(context.clone()))),
        running(NAMES[1], Box::pin(statuses::run(context.clone()))),
        running(NAMES[2], Box::pin(followers::run(context.clone()))),
    );
}
