//! Which namespaces are deleted, or get other Pod Security labels, in any workspace.

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
    /// Being deleted, or gone.
    pub ended: Vec<(String, String)>,
    /// Whose Pod Security labels may have changed.
    pub relabelled: Vec<(String, String)>,
}

/// Tells of each that it is being deleted, or was, beginning with what is still remembered: whoever was away for a while does not
/// miss it. That one is missing is not enough: after an old backup was restored, say, nobody has deleted anything.
pub struct Namespaces {
    server: Arc<Server>,
    watcher: Option<Watcher>,
}

impl Namespaces {
    pub fn follow(server: &Arc<Server>) -> Namespaces {
        Namespaces { server: server.clone(), watcher: None }
    }

    /// The next ones.
    pub async fn changes(&mut self) -> Changes {
        loop {
            let Some(watcher) = self.watcher.as_mut() else {
                let cache = &self.server.registry.cache;
                // Forgotten in between, it is tried again with what is remembered then.
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
    // Most are not, and every view looks at all of them.
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
