//! Applies placed objects to a cluster and reports their status to the control plane.
//!
//! ```text
//!   above: GET  /services/sync/<cluster> ─ view ─► table (desired, seen) ─► queue ─► object_worker ─┬─► below: create,
//!                                                    ▲                     reconcile, mark, drift   │   apply, delete
//!                                                    │                                              │   marked objects
//!   above: POST /services/sync/<cluster> ◄─ reports ─┴─ status_watch ◄── watches by mark label ──────┤
//!                       ▲                                                                            │
//!                       ├── events ◄── Events about placed objects and about Pods owned by them ─────┤
//!                       └── heartbeat ◄─ inventory (nodes, pods), guard (identity, claim, lease)
//! ```
//!
//! Three rules hold whatever fails. Nothing is written until the `guard` has verified that the cluster is the
//! one that joined, that this control plane has claimed it, and that no other syncer holds the lease. Nothing
//! is deleted because it is missing above: only because a line of the view says so, and only if it has this
//! control plane's marks with that uid. Objects without these marks are never overwritten.
//!
//! A syncer has only two clients. Time is tokio's, and the clock and random numbers are passed in, so that
//! tests can control them.

mod adoption;
mod below;
mod census;
mod contact;
mod core;
mod digest;
mod down;
mod drift;
mod ending;
mod flag;
mod guard;
mod happenings;
mod heartbeat;
mod mark;
mod overlay;
mod pauses;
mod push;
mod reconcile;
pub mod renewal;
mod reports;
mod retire;
mod settings;
mod spaces;
mod table;
mod theirs;
mod trust;
mod unserved;
mod up;
mod view;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_informer::World;

use census::Census;
use core::Core;
use guard::Guard;

pub use adoption::adoption;
pub use push::{Push, push};
pub use retire::is_built_in;
pub use settings::{Access, Drift, Random, Settings};

/// Time limit for the last report and the release of the lease when a syncer stops.
const FAREWELL: Duration = Duration::from_secs(10);

/// Syncs a cluster until `stop`. `above` is a client of the registering workspace, `below` one of the
/// cluster.
pub async fn run(settings: Settings, above: Client, below: Client, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    loop {
        let core = Core::new(settings.clone(), above.clone(), below.clone());
        let _ends = Ends(core.clone());
        let (mut guard, census) = (Guard::new(&settings), Census::default());
        let world = World::one(core.below.client.clone());
        // Polled in a fixed order, so that test runs are reproducible.
        tokio::select! {
            biased;
            () = &mut stop => {
                core.end();
                let farewell = async {
                    core.reports.flush(&core.above, &settings).await;
                    if let Some(master) = core.control_plane() {
                        guard.release(&core.vital, &settings, &master).await;
                    }
                };
                let _ = tokio::time::timeout(FAREWELL, farewell).await;
                return;
            }
            () = view::follow(&core) => {
                tracing::warn!(cluster = %settings.cluster, "the sync view now belongs to another control plane or Cluster; restarting the syncer");
            }
            () = heartbeat::keep(&core, &mut guard, &census) => {}
            () = core.reports.run(&core.above, &settings, &core.contact) => {}
            () = census.run(&world) => {}
            () = happenings::tell(&core, &world) => {}
            () = core.queue.work("sync", settings.at_once.max(1), |key| down::work(core.clone(), key)) => {}
        }
    }
}

/// Stops all tasks of a syncer when dropped.
struct Ends(Arc<Core>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}
