//! Interning: equal contents are stored once for all workspaces.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::Definition;

/// A value that is derived from a text and keeps the text.
pub trait FromSource {
    fn source(&self) -> &Bytes;
}

/// All values that some object still uses. Unused values are removed as the table grows.
pub struct Interned<T> {
    table: Mutex<Table<T>>,
    /// Random in each process, so that clients cannot choose texts that collide.
    hasher: RandomState,
}

struct Table<T> {
    by_hash: HashMap<u64, Vec<Weak<T>>>,
    /// Number of entries at which unused ones are removed.
    limit: usize,
}

const MIN_LIMIT: usize = 64;

impl<T> Default for Interned<T> {
    fn default() -> Self {
        let table = Table { by_hash: HashMap::new(), limit: 0 };
        Interned { table: Mutex::new(table), hasher: RandomState::new() }
    }
}

impl<T: FromSource> Interned<T> {
    /// The value for this source; `make` creates it if there is none yet.
    pub(crate) fn get(&self, source: Bytes, make: impl FnOnce(Bytes) -> T) -> Arc<T> {
        let hash = self.hasher.hash_one(&source);
        if let Some(known) = self.find(hash, &source) {
            return known;
        }
        // Created outside the lock. If two threads create the same value, both are valid and one is kept.
        let value = Arc::new(make(source));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.by_hash.len() >= table.limit {
            table.by_hash.retain(|_, same| {
                same.retain(|known| known.strong_count() > 0);
                !same.is_empty()
            });
            table.limit = (2 * table.by_hash.len()).max(MIN_LIMIT);
        }
        table.by_hash.entry(hash).or_default().push(Arc::downgrade(&value));
        value
    }

    fn find(&self, hash: u64, source: &Bytes) -> Option<Arc<T>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = table.by_hash.get(&hash)?.iter().filter_map(Weak::upgrade);
        known.find(|known| known.source() == source)
    }

    /// Number of entries including unused ones, for tests.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).by_hash.len()
    }
}

impl FromSource for Definition {
    fn source(&self) -> &Bytes {
        &self.source
    }
}

/// A text that many objects share, kept while one of them uses it.
pub struct Text(Bytes);

impl FromSource for Text {
    fn source(&self) -> &Bytes {
        &self.0
    }
}

impl Interned<Text> {
    /// The shared copy of this text.
    pub(crate) fn text(&self, text: Bytes) -> Bytes {
        Bytes::from_owner(Shared(self.get(text, Text)))
    }
}

struct Shared(Arc<Text>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(source: Bytes) -> Definition {
        Definition {
            id: 1,
            group: "g".into(),
            plural: "p".into(),
            accepted: super::super::Names::default(),
            awaits_names: false,
            is_served: false,
            is_established: false,
            is_terminating: false,
            is_size_outdated: false,
            rows: Vec::new(),
            stored: None,
            spec: Bytes::new(),
            source,
            size: 0,
            hash: 0,
        }
    }

    #[test]
    fn equal_values_are_shared_and_unused_ones_are_removed() {
        let interned = Interned::default();
        let first = interned.get(Bytes::from("a"), value);
        let again = interned.get(Bytes::from("a"), |_| unreachable!("the value exists"));
        assert!(Arc::ptr_eq(&first, &again));
        for number in 0..10_000 {
            interned.get(Bytes::from(format!("{number}")), value);
        }
        assert!(interned.len() <= 2 * MIN_LIMIT, "{} are kept", interned.len());
        let kept = interned.get(Bytes::from("a"), |_| unreachable!("the value is still in use"));
        assert!(Arc::ptr_eq(&first, &kept));
    }

    #[test]
    fn equal_texts_are_shared() {
        let interned = Interned::default();
        let (first, again) = (interned.text(Bytes::from("a")), interned.text(Bytes::from("a")));
        assert_eq!(first.as_ptr(), again.as_ptr());
        drop(first);
        assert_eq!(interned.text(Bytes::from("a")).as_ptr(), again.as_ptr(), "the value is still in use");
    }
}
