//! Workloads that name clusters by labels of a dialect: when a workspace enables or disables the dialect, they
//! are decided about again.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::{Placement, placed_by};
use atoll_informer::Key;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{Scheduler, workloads};

/// The least time between two scans of all workloads. A pause is also a multiple of the time that a scan took.
const PAUSE: Duration = Duration::from_millis(500);
const REST: u32 = 4;
/// Workloads after which other tasks get a turn.
const AT_A_TIME: usize = 256;

/// Adds these workloads to the queue until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>, mut changed: watch::Receiver<u64>) {
    while changed.changed().await.is_ok() {
        let mut busy = Duration::ZERO;
        for (kind, cache) in scheduler.kinds.workloads.iter().enumerate() {
            for objects in cache.all().chunks(AT_A_TIME) {
                let begun = Instant::now();
                for object in objects.iter().filter(|object| is_labelled(&scheduler, object)) {
                    scheduler.queue.add(workloads::queue_key(kind, &Key::of(object)));
                }
                busy += begun.elapsed();
                tokio::task::yield_now().await;
            }
        }
        tokio::time::sleep((busy * REST).max(PAUSE)).await;
    }
}

/// Whether a workload names clusters by labels, or was placed by them.
fn is_labelled(scheduler: &Scheduler, object: &Value) -> bool {
    let named = (scheduler.dialects)(&Key::of(object).workspace, object);
    named.is_none_or(|named| !named.is_empty()) || Placement::of(object).by == placed_by::LABEL
}
