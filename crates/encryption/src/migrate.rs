//! Checks at startup that every value can be decrypted, and rewrites values that are under old keys.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::{Condition, Key, Range, ReadError, Revision, Write, WriteError};

use crate::{EncryptedStore, EncryptionError};

/// Number of rewritten values between two progress reports.
const PROGRESS_INTERVAL: usize = 500;

/// The result of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationSummary {
    /// Number of values that were rewritten.
    pub rewritten: usize,
}

/// Values that cannot be decrypted, and values that are not under the current key.
#[derive(Default)]
struct Scan {
    unreadable: BTreeMap<(Revision, Key), EncryptionError>,
    stale: BTreeSet<(Revision, Key)>,
}

impl EncryptedStore {
    /// Checks that every value can be decrypted, rewrites current values that are not under the current key,
    /// and compacts the history, which still contains the old forms. `progress` gets the number of values
    /// done and the total.
    pub async fn migrate(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<MigrationSummary, EncryptionError> {
        let stale = self.find_stale().await?;
        let total = stale.len();
        for (done, (key, revision)) in stale.into_iter().enumerate() {
            if done % PROGRESS_INTERVAL == 0 {
                progress(done, total);
            }
            self.rewrite(&key, revision).await?;
        }
        if total > 0 {
            progress(total, total);
            let revision = self.inner.revision().await.map_err(unreadable)?;
            self.inner.compact(revision).await.map_err(unwritable)?;
        }
        Ok(MigrationSummary { rewritten: total })
    }

    /// Decrypts every stored value, including history. Returns the current values that are not under the
    /// current key.
    async fn find_stale(&self) -> Result<Vec<(Key, Revision)>, EncryptionError> {
        let scan: Arc<Mutex<Scan>> = Arc::default();
        let (results, rules) = (scan.clone(), self.rules.clone());
        let inspect = move |key: &Key, revision: Revision, value: &[u8]| {
            let record = || results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = rules.decrypt_if_encrypted(key, value) {
                record().unreadable.insert((revision, key.clone()), error);
            } else if !rules.is_current(key, value) {
                record().stale.insert((revision, key.clone()));
            }
        };
        self.inner.visit(Arc::new(inspect)).await.map_err(unreadable)?;
        let Scan { unreadable, stale } =
            std::mem::take(&mut *scan.lock().unwrap_or_else(PoisonError::into_inner));
        self.require_compacted(unreadable).await?;
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

    /// Fails unless all of these values were compacted and are only waiting to be deleted.
    async fn require_compacted(
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
        let is_needed = |version: &(Revision, Key)| version.0 > compacted || base.contains(version);
        unreadable.into_iter().find(|(version, _)| is_needed(version)).map_or(Ok(()), |(_, error)| Err(error))
    }

    async fn rewrite(&self, key: &Key, revision: Revision) -> Result<(), EncryptionError> {
        let only = Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) };
        let page = self.inner.range(only, None, 1).await.map_err(unreadable)?;
        let Some(entry) = page.entries.into_iter().next() else { return Ok(()) };
        let value = self.rules.decrypt(key, &entry.value)?;
        let encrypted = self.rules.encrypt(key, &value)?.unwrap_or(value);
        let write = Write {
            key: key.clone(),
            expect: Condition::At(revision),
            value: Some(encrypted),
            guards: Vec::new(),
            hint: None,
        };
        self.inner.write(write).await.map(drop).map_err(unwritable)
    }
}

fn unreadable(error: ReadError) -> EncryptionError {
    EncryptionError::Store(format!("cannot read the store: {error:?}"))
}

fn unwritable(error: WriteError) -> EncryptionError {
    EncryptionError::Store(format!("cannot write to the store: {error:?}"))
}
