//! What is encrypted on the disk: Secrets with a key of our own, or whatever a configuration says.

use std::path::Path;
use std::sync::Arc;

use atoll_authn::authority::write_private;
use atoll_encryption::{Rules, Sealed, generate, with_new_key};
use atoll_sqlite::SqliteStore;

/// Upstream's format, with a key that was made at the first start. Whoever has it can read the Secrets.
const FILE: &str = "encryption.yaml";

/// The store with everything on the disk as it should be: readable, and under the newest keys.
pub async fn sealed(
    store: Arc<SqliteStore>,
    directory: &Path,
    configuration: Option<&Path>,
) -> Result<Arc<Sealed>, String> {
    let is_new = !directory.join(FILE).exists();
    let rules = rules(directory, configuration)?;
    let sealed = Sealed::new(store.clone(), rules);
    let progress = |done: usize, total: usize| {
        tracing::info!("encrypting what is not under the newest key: {done} of {total} objects");
    };
    let migrated = sealed.migrate(progress).await.map_err(|error| {
        // A key that was made for data that has another one helps nobody.
        if is_new {
            let _ = std::fs::remove_file(directory.join(FILE));
        }
        error.to_string()
    })?;
    if migrated.rewritten > 0 {
        store
            .shred()
            .await
            .map_err(|error| format!("what was encrypted anew is still there as it was: {error:?}"))?;
    }
    Ok(Arc::new(sealed))
}

fn rules(directory: &Path, configuration: Option<&Path>) -> Result<Rules, String> {
    let own = directory.join(FILE);
    if !own.exists() && configuration.is_none() {
        let text = generate().map_err(|error| error.to_string())?;
        write_private(&own, &text).map_err(|error| error.to_string())?;
    }
    let own = if own.exists() { Some(read(&own)?) } else { None };
    match (configuration.map(read).transpose()?, own) {
        // What was encrypted before there was a configuration can still be read.
        (Some(rules), Some(own)) => Ok(rules.reading_also(own)),
        (Some(rules), None) | (None, Some(rules)) => Ok(rules),
        (None, None) => Err(format!("{} cannot be read", directory.join(FILE).display())),
    }
}

fn read(path: &Path) -> Result<Rules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Rules::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Adds a key, which writes from the next start on. Returns its name.
pub fn rotate(directory: &Path) -> Result<String, String> {
    let path = directory.join(FILE);
    let shown = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| shown(&error))?;
    let (text, name) = with_new_key(&text).map_err(|error| shown(&error))?;
    write_private(&path, &text).map_err(|error| error.to_string())?;
    Ok(name)
}
