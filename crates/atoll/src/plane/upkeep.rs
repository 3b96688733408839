//! What has to be done every now and then for as long as a plane runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use atoll_authn::service_account;
use atoll_server::Server;

/// Old history goes from memory, then from the disk.
pub async fn forget_the_past(server: Arc<Server>, age: Duration) {
    let mut interval =
        tokio::time::interval((age / 5).clamp(Duration::from_secs(1), Duration::from_secs(60)));
    loop {
        interval.tick().await;
        let through = server.registry.cache.expire(age);
        if let Err(error) = server.registry.store.compact(through).await {
            tracing::warn!(?error, "old revisions could not be removed; the next try is in a minute");
        }
    }
}

/// Keys that were replaced are taken over, and one that is old is replaced.
pub async fn replace_token_keys(server: Arc<Server>, directory: PathBuf, days: u32) {
    let longest = Duration::from_secs(u64::from(days) * 86_400);
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    loop {
        interval.tick().await;
        let Some(tokens) = &server.tokens else { return };
        let replaced = match days > 0 && tokens.keys.age(SystemTime::now()) > longest {
            true => {
                service_account::rotate(&directory).map(|id| tracing::info!(id, "a new key signs tokens"))
            }
            false => Ok(()),
        };
        if let Err(error) = replaced.and_then(|()| tokens.keys.refresh()) {
            tracing::warn!(%error, "the keys of tokens cannot be read or replaced; those in memory are used");
        }
    }
}
