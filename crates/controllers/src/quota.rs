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

use atoll_client::{Client, WatchEvent};
use atoll_meta::object;
use atoll_quota::Quota;
use serde_json::Value;

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::{Clock, Tree};
use count::Counter;
use interests::{Interests, Target};
use replenish::Watches;

/// Quotas that are counted together.
const AT_ONCE: usize = 8;
/// How often everything is counted again, should something have been missed.
const ROUND: Duration = Duration::from_secs(300);

pub async fn run(client: Client, tree: Arc<Tree>, clock: Arc<dyn Clock>) {
    let interests = Arc::new(Interests::default());
    let counter = Arc::new(Counter::new(client.clone(), tree, clock));
    let queue = {
        let (counter, interests) = (counter.clone(), interests.clone());
        Queue::start(AT_ONCE, move |target: Target| {
            let (counter, interests) = (counter.clone(), interests.clone());
            async move { if interests.knows(&target) { counter.count(&target).await } else { Outcome::Done } }
        })
    };
    let watches = Watches::new(client.clone(), interests.clone(), queue.clone());
    let path = "/clusters/*/api/v1/resourcequotas?watch=true&allowWatchBookmarks=true";
    let quotas = watching::forever(&client, path, "resource quotas", |event| match event {
        WatchEvent::Added(quota) => {
            if let Some(target) = target(&quota) {
                interests.insert(&target, &quota);
                watches.adjust();
                queue.add(target);
            }
        }
        WatchEvent::Modified(quota) => {
            if let Some(target) = target(&quota) {
                if interests.insert(&target, &quota) {
                    watches.adjust();
                }
                if is_uncounted(&quota) {
                    queue.add(target);
                }
            }
        }
        WatchEvent::Deleted(quota) => {
            if let Some(target) = target(&quota) {
                interests.remove(&target);
                watches.adjust();
            }
        }
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
    });
    let rounds = async {
        loop {
            tokio::time::sleep(ROUND).await;
            interests.all().into_iter().for_each(|target| queue.add(target));
        }
    };
    tokio::select! {
        () = quotas => {}
        () = rounds => {}
    }
}

fn target(quota: &Value) -> Option<Target> {
    Some(Target {
        workspace: object::annotation(quota, WORKSPACE)?.into(),
        namespace: object::namespace(quota).into(),
        name: object::name(quota).into(),
    })
}

/// Whether its status does not say what is limited now, or not how much is used of anything.
fn is_uncounted(quota: &Value) -> bool {
    let read = Quota::read(quota);
    read.wanted != read.hard || !quota["status"]["used"].is_object()
}
