//! Objects whose placement could not be written because of a pause.
//!
//! The server knows which pauses apply. An object that it refuses is decided about once more as paused, so that
//! its shares follow the number of replicas, and again without that after a while.

use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_informer::Key;

use crate::Keys;

#[derive(Default)]
pub struct Pauses(Mutex<Paused>);

#[derive(Default)]
struct Paused {
    /// Objects whose next decision is one for a paused object.
    next: Keys,
    /// Objects whose last decision was one.
    last: Keys,
}

impl Pauses {
    /// Lets the next decision about an object be one for a paused object, unless the last one was.
    pub fn insert(&self, key: &Key) -> bool {
        let mut paused = self.paused();
        !paused.last.contains(key) && paused.next.insert(key.clone())
    }

    /// Whether the next decision about an object is made as during a pause.
    pub fn take(&self, key: &Key) -> bool {
        let mut paused = self.paused();
        let is_paused = paused.next.remove(key);
        match is_paused {
            true => drop(paused.last.insert(key.clone())),
            false => drop(paused.last.remove(key)),
        }
        is_paused
    }

    fn paused(&self) -> MutexGuard<'_, Paused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_decision_is_made_once_more() {
        let (pauses, key) = (Pauses::default(), Key::new("w", "2/n", "web"));
        assert!(!pauses.take(&key));
        assert!(pauses.insert(&key) && pauses.take(&key));
        assert!(!pauses.insert(&key), "that one was refused, too");
        assert!(!pauses.take(&key));
        assert!(pauses.insert(&key));
    }
}
