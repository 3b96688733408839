//! ResourceQuotas: recounts the used amounts.
//!
//! ```text
//!   watch of quotas ─► QuotaIndex (counted resources by namespace) ─► one watch for each counted resource
//!          │                                                              │ object deleted, or needs less
//!          └─────────────── its spec has changed ────────────────────────┴──► count: read the quota, list, write the sum
//! ```
//!
//! Admission adds the usage of new objects. This controller recounts when objects are deleted, and
//! periodically. The sum is written with the resource version of the quota that was read before listing, and
//! the server refuses it while objects are being written that may be missing in it. Without quotas, nothing
//! is watched.

mod count;
mod interests;
mod replenish;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Key, Look, Next, Queue, Sight, follow, resources};
use atoll_quota::Quota;
use serde_json::Value;

use crate::context::Context;
use count::Counter;
use interests::Interests;
use replenish::Watches;

/// Number of quotas that are counted concurrently.
const AT_ONCE: usize = 8;
/// Interval at which all quotas are recounted, in case an event was missed.
const ROUND: Duration = Duration::from_secs(300);

pub async fn run(context: Context) {
    let (world, queue, interests) = (context.world(), Queue::new(), Arc::new(Interests::default()));
    let counter = Arc::new(Counter::new(world.clone(), context.clock.clone()));
    let watches = Watches::new(world.clone(), interests.clone(), queue.clone());
    let following = follow(world, Look::everywhere(&resources::RESOURCE_QUOTAS), |sight| match sight {
        Sight::There(quota) => {
            let key = Key::of(&quota);
            let is_known = interests.knows(&key);
            if interests.insert(&key, &quota) {
                watches.adjust();
            }
            if !is_known || is_uncounted(&quota) {
                queue.add(key);
            }
        }
        Sight::Gone(quota) => {
            interests.remove(&Key::of(&quota));
            watches.adjust();
        }
        // Quotas that were deleted meanwhile are removed when they are counted.
        Sight::All(..) => {}
    });
    let rounds = async {
        loop {
            tokio::time::sleep(ROUND).await;
            interests.all().into_iter().for_each(|key| queue.add(key));
        }
    };
    let working = queue.work("quotas", AT_ONCE, |key| {
        let (counter, interests) = (counter.clone(), interests.clone());
        async move {
            if !interests.knows(&key) {
                return Ok(Next::Done);
            }
            match counter.count(&key).await {
                Err(status) if status.reason() == "NotFound" => {
                    interests.remove(&key);
                    Ok(Next::Done)
                }
                outcome => outcome,
            }
        }
    });
    tokio::join!(following, rounds, working);
}

/// Whether the status does not match the spec, or has no used amounts.
fn is_uncounted(quota: &Value) -> bool {
    let read = Quota::read(quota);
    read.wanted != read.hard || !quota["status"]["used"].is_object()
}
