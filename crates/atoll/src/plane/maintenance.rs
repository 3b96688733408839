//! Periodic maintenance of a running control plane.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use atoll_authn::service_account;
use atoll_registry::{definitions, expiry, imports};
use atoll_server::Server;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::settings::PlaneSettings;

/// Starts everything that keeps the data of a server in order.
pub fn start(tasks: &mut JoinSet<()>, server: &Arc<Server>, settings: &PlaneSettings) {
    tasks.spawn(rotate_token_keys(server.clone(), settings.directory.clone(), settings.key_days));
    tasks.spawn(compact_history(server.clone(), settings.history));
    if let Some(events) = server.registry.catalog.stored("", "events") {
        tasks.spawn(expiry::expire(server.registry.clone(), events.clone(), expiry::EVENT_TTL));
    }
    tasks.spawn(definitions::run(server.registry.clone()));
    tasks.spawn(imports::run(server.registry.clone()));
}

/// Removes old history from memory, then from the disk. Large objects that change often fill the disk quickly, so what
/// they have displaced from memory is removed every second.
async fn compact_history(server: Arc<Server>, age: Duration) {
    let every = (age / 5).clamp(Duration::from_secs(1), Duration::from_secs(60));
    let (mut interval, mut due) = (tokio::time::interval(Duration::from_secs(1)), Instant::now());
    loop {
        interval.tick().await;
        if Instant::now() < due && !server.registry.cache.has_full_history() {
            continue;
        }
        due = Instant::now() + every;
        let through = server.registry.cache.expire(age);
        server.registry.placements.parsed.clear();
        if let Err(error) = server.registry.store.compact(through).await {
            tracing::warn!(?error, "cannot compact old revisions; will retry");
        }
    }
}

/// Reloads token keys that were changed on disk, and rotates a key that is too old.
async fn rotate_token_keys(server: Arc<Server>, directory: PathBuf, days: u32) {
    let longest = Duration::from_secs(u64::from(days) * 86_400);
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    loop {
        interval.tick().await;
        let Some(tokens) = &server.tokens else { return };
        let replaced = match days > 0 && tokens.keys.age(SystemTime::now()) > longest {
            true => service_account::rotate(&directory)
                .map(|id| tracing::info!(id, "rotated the key that signs ServiceAccount tokens")),
            false => Ok(()),
        };
        if let Err(error) = replaced.and_then(|()| tokens.keys.refresh()) {
            tracing::warn!(%error, "cannot read or rotate the ServiceAccount token keys; using those in memory");
        }
    }
}
