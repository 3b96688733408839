//! Copies what is placed on a cluster down to it, and its status up.
//!
//! ```text
//!   above: GET  /services/sync/<cluster> ─ view ─► table (wanted, seen) ─► queue ─► down ─┬─► below: create, apply,
//!                                                    ▲                     reconcile      │   delete what is marked
//!                                                    │                     mark, drift    │   as ours
//!   above: POST /services/sync/<cluster> ◄─ reports ─┴─ up ◄── watches by our label ──────┤
//!                       ▲                                                                 │
//!                       ├── happenings ◄── Events about these, and about Pods of them ────┤
//!                       └── heartbeat ◄─ census (nodes, pods), guard (identity, claim, lease)
//! ```
//!
//! Three rules hold whatever breaks. Nothing is written before the `guard` has found the cluster to be the one that joined,
//! claimed by this control plane, and synced by nobody else. Nothing is deleted because something is missing above: only
//! because a line says so, and only what carries our marks with that uid. Nothing that is not ours is overwritten.
//!
//! A syncer sees two clients and nothing else. Time is tokio's, and like randomness and the clock it comes from outside, so
//! that a test can hold it.

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

/// Who ends says so, but not for longer than this.
const FAREWELL: Duration = Duration::from_secs(10);

/// Syncs a cluster until `stop`. `above` is the workspace of the Cluster, `below` the cluster itself.
pub async fn run(settings: Settings, above: Client, below: Client, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    loop {
        let core = Core::new(settings.clone(), above.clone(), below.clone());
        let _ends = Ends(core.clone());
        let (mut guard, census) = (Guard::new(&settings), Census::default());
        let world = World::one(core.below.client.clone());
        // Always in the same order, so that a run can be repeated.
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
                tracing::warn!(cluster = %settings.cluster, "the view is of another control plane or Cluster than before; beginning anew");
            }
            () = heartbeat::keep(&core, &mut guard, &census) => {}
            () = core.reports.run(&core.above, &settings, &core.contact) => {}
            () = census.run(&world) => {}
            () = happenings::tell(&core, &world) => {}
            () = core.queue.work("sync", settings.at_once.max(1), |key| down::work(core.clone(), key)) => {}
        }
    }
}

/// Whatever was begun ends with this.
struct Ends(Arc<Core>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}
