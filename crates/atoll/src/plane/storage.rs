//! Opens the store of a control plane.

use std::sync::Arc;

use atoll_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use atoll_store::Store;
use atoll_store::memory::MemoryStore;

use super::settings::{PlaneSettings, StorageMode};
use crate::encryption;

pub struct OpenedStore {
    /// The store on disk, which must be closed. `None` if objects are in memory only.
    pub disk: Option<Arc<SqliteStore>>,
    /// The same store, perhaps encrypted.
    pub store: Arc<dyn Store>,
}

pub async fn open(settings: &PlaneSettings) -> Result<OpenedStore, String> {
    let synchronous = match settings.storage {
        StorageMode::Memory => return Ok(OpenedStore { disk: None, store: Arc::new(MemoryStore::new()) }),
        StorageMode::Durable => Synchronous::Full,
        StorageMode::Relaxed => Synchronous::Off,
    };
    let directory = settings.directory.clone();
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let sqlite = super::blocking(move || SqliteStore::open(&directory, options)).await?;
    let sqlite = Arc::new(sqlite.map_err(|error| error.to_string())?);
    let encrypted =
        encryption::open_encrypted(sqlite.clone(), &settings.directory, settings.encryption.as_deref());
    Ok(OpenedStore { disk: Some(sqlite), store: encrypted.await? })
}
