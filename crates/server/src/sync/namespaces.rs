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
pub struct Changes {
    /// Being deleted, or deleted.
    pub ended: Vec<(String, String)>,
    /// With changed Pod Security labels.
    pub relabelled: Vec<(String, String)>,
}

/// Reports namespaces that are being deleted or were deleted, starting with the oldest revision in the
/// history, so that a syncer that was disconnected does not miss them. A namespace that is merely missing was
/// not necessarily deleted: an old backup may have been restored.
pub struct Namespaces {
    server: Arc<Server>,
    watcher: Option<Watcher>,
}

impl Namespaces {
    pub fn follow(server: &Arc<Server>) -> Namespaces {
        Namespaces { server: server.clone(), watcher: None }
    }

    /// Waits for the next changes.
    pub async fn changes(&mut self) -> Changes {
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
            let ended: Vec<(String, String)> = events.iter().filter_map(|event| ended(event)).collect();
            let relabelled: Vec<(String, String)> =
                events.iter().filter(|event| is_relabelled(event)).filter_map(|event| place(event)).collect();
            if !ended.is_empty() || !relabelled.is_empty() {
                return Changes { ended, relabelled };
            }
        }
    }
}

fn ended(event: &Event) -> Option<(String, String)> {
    let seen = event.object.as_ref().or(event.previous.as_ref())?;
    // Cheap check first: most namespaces are not being deleted, and every view looks at all of them.
    memmem::find(&seen.whole(), b"deletionTimestamp")?;
    let namespace = parse(&seen.json()).ok()?;
    object::is_being_deleted(&namespace).then(|| place(event)).flatten()
}

fn is_relabelled(event: &Event) -> bool {
    let mut labels = LABELS.iter().flat_map(|(level, version)| [*level, *version]);
    event.object.is_some()
        && labels.any(|key| label(event.object.as_deref(), key) != label(event.previous.as_deref(), key))
}

fn label<'a>(object: Option<&'a Object>, key: &str) -> Option<&'a str> {
    object.and_then(|object| object.facts.label(key))
}

fn place(event: &Event) -> Option<(String, String)> {
    let parts = event.key.parts()?;
    Some((parts.workspace.to_string(), parts.name.to_string()))
}
