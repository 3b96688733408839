//! ResourceQuotas: recounts the used amounts.
//!
//! ```text
//!   watch of quotas ─► QuotaIndex (counted resources by namespace) ─► one watch for each counted resource that is served
//!          │                                                               │ object deleted, or needs less
//!          └─────────────── its spec has changed ────────────────────────┴──► count: read, list, write
//! ```
//!
//! Admission adds the usage of new objects. This controller recounts when objects are deleted, and
//! periodically. The sum is written with the resource version of the quota that was read before listing, and
//! the server refuses it while objects are being written that may be missing in it. Without quotas, nothing
//! is watched.

// upstream: pkg/controller/resourcequota/resource_quota_controller.go

mod count;
mod quota_index;
mod replenish;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Key, ListWatch, ListWatchEvent, Next, Queue, list_and_watch, resources};
use atoll_quota::Quota;
use serde_json::Value;

use crate::context::Context;
use count::Counter;
use quota_index::QuotaIndex;
use replenish::Watches;

/// Number of quotas that are counted concurrently.
const WORKERS: usize = 8;
/// Interval at which all quotas are recounted, in case an event was missed.
const FULL_RECOUNT_INTERVAL: Duration = Duration::from_secs(300);

pub async fn run(context: Context) {
    let (api, queue, index) = (context.api(), Queue::new(), Arc::new(QuotaIndex::default()));
    let counter = Arc::new(Counter::new(api.clone(), context.clock.clone()));
    let watches = Watches::new(api.clone(), index.clone(), queue.clone());
    let following = list_and_watch(api, ListWatch::all(&resources::RESOURCE_QUOTAS), |event| match event {
        ListWatchEvent::Upserted(quota) => {
            let key = Key::of(&quota);
            let is_known = index.knows(&key);
            if index.insert(&key, &quota) {
                watches.adjust();
            }
            if !is_known || needs_recount(&quota) {
                queue.add(key);
            }
        }
        ListWatchEvent::Deleted(quota) => {
            index.remove(&Key::of(&quota));
            watches.adjust();
        }
        // Quotas that were deleted meanwhile are removed when they are counted.
        ListWatchEvent::Listed(..) => {}
    });
    let full_recounts = async {
        loop {
            tokio::time::sleep(FULL_RECOUNT_INTERVAL).await;
            index.all().into_iter().for_each(|key| queue.add(key));
        }
    };
    let working = queue.work("quotas", WORKERS, |key| {
        let (counter, index) = (counter.clone(), index.clone());
        async move {
            if !index.knows(&key) {
                return Ok(Next::Done);
            }
            match counter.count(&key).await {
                Err(status) if status.reason() == "NotFound" => {
                    index.remove(&key);
                    Ok(Next::Done)
                }
                outcome => outcome,
            }
        }
    });
    tokio::join!(following, full_recounts, watches.run(), working);
}

/// Whether the status does not match the spec, or has no used amounts.
fn needs_recount(quota: &Value) -> bool {
    let read = Quota::read(quota);
    read.wanted != read.hard || !quota["status"]["used"].is_object()
}
