//! Encryption at rest: Secrets with a key of Atoll's own, or as an EncryptionConfiguration specifies.

use std::path::Path;
use std::sync::Arc;

use atoll_authn::authority::write_private;
use atoll_encryption::{EncryptedStore, EncryptionError, Rules, generate, with_new_key};
use atoll_sqlite::SqliteStore;

/// An EncryptionConfiguration with a key that is generated at the first start. The key decrypts the Secrets.
const FILE: &str = "encryption.yaml";

/// Opens the store with encryption, after encrypting all data with the newest keys.
pub async fn open_encrypted(
    store: Arc<SqliteStore>,
    directory: &Path,
    configuration: Option<&Path>,
) -> Result<Arc<EncryptedStore>, String> {
    let is_new = !directory.join(FILE).exists();
    let rules = rules(directory, configuration)?;
    let encrypted = EncryptedStore::new(store.clone(), rules);
    let progress = |done: usize, total: usize| {
        tracing::info!("encrypting objects with the newest key: {done} of {total}");
    };
    let migrated = encrypted.migrate(progress).await.map_err(|error| {
        // Delete the key that was just generated: the existing data has another one.
        if is_new {
            let _ = std::fs::remove_file(directory.join(FILE));
        }
        error.to_string()
    })?;
    if migrated.rewritten > 0 {
        store.shred().await.map_err(|error| {
            format!("cannot erase the old values of objects that were encrypted again: {error:?}")
        })?;
    }
    Ok(Arc::new(encrypted))
}

fn rules(directory: &Path, configuration: Option<&Path>) -> Result<Rules, String> {
    let own = directory.join(FILE);
    if !own.exists() && configuration.is_none() {
        let text = generate().map_err(|error| error.to_string())?;
        write_private(&own, &text).map_err(|error| error.to_string())?;
    }
    let Some(configuration) = configuration else { return read(&own, Rules::parse) };
    let rules = read(configuration, Rules::parse)?;
    if !own.exists() {
        return Ok(rules);
    }
    // Objects that were encrypted before the configuration was given stay readable.
    Ok(rules.with_decryption_keys_of(read(&own, Rules::parse_decryption_keys)?))
}

fn read(path: &Path, parse: fn(&str) -> Result<Rules, EncryptionError>) -> Result<Rules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Adds a key, which is used for writing from the next start on. Returns its name.
pub fn rotate(directory: &Path) -> Result<String, String> {
    let path = directory.join(FILE);
    let shown = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| shown(&error))?;
    let (text, name) = with_new_key(&text).map_err(|error| shown(&error))?;
    write_private(&path, &text).map_err(|error| error.to_string())?;
    Ok(name)
}
