//! Reports placed objects whose Pods have changed.

use std::sync::Arc;
use std::time::Duration;

use crate::syncer::Syncer;

/// Pause that batches changes: most Pods change several times within a moment.
const PAUSE: Duration = Duration::from_millis(250);

/// Reports changes for as long as it is polled.
pub async fn run(syncer: &Arc<Syncer>) {
    loop {
        syncer.inventory.changed.notified().await;
        tokio::time::sleep(PAUSE).await;
        for owner in syncer.inventory.take_changed() {
            // An object that has not been observed yet is reported when it is.
            if let Some(key) = syncer.placed_owner(&owner) {
                syncer.report(&key);
            }
        }
    }
}
