//! Waiting for what a test needs: until it is so, and never for longer than is reasonable.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Generous: machines that test are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until `condition` holds. Panics, saying what was awaited, if it never does.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`eventually`], where nothing is asynchronous.
pub fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        std::thread::sleep(PAUSE);
    }
}

/// What `future` yields. Panics, saying what was awaited, if it takes too long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain until {what}"),
    }
}
