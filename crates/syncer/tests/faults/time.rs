//! Simulated time.

use std::time::Duration;

/// Lets time pass without waiting: the paused clock stands still while a task can run, and then jumps.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
