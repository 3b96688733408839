//! Waiting for what a test needs: until it is so, and never for longer than is reasonable.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Generous: machines that test are busy.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Someone who looks again and again, up to a point. For loops that [`eventually`] does not fit.
pub struct Waiting<'a> {
    what: &'a str,
    deadline: Instant,
}

impl<'a> Waiting<'a> {
    /// `what` completes the sentence "waited in vain until …".
    pub fn until(what: &'a str) -> Self {
        Waiting { what, deadline: Instant::now() + PATIENCE }
    }

    /// Returns when it is time to look again. Panics, saying what was awaited, if there was enough of that.
    pub async fn again(&self) {
        self.check();
        tokio::time::sleep(PAUSE).await;
    }

    fn check(&self) {
        assert!(Instant::now() < self.deadline, "waited {PATIENCE:?} in vain until {}", self.what);
    }
}

/// Looks again and again until `condition` holds. Panics, saying what was awaited, if it never does.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = Waiting::until(what);
    while !condition().await {
        waiting.again().await;
    }
}

/// As [`eventually`], where nothing is asynchronous.
pub fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = Waiting::until(what);
    while !condition() {
        waiting.check();
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
