//! Applies placed objects to a cluster and reports their status to the control plane.
//!
//! ```text
//!   above: GET  /services/sync/<cluster> ─ sync_view ─► table (desired, seen) ─► queue ─► object_worker ─┬─► below: create,
//!                                                         ▲                     reconcile, mark, drift   │   apply, delete
//!                                                         │                                              │   marked objects
//!   above: POST /services/sync/<cluster> ◄─ reports ──────┴─ status_watch ◄── watches by mark label ─────┤
//!                       ▲                                                                                │
//!                       ├── endpoints ◄── EndpointSlices of placed Services ─────────────────────────────┤
//!                       ├── events ◄── Events about placed objects and about Pods owned by them ─────────┤
//!                       └── heartbeat ◄─ inventory (nodes, pods), capabilities, guard (identity, claim, lease)
//! ```
//!
//! Three rules hold whatever fails. Nothing is written until the `guard` has verified that the cluster is the
//! one that joined, that this control plane has claimed it, and that no other syncer holds the lease. Nothing
//! is deleted because it is missing above: only because a line of the view says so, and only if it has this
//! control plane's marks with that uid. Objects without these marks are never overwritten.
//!
//! A syncer has only two clients. Time is tokio's, and the clock and random numbers are passed in, so that
//! tests can control them.

mod connections;
mod guard;
mod latch;
mod namespaces;
mod objects;
mod push;
mod reporting;
mod settings;
mod syncer;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_informer::ApiScope;

use connections::sync_view;
use guard::Guard;
use objects::object_worker;
use reporting::{capabilities, definitions, endpoints, events, heartbeat, pod_reports, usage};
use syncer::Syncer;

pub use connections::renewal;
pub use objects::adoption::adoption;
pub use push::{Push, push};
pub use settings::{Access, Drift, Random, Settings};

/// Time limit for the last report and the release of the lease when a syncer stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Syncs a cluster until `stop`. `above` is a client of the registering workspace, `below` one of the
/// cluster.
pub async fn run(settings: Settings, above: Client, below: Client, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    loop {
        let syncer = Syncer::new(settings.clone(), above.clone(), below.clone());
        let _stop = StopOnDrop(syncer.clone());
        let mut guard = Guard::new(&settings);
        let api = ApiScope::single(syncer.below.client.clone());
        // Polled in a fixed order, so that test runs are reproducible.
        tokio::select! {
            biased;
            () = &mut stop => {
                syncer.stop();
                let last_requests = async {
                    syncer.reports.flush(&syncer.above, &settings).await;
                    if let Some(registration) = syncer.current_registration() {
                        guard.release(&syncer.unqueued, &settings, &registration).await;
                    }
                };
                let _ = tokio::time::timeout(STOP_TIMEOUT, last_requests).await;
                return;
            }
            () = sync_view::run(&syncer) => {
                tracing::warn!(cluster = %settings.cluster, "the sync view now belongs to another control plane or Cluster; restarting the syncer");
            }
            () = heartbeat::run(&syncer, &mut guard) => {}
            () = syncer.reports.run(&syncer.above, &settings, &syncer.connection) => {}
            () = syncer.inventory.run(&api) => {}
            () = pod_reports::run(&syncer) => {}
            () = capabilities::run(&syncer) => {}
            () = usage::run(&syncer) => {}
            () = definitions::run(&syncer, &api) => {}
            () = endpoints::run(&syncer, &api) => {}
            () = events::forward(&syncer, &api) => {}
            () = syncer.queue.work("sync", settings.at_once.max(1), |key| object_worker::work(syncer.clone(), key)) => {}
        }
    }
}

/// Stops all tasks of a syncer when dropped.
struct StopOnDrop(Arc<Syncer>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
