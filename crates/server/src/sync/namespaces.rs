//! Namespaces in all workspaces that are deleted or whose Pod Security labels change.

use std::sync::Arc;

use atoll_fleet::pod_security::LABELS;
use atoll_meta::object;
use atoll_watch::{Event, Object, Scope, Watcher};
use memchr::memmem;

use super::parse;
use crate::Server;

/// Namespaces with their workspaces.
#[derive(Default)]
pub struct NamespaceChanges {
    /// Being deleted, or deleted.
    pub terminating: Vec<(String, String)>,
    /// With changed Pod Security labels.
    pub relabelled: Vec<(String, String)>,
}

/// Reports namespaces that are being deleted or were deleted, starting with the oldest revision in the
/// history, so that a syncer that was disconnected does not miss them. A namespace that is merely missing was
/// not necessarily deleted: an old backup may have been restored.
pub struct NamespaceWatch {
    server: Arc<Server>,
    watcher: Option<Watcher>,
}

impl NamespaceWatch {
    pub fn new(server: &Arc<Server>) -> NamespaceWatch {
        NamespaceWatch { server: server.clone(), watcher: None }
    }

    /// Waits for the next changes.
    pub async fn changes(&mut self) -> NamespaceChanges {
        loop {
            let Some(watcher) = self.watcher.as_mut() else {
                let cache = &self.server.registry.cache;
                // If the revision was compacted in between, try again with the oldest one.
                self.watcher = cache.watch(Scope::new("", "namespaces", None, None), cache.oldest()).ok();
                if self.watcher.is_none() {
                    tokio::task::yield_now().await;
                }
                continue;
            };
            let Ok(events) = watcher.next().await else {
                self.watcher = None;
                continue;
            };
            let terminating: Vec<(String, String)> =
                events.iter().filter_map(|event| terminating(event)).collect();
            let relabelled: Vec<(String, String)> = events
                .iter()
                .filter(|event| is_relabelled(event))
                .filter_map(|event| key_of(event))
                .collect();
            if !terminating.is_empty() || !relabelled.is_empty() {
                return NamespaceChanges { terminating, relabelled };
            }
        }
    }
}

fn terminating(event: &Event) -> Option<(String, String)> {
    let seen = event.object.as_ref().or(event.previous.as_ref())?;
    // Cheap check first: most namespaces are not being deleted, and every view looks at all of them.
    memmem::find(&seen.json_cow(), b"deletionTimestamp")?;
    let namespace = parse(&seen.json()).ok()?;
    object::is_being_deleted(&namespace).then(|| key_of(event)).flatten()
}

fn is_relabelled(event: &Event) -> bool {
    let mut labels = LABELS.iter().flat_map(|(level, version)| [*level, *version]);
    event.object.is_some()
        && labels.any(|key| label(event.object.as_deref(), key) != label(event.previous.as_deref(), key))
}

fn label<'a>(object: Option<&'a Object>, key: &str) -> Option<&'a str> {
    object.and_then(|object| object.facts.label(key))
}

fn key_of(event: &Event) -> Option<(String, String)> {
    let parts = event.key.parts()?;
    Some((parts.workspace.to_string(), parts.name.to_string()))
}
