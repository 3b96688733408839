//! Time that passes at once.

use std::time::Duration;

/// Lets it pass. Nobody waits for it: the clock stands still while there is something to do, and then jumps.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
