//! A flag that is set once. Waiters are woken in order, which channels do not guarantee, so that test runs
//! are reproducible.

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

    /// Waits until the flag is set.
    pub async fn up(&self) {
        let mut raised = std::pin::pin!(self.raised.notified());
        // Register before checking, so that no notification is missed.
        raised.as_mut().enable();
        if !self.is_up.load(Ordering::Acquire) {
            raised.await;
        }
    }
}
