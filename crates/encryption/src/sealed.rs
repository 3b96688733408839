//! A store around another one: values are sealed on the way in and opened on the way out.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::{
    Batch, BoxFuture, Change, Key, Page, Range, ReadError, Revision, Sink, Store, Unavailable, Write,
    WriteError,
};
use bytes::Bytes;

use crate::EncryptionError;
use crate::rules::{Form, Rules, form};

pub struct Sealed {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) rules: Arc<Rules>,
}

impl Sealed {
    pub fn new(inner: Arc<dyn Store>, rules: Rules) -> Self {
        Sealed { inner, rules: Arc::new(rules) }
    }
}

/// The batch as followers shall see it; the same one if nothing in it was sealed.
fn opened(rules: &Rules, batch: &Batch) -> Result<Option<Batch>, EncryptionError> {
    let is_sealed = |change: &Change| {
        change.value.as_ref().is_some_and(|value| matches!(form(value), Form::Encrypted { .. }))
    };
    if !batch.changes.iter().any(is_sealed) {
        return Ok(None);
    }
    let open = |change: &Change| -> Result<Change, EncryptionError> {
        let value = change.value.as_ref().map(|value| rules.open(&change.key, value)).transpose()?;
        Ok(Change { key: change.key.clone(), revision: change.revision, value, memo: change.memo.clone() })
    };
    let changes = batch.changes.iter().map(open).collect::<Result<_, _>>()?;
    Ok(Some(Batch { changes, revision: batch.revision }))
}

fn failed(error: EncryptionError) -> Unavailable {
    Unavailable::Failed(error.to_string())
}

impl Store for Sealed {
    fn write(&self, mut write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        if let Some(value) = &write.value {
            match self.rules.seal(&write.key, value) {
                Ok(None) => {}
                Ok(sealed) => write.value = sealed,
                Err(error) => {
                    return Box::pin(std::future::ready(Err(WriteError::Unavailable(failed(error)))));
                }
            }
        }
        self.inner.write(write)
    }

    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let mut page = self.inner.range(range, at, limit).await?;
            for entry in &mut page.entries {
                let opened = self.rules.open(&entry.key, &entry.value);
                entry.value = opened.map_err(|error| ReadError::Unavailable(failed(error)))?;
            }
            Ok(page)
        })
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.revision()
    }

    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.compacted()
    }

    fn last(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.last(bytes)
    }

    /// What cannot be opened ends the following: with an error while it replays, and with one in the log afterwards,
    /// when everything was sealed by this process.
    fn follow(&self, after: Revision, mut sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        let problem = Arc::new(Mutex::new(None));
        let (rules, reported) = (self.rules.clone(), problem.clone());
        let opening: Sink = Box::new(move |batch: &Batch| match opened(&rules, batch) {
            Ok(None) => sink(batch),
            Ok(Some(batch)) => sink(&batch),
            Err(error) => {
                tracing::error!(%error, "what was written cannot be read back; restart the server");
                *reported.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        });
        Box::pin(async move {
            self.inner.follow(after, opening).await?;
            match problem.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(error) => Err(ReadError::Unavailable(failed(error))),
                None => Ok(()),
            }
        })
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.inner.compact(through)
    }

    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.inner.raise(to)
    }

    fn seal(&self, key: &Key, value: &[u8]) -> Result<Option<Bytes>, Unavailable> {
        self.rules.seal(key, value).map_err(failed)
    }

    fn open(&self, key: &Key, sealed: &Bytes) -> Result<Bytes, Unavailable> {
        self.rules.open(key, sealed).map_err(failed)
    }
}
