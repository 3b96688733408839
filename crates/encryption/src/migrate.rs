//! What is done before anybody reads: is every key there, and is everything written as it should be?

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::{Condition, Key, Range, ReadError, Revision, Write, WriteError};

use crate::{EncryptionError, Sealed};

/// How many values are rewritten before progress is told.
const STEP: usize = 500;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Values that were written again.
    pub rewritten: usize,
}

/// What was found of values that are not as they should be.
#[derive(Default)]
struct Seen {
    unreadable: BTreeMap<(Revision, Key), EncryptionError>,
    stale: BTreeSet<(Revision, Key)>,
}

impl Sealed {
    /// Makes sure that every value can be read, then writes again what is under an old key or none, and forgets the past,
    /// in which it was so. `progress` is told how many of how many are done.
    pub async fn migrate(&self, mut progress: impl FnMut(usize, usize)) -> Result<Migrated, EncryptionError> {
        let stale = self.look().await?;
        let total = stale.len();
        for (done, (key, revision)) in stale.into_iter().enumerate() {
            if done % STEP == 0 {
                progress(done, total);
            }
            self.rewrite(&key, revision).await?;
        }
        if total > 0 {
            progress(total, total);
            let revision = self.inner.revision().await.map_err(unreadable)?;
            self.inner.compact(revision).await.map_err(unwritable)?;
        }
        Ok(Migrated { rewritten: total })
    }

    /// Opens every value there is, old ones too. Returns those that are not as they would be written now.
    async fn look(&self) -> Result<Vec<(Key, Revision)>, EncryptionError> {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (noted, rules) = (seen.clone(), self.rules.clone());
        let look = move |key: &Key, revision: Revision, value: &[u8]| {
            let note = || noted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = rules.decrypt(key, value) {
                note().unreadable.insert((revision, key.clone()), error);
            } else if !rules.is_current(key, value) {
                note().stale.insert((revision, key.clone()));
            }
        };
        self.inner.visit(Arc::new(look)).await.map_err(unreadable)?;
        let Seen { unreadable, stale } =
            std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        self.forgive(unreadable).await?;
        let mut current = Vec::new();
        for (revision, key) in stale {
            let only = Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) };
            let page = self.inner.range(only, None, 1).await.map_err(self::unreadable)?;
            if page.entries.first().is_some_and(|entry| entry.revision == revision) {
                current.push((key, revision));
            }
        }
        current.sort();
        Ok(current)
    }

    /// Fails unless all of these values were compacted and only wait to be deleted.
    async fn forgive(
        &self,
        unreadable: BTreeMap<(Revision, Key), EncryptionError>,
    ) -> Result<(), EncryptionError> {
        if unreadable.is_empty() {
            return Ok(());
        }
        let compacted = self.inner.compacted().await.map_err(self::unreadable)?;
        let base = self.inner.range(Range::all(), Some(compacted), 0).await.map_err(self::unreadable)?;
        let base: HashSet<(Revision, Key)> =
            base.entries.into_iter().map(|entry| (entry.revision, entry.key)).collect();
        let is_needed = |place: &(Revision, Key)| place.0 > compacted || base.contains(place);
        unreadable.into_iter().find(|(place, _)| is_needed(place)).map_or(Ok(()), |(_, error)| Err(error))
    }

    async fn rewrite(&self, key: &Key, revision: Revision) -> Result<(), EncryptionError> {
        let only = Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) };
        let page = self.inner.range(only, None, 1).await.map_err(unreadable)?;
        let Some(entry) = page.entries.into_iter().next() else { return Ok(()) };
        let value = self.rules.open(key, &entry.value)?;
        let sealed = self.rules.seal(key, &value)?.unwrap_or(value);
        let write = Write {
            key: key.clone(),
            expect: Condition::At(revision),
            value: Some(sealed),
            guards: Vec::new(),
            memo: None,
        };
        self.inner.write(write).await.map(drop).map_err(unwritable)
    }
}

fn unreadable(error: ReadError) -> EncryptionError {
    EncryptionError::Store(format!("the data cannot be read: {error:?}"))
}

fn unwritable(error: WriteError) -> EncryptionError {
    EncryptionError::Store(format!("the data cannot be written: {error:?}"))
}
