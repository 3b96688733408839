//! Objects whose placement could not be written because of a pause.
//!
//! The server knows which pauses apply. An object that it refuses is decided about once more as paused, so that
//! its shares follow the number of replicas, and again without that after a while.

use std::sync::{Mutex, PoisonError};

use atoll_informer::Key;

use crate::Keys;

#[derive(Default)]
pub struct Pauses(Mutex<Keys>);

impl Pauses {
    /// Marks an object, so that the next decision about it is made as during a pause.
    pub fn insert(&self, key: Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Whether the next decision about an object is made as during a pause.
    pub fn take(&self, key: &Key) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}
