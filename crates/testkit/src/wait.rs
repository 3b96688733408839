//! Waiting for conditions, with a generous timeout.

use std::time::{Duration, Instant};

/// The timeout of all waiting. It is generous, because test machines are busy.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(180);

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A polling loop with a timeout, for cases that [`eventually`] does not fit.
pub struct Waiting<'a> {
    what: &'a str,
    deadline: Instant,
}

impl<'a> Waiting<'a> {
    /// Starts the timeout. `what` completes the sentence "timed out waiting until …".
    pub fn until(what: &'a str) -> Self {
        Waiting { what, deadline: Instant::now() + WAIT_TIMEOUT }
    }

    /// Returns when it is time to poll again. Panics after the timeout.
    pub async fn again(&self) {
        self.check();
        tokio::time::sleep(POLL_INTERVAL).await;
    }

    fn check(&self) {
        assert!(
            Instant::now() < self.deadline,
            "timed out after {WAIT_TIMEOUT:?} waiting until {}",
            self.what
        );
    }
}

/// Polls until `condition` holds. Panics after the timeout.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = Waiting::until(what);
    while !condition().await {
        waiting.again().await;
    }
}

/// Like [`eventually`] without async.
pub fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = Waiting::until(what);
    while !condition() {
        waiting.check();
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the result of `future`. Panics after the timeout.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("timed out after {WAIT_TIMEOUT:?} waiting until {what}"),
    }
}
