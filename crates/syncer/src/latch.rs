//! A flag that is set once. Waiters are woken in order, which channels do not guarantee, so that test runs
//! are reproducible.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub struct Latch {
    is_set: AtomicBool,
    set_notify: Notify,
}

impl Latch {
    pub fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.set_notify.notify_waiters();
    }

    /// Waits until the flag is set.
    pub async fn wait(&self) {
        let mut set_notify = std::pin::pin!(self.set_notify.notified());
        // Register before checking, so that no notification is missed.
        set_notify.as_mut().enable();
        if !self.is_set.load(Ordering::Acquire) {
            set_notify.await;
        }
    }
}
