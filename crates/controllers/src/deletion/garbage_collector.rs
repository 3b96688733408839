//! Garbage collector: deletes objects whose owners are gone.
//!
//! ```text
//!   discovery ─► RestMapper (kinds ─► resources) ─► Monitors: one metadata watch per resource, all workspaces
//!                                                    │
//!                                                  Graph: owners and owned objects ─► queue ─► Collector ─► decide
//!                                                                                  live reads of owners ─┘
//! ```
//!
//! Built-in resources are watched once for all workspaces; custom resources in the workspaces that define
//! them.

// upstream: pkg/controller/garbagecollector/garbagecollector.go

mod collect;
mod decide;
mod graph;
mod monitors;
mod rest_mapper;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use atoll_informer::Queue;

use crate::context::Context;
use collect::Collector;
use graph::Graph;
use monitors::Monitors;
use rest_mapper::RestMapper;

/// Number of objects that are processed concurrently.
const WORKERS: usize = 32;
/// Maximum time to wait for the initial lists. Orphaning requires that all owned objects are known.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
const COMPONENT: &str = "garbage-collector-controller";

pub async fn run(context: Context) {
    let (graph, rest_mapper, queue) =
        (Arc::new(Mutex::new(Graph::default())), Arc::new(RestMapper::default()), Queue::new());
    let monitors = Monitors::new(context.api().clone(), graph.clone(), rest_mapper.clone(), queue.clone());
    let all_synced = monitors.all_synced();
    let recorder = context.events.recorder(COMPONENT);
    let collector = Arc::new(Collector {
        api: context.api().clone(),
        graph,
        rest_mapper,
        queue: queue.clone(),
        recorder,
    });
    let working = async {
        if tokio::time::timeout(SYNC_TIMEOUT, all_synced).await.is_err() {
            tracing::warn!(
                "garbage collector: not all resources could be listed in time; continuing without them"
            );
        }
        queue
            .work(COMPONENT, WORKERS, |key| {
                let collector = collector.clone();
                async move { collector.process(&key).await }
            })
            .await;
    };
    tokio::join!(monitors.run(), working);
}
