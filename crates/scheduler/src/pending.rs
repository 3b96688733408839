//! Objects that could not be placed, until an event that may help.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Queue};
use tokio::sync::Notify;

/// The least time between two attempts because of changes elsewhere. Many changes at once, such as the
/// deletion of many objects, are one reason to try again.
const PAUSE: Duration = Duration::from_millis(200);

/// Pending objects by queue key, each with the reason that was reported last.
#[derive(Default)]
pub struct Pending {
    objects: Mutex<HashMap<Key, String>>,
    wake: Notify,
}

impl Pending {
    /// Adds an object. Returns whether its reason is a new one.
    pub fn insert(&self, key: Key, message: &str) -> bool {
        self.objects().insert(key, message.to_string()).is_none_or(|known| known != message)
    }

    /// Keys of all pending objects. They are sorted, so that decisions about them are always made in the same order.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.objects().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// A copy with a wake-up signal of its own.
    pub fn copy(&self) -> Pending {
        Pending { objects: Mutex::new(self.objects().clone()), wake: Notify::new() }
    }

    pub fn remove(&self, key: &Key) {
        self.objects().remove(key);
    }

    /// Reports that a cluster, a policy or a placement has changed, so that pending objects may fit now.
    pub fn retry(&self) {
        self.wake.notify_one();
    }

    /// Adds pending objects to the queue after each event that may help, for as long as it is polled.
    pub async fn wake(&self, queue: &Queue) {
        loop {
            self.wake.notified().await;
            self.keys().into_iter().for_each(|key| queue.add(key));
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let (pending, key) = (Pending::default(), Key::new("w", "2/n", "web"));
        assert!(pending.insert(key.clone(), "east is cordoned"));
        assert!(!pending.insert(key.clone(), "east is cordoned"));
        assert!(pending.insert(key.clone(), "east is full"));
        pending.remove(&key);
        assert!(pending.insert(key, "east is full"));
    }
}
