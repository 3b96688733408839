//! Something that becomes true once. Whoever waits is woken in the order of their coming, which channels do not promise: runs can be
//! repeated.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub struct Flag {
    is_up: AtomicBool,
    raised: Notify,
}

impl Flag {
    pub fn raise(&self) {
        self.is_up.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    /// Returns when it is up.
    pub async fn up(&self) {
        let mut raised = std::pin::pin!(self.raised.notified());
        // From here on nothing is missed.
        raised.as_mut().enable();
        if !self.is_up.load(Ordering::Acquire) {
            raised.await;
        }
    }
}
