//! Event expiry: an Event is deleted one hour after its last write.

// upstream: pkg/registry/core/event/storage/storage.go

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use atoll_store::{Key, Revision};
use tokio::time::{Instant, sleep_until};

use crate::{DeleteOptions, NoAdmission, ObjectRef, Registry, Row, parse};

/// Upstream's default.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Pending expirations in order: all have the same TTL.
type Due = VecDeque<(Instant, Key, Revision)>;

/// Deletes objects of `row` that have not been written for `ttl`, for as long as the server runs.
pub async fn expire(registry: Arc<Registry>, row: Arc<Row>, ttl: Duration) {
    loop {
        let snapshot = registry.snapshot();
        let Ok(mut watcher) = registry.cache.watch(row.scope(None, ""), snapshot.revision) else { continue };
        let mut due = existing(&registry, &row, &snapshot, ttl);
        drop(snapshot);
        loop {
            let next = due.front().map_or_else(|| Instant::now() + ttl, |(when, ..)| *when);
            tokio::select! {
                events = watcher.next() => match events {
                    Ok(events) => {
                        let when = Instant::now() + ttl;
                        let written = events.iter().filter_map(|event| event.object.as_ref());
                        due.extend(written.map(|object| (when, object.key.clone(), object.revision)));
                    }
                    // The watch expired: start again from the current snapshot.
                    Err(_expired) => break,
                },
                () = sleep_until(next) => {
                    if let Some((_, key, revision)) = due.pop_front_if(|(when, ..)| *when <= Instant::now()) {
                        delete(&registry, &row, &key, revision).await;
                    }
                }
            }
        }
    }
}

/// The expirations at startup, computed from the creation times.
fn existing(registry: &Registry, row: &Row, snapshot: &atoll_watch::Snapshot, ttl: Duration) -> Due {
    let now = registry.clock.seconds();
    let scope = row.scope(None, "");
    let mut due: Vec<_> = snapshot
        .list(&scope, None)
        .map(|object| {
            let created = parse(&object.json()).ok().and_then(|value| {
                atoll_meta::time::parse(atoll_meta::object::creation_timestamp(&value)?).ok()
            });
            let age = created.map_or(0, |created| now - created.seconds);
            let left = ttl.saturating_sub(Duration::from_secs(u64::try_from(age).unwrap_or(0)));
            (Instant::now() + left, object.key.clone(), object.revision)
        })
        .collect();
    due.sort_by_key(|(when, ..)| *when);
    due.into()
}

/// Deletes an object if it has not changed since `revision`.
async fn delete(registry: &Registry, row: &Row, key: &Key, revision: Revision) {
    let Some(parts) = key.parts() else { return };
    let object_ref = ObjectRef { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
    let options = DeleteOptions { resource_version: Some(revision.to_string()), ..DeleteOptions::default() };
    if let Err(status) = registry.delete(row, &object_ref, &options, &NoAdmission).await
        && !matches!(status.reason(), "NotFound" | "Conflict")
    {
        tracing::warn!(%status, "cannot delete an expired Event");
    }
}
