//! Namespaces in the workspaces that a cluster serves that are deleted or whose Pod Security labels change.

use std::sync::Arc;

use atoll_fleet::pod_security::LABELS;
use atoll_watch::{Event, Object, Scope, Watcher};
use memchr::memmem;

use crate::Server;

/// Namespaces with their workspaces.
#[derive(Default)]
pub struct NamespaceChanges {
    pub terminating: Vec<TerminatingNamespace>,
    /// With changed Pod Security labels.
    pub relabelled: Vec<(String, String)>,
}

/// A namespace that may be being deleted, or deleted.
pub struct TerminatingNamespace {
    pub place: (String, String),
    /// Its last form. It tells whether it is.
    pub seen: Arc<Object>,
}

/// Reports namespaces that are being deleted or were deleted, starting with the oldest revision in the
/// history, so that a syncer that was disconnected does not miss them. A namespace that is merely missing was
/// not necessarily deleted: an old backup may have been restored.
pub struct NamespaceWatch {
    server: Arc<Server>,
    /// The workspace whose namespaces, and those of its descendants, are reported.
    workspace: String,
    watcher: Option<Watcher>,
}

impl NamespaceWatch {
    pub fn new(server: &Arc<Server>, workspace: &str) -> NamespaceWatch {
        NamespaceWatch { server: server.clone(), workspace: workspace.to_owned(), watcher: None }
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
            // Nothing is awaited from here on: the caller may stop to wait, and would lose the events.
            let terminating: Vec<TerminatingNamespace> =
                events.iter().filter_map(|event| self.may_be_terminating(event)).collect();
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

    /// Returns the namespace of an event, if it may be being deleted and the cluster serves its workspace. Every
    /// view sees the namespaces of all tenants, most of which are not being deleted.
    fn may_be_terminating(&self, event: &Event) -> Option<TerminatingNamespace> {
        let seen = event.object.as_ref().or(event.previous.as_ref())?;
        memmem::find(&seen.json_cow(), b"deletionTimestamp")?;
        let place = key_of(event)?;
        let ancestry = self.server.registry.ancestry(&place.0);
        ancestry.contains(&self.workspace).then(|| TerminatingNamespace { place, seen: seen.clone() })
    }
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
