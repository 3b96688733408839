//! Definitions that say the same are one, in however many workspaces they are.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::Definition;

/// Every definition that some object still has. What no object has any longer is forgotten as the table grows.
#[derive(Default)]
pub struct Interned {
    table: Mutex<Table>,
    /// Keyed anew by each process: nobody can choose texts that collide.
    hasher: RandomState,
}

#[derive(Default)]
struct Table {
    by_hash: HashMap<u64, Vec<Weak<Definition>>>,
    /// Clean up when there are this many.
    limit: usize,
}

const LEAST: usize = 64;

impl Interned {
    /// The definition with this source; `make` makes it if there is none yet.
    pub(crate) fn get(&self, source: Bytes, make: impl FnOnce(Bytes) -> Definition) -> Arc<Definition> {
        let hash = self.hasher.hash_one(&source);
        if let Some(known) = self.find(hash, &source) {
            return known;
        }
        // Made outside the lock. If two make the same at once, both are good, and one lives on.
        let made = Arc::new(make(source));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.by_hash.len() >= table.limit {
            table.by_hash.retain(|_, same| {
                same.retain(|known| known.strong_count() > 0);
                !same.is_empty()
            });
            table.limit = (2 * table.by_hash.len()).max(LEAST);
        }
        table.by_hash.entry(hash).or_default().push(Arc::downgrade(&made));
        made
    }

    fn find(&self, hash: u64, source: &Bytes) -> Option<Arc<Definition>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = table.by_hash.get(&hash)?.iter().filter_map(Weak::upgrade);
        known.find(|known| known.source == *source)
    }

    /// How many there are, dead ones included: for tests.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).by_hash.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(source: Bytes) -> Definition {
        Definition {
            id: 1,
            group: "g".into(),
            accepted: super::super::Names::default(),
            waits: false,
            is_served: false,
            is_established: false,
            is_terminating: false,
            rows: Vec::new(),
            stored: None,
            spec: Bytes::new(),
            source,
        }
    }

    #[test]
    fn the_same_is_made_once_and_the_dead_are_forgotten() {
        let interned = Interned::default();
        let first = interned.get(Bytes::from("a"), made);
        let again = interned.get(Bytes::from("a"), |_| unreachable!("it is known"));
        assert!(Arc::ptr_eq(&first, &again));
        for number in 0..10_000 {
            interned.get(Bytes::from(format!("{number}")), made);
        }
        assert!(interned.len() <= 2 * LEAST, "{} are kept", interned.len());
        let kept = interned.get(Bytes::from("a"), |_| unreachable!("it is still held"));
        assert!(Arc::ptr_eq(&first, &kept));
    }
}
