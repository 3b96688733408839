//! Every ResourceQuota says what it limits and how much of that is used.
//!
//! ```text
//!   watch of quotas ─► Interests (who counts what, where) ─► one watch for each resource that any quota counts
//!          │                                                       │ something went, or needs less
//!          └────────────── its specification is new ──────────────┴──► count: read the quota, list, write the sum
//! ```
//!
//! Admission adds what is new; here the whole is counted again when something is gone, and now and then in any case. The sum
//! is written on condition that the quota is still the one that was read before anything was listed, and the server refuses
//! it while objects are being written that may be missing in it. Where there are no quotas, nothing is watched.

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

/// Quotas that are counted together.
const AT_ONCE: usize = 8;
/// How often everything is counted again, should something have been missed.
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
        // Those that are gone meanwhile are found to be when they are counted.
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

/// Whether its status does not say what is limited now, or not how much is used of anything.
fn is_uncounted(quota: &Value) -> bool {
    let read = Quota::read(quota);
    read.wanted != read.hard || !quota["status"]["used"].is_object()
}
