//! Garbage collector: deletes objects whose owners are gone.
//!
//! ```text
//!   discovery ─► Discovered (kinds ─► resources) ─► Monitors: one metadata watch per resource, all workspaces
//!                                                    │
//!                                                  Graph: owners and owned objects ─► queue ─► Collector ─► decide
//!                                                                                               └─ live reads of owners
//! ```
//!
//! Built-in resources are watched once for all workspaces; custom resources in the workspaces that define
//! them.

mod collect;
mod decide;
mod graph;
mod served;
mod sights;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use atoll_informer::Queue;

use crate::context::Context;
use collect::Collector;
use graph::Graph;
use served::Served;
use sights::Sights;

/// Number of objects that are processed concurrently.
const AT_ONCE: usize = 32;
/// Maximum time to wait for the initial lists. Orphaning requires that all owned objects are known.
const FIRST_SIGHT: Duration = Duration::from_secs(30);
const COMPONENT: &str = "garbage-collector-controller";

pub async fn run(context: Context) {
    let (graph, served, queue) =
        (Arc::new(Mutex::new(Graph::default())), Arc::new(Served::default()), Queue::new());
    let sights = Sights::new(context.world().clone(), graph.clone(), served.clone(), queue.clone());
    let all_seen = sights.all_seen();
    let recorder = context.events.recorder(COMPONENT);
    let collector =
        Arc::new(Collector { world: context.world().clone(), graph, served, queue: queue.clone(), recorder });
    let working = async {
        if tokio::time::timeout(FIRST_SIGHT, all_seen).await.is_err() {
            tracing::warn!(
                "garbage collector: not all resources could be listed in time; continuing without them"
            );
        }
        queue
            .work(COMPONENT, AT_ONCE, |key| {
                let collector = collector.clone();
                async move { collector.look_at(&key).await }
            })
            .await;
    };
    tokio::join!(sights.run(), working);
}
