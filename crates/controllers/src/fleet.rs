//! What a control plane does for the clusters that have joined it; who copies objects there and back is somebody else.
//!
//! ```text
//!   placed workloads ─► followers ─► placements of what they refer to
//!   ObjectStatus of each cluster ─► statuses ─► the status above
//!   heartbeats ─► health ─► conditions of the Cluster
//! ```

mod followers;
mod health;
mod statuses;

use atoll_informer::Resource;

use crate::catalog::Choice;
use crate::context::Context;

/// Runs the chosen ones of them.
pub async fn run(context: Context, choice: &Choice) {
    let running = async |name: &str, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        if choice.includes_alias(name) {
            work.await;
        }
    };
    tokio::join!(
        running("clusterhealth", Box::pin(health::run(context.clone()))),
        running("objectstatus", Box::pin(statuses::run(context.clone()))),
        running("placementfollower", Box::pin(followers::run(context.clone()))),
    );
}

fn own(plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    Resource {
        group: "atoll.dev".into(),
        version: "v1alpha1".into(),
        plural: plural.into(),
        kind: kind.into(),
        namespaced,
    }
}
