//! Allocations: keys that belong to one object and can exist only once, such as those of addresses. They are
//! written before the object.

use atoll_store::Key;

use crate::Registry;

/// The keys that a write of an object allocated, and those that the object no longer needs.
#[derive(Default)]
pub(crate) struct Allocation {
    pub allocated: Vec<Key>,
    pub unused: Vec<Key>,
}

impl Registry {
    /// Releases unused keys after the object was written.
    pub(crate) async fn commit_allocation(&self, allocation: Allocation) {
        self.release(allocation.unused).await;
    }

    /// Releases allocated keys after the object was not written.
    pub(crate) async fn undo_allocation(&self, allocation: Allocation) {
        self.release(allocation.allocated).await;
    }

    pub(crate) async fn release(&self, keys: Vec<Key>) {
        for key in keys {
            let released = self.remove(key.clone()).await;
            if let Err(status) = released {
                let cause = status.message();
                tracing::warn!(
                    key = &*key,
                    cause,
                    "cannot release an allocated value; it stays allocated until another object requests it"
                );
            }
        }
    }
}
