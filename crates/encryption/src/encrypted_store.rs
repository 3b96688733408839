//! A store that wraps another one: values are encrypted when written and decrypted when read.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_store::{
    Batch, BoxFuture, Change, Key, Page, Range, ReadError, Revision, Sink, Store, Unavailable, Write,
    WriteError,
};
use bytes::Bytes;

use crate::EncryptionError;
use crate::rules::{Form, Rules, form};

pub struct EncryptedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) rules: Arc<Rules>,
}

impl EncryptedStore {
    pub fn new(inner: Arc<dyn Store>, rules: Rules) -> Self {
        EncryptedStore { inner, rules: Arc::new(rules) }
    }
}

/// Decrypts a batch for subscribers; `None` if nothing in it is encrypted.
fn decrypt_batch(rules: &Rules, batch: &Batch) -> Result<Option<Batch>, EncryptionError> {
    let is_encrypted = |change: &Change| {
        change.value.as_ref().is_some_and(|value| matches!(form(value), Form::Encrypted { .. }))
    };
    if !batch.changes.iter().any(is_encrypted) {
        return Ok(None);
    }
    let decrypt = |change: &Change| -> Result<Change, EncryptionError> {
        let value = change.value.as_ref().map(|value| rules.decrypt(&change.key, value)).transpose()?;
        Ok(Change { key: change.key.clone(), revision: change.revision, value, hint: change.hint.clone() })
    };
    let changes = batch.changes.iter().map(decrypt).collect::<Result<_, _>>()?;
    Ok(Some(Batch { changes, revision: batch.revision }))
}

fn failed(error: EncryptionError) -> Unavailable {
    Unavailable::Failed(error.to_string())
}

impl Store for EncryptedStore {
    fn write(&self, mut write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        if let Some(value) = &write.value {
            match self.rules.encrypt(&write.key, value) {
                Ok(None) => {}
                Ok(encrypted) => write.value = encrypted,
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
                let decrypted = self.rules.decrypt(&entry.key, &entry.value);
                entry.value = decrypted.map_err(|error| ReadError::Unavailable(failed(error)))?;
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

    fn tail_start(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.tail_start(bytes)
    }

    /// A value that cannot be decrypted ends the subscription: the call fails while history is replayed;
    /// later, when every value was encrypted by this process, the error is logged.
    fn subscribe(&self, after: Revision, mut sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        let problem = Arc::new(Mutex::new(None));
        let (rules, reported) = (self.rules.clone(), problem.clone());
        let decrypting_sink: Sink = Box::new(move |batch: &Batch| match decrypt_batch(&rules, batch) {
            Ok(None) => sink(batch),
            Ok(Some(batch)) => sink(&batch),
            Err(error) => {
                tracing::error!(%error, "a change cannot be decrypted, so this subscriber receives no more changes; restart the server");
                *reported.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        });
        Box::pin(async move {
            self.inner.subscribe(after, decrypting_sink).await?;
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

    fn encrypt(&self, key: &Key, value: &[u8]) -> Result<Option<Bytes>, Unavailable> {
        self.rules.encrypt(key, value).map_err(failed)
    }

    fn decrypt(&self, key: &Key, encrypted: &Bytes) -> Result<Bytes, Unavailable> {
        self.rules.decrypt(key, encrypted).map_err(failed)
    }
}
