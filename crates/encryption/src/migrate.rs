//! What is done before anybody reads: is every key there, and is everything written as it should be?

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::{Batch, Condition, Key, Range, ReadError, Revision, Write, WriteError};

use crate::{EncryptionError, Sealed};

/// How many values are rewritten before progress is told.
const STEP: usize = 500;
/// How many values are looked at together: few, because each may be large.
const PAGE: usize = 64;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Values that were written again.
    pub rewritten: usize,
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
        let mut stale = Vec::new();
        let mut range = Range::all();
        loop {
            let page = self.inner.range(range, None, PAGE).await.map_err(unreadable)?;
            for entry in &page.entries {
                self.rules.open(&entry.key, &entry.value)?;
                if !self.rules.is_current(&entry.key, &entry.value) {
                    stale.push((entry.key.clone(), entry.revision));
                }
            }
            match page.entries.last() {
                Some(last) if page.more => {
                    range = Range { start: Bound::Excluded(last.key.clone()), end: Bound::Unbounded };
                }
                _ => break,
            }
        }
        self.look_back().await?;
        Ok(stale)
    }

    /// Opens what is kept of the past.
    async fn look_back(&self) -> Result<(), EncryptionError> {
        let compacted = self.inner.compacted().await.map_err(unreadable)?;
        let revision = self.inner.revision().await.map_err(unreadable)?;
        let problem = Arc::new(Mutex::new(None));
        let (noted, rules) = (problem.clone(), self.rules.clone());
        let sink = move |batch: &Batch| {
            for change in &batch.changes {
                if let Some(Err(error)) = change.value.as_ref().map(|value| rules.open(&change.key, value)) {
                    *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return ControlFlow::Break(());
                }
            }
            // It need not hear of what comes later.
            if batch.revision < revision { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.inner.follow(compacted, Box::new(sink)).await.map_err(unreadable)?;
        let problem = problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        problem.map_or(Ok(()), Err)
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
