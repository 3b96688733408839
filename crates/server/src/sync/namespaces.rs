//! Which namespaces are deleted, in any workspace.

use std::sync::Arc;

use atoll_meta::object;
use atoll_watch::{Event, Scope, Watcher};
use memchr::memmem;

use super::parse;
use crate::Server;

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

    /// The next ones, with their workspaces.
    pub async fn ended(&mut self) -> Vec<(String, String)> {
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
            if !ended.is_empty() {
                return ended;
            }
        }
    }
}

fn ended(event: &Event) -> Option<(String, String)> {
    let seen = event.object.as_ref().or(event.previous.as_ref())?;
    // Most are not, and every view looks at all of them.
    memmem::find(&seen.whole(), b"deletionTimestamp")?;
    let namespace = parse(&seen.json()).ok()?;
    let parts = event.key.parts()?;
    object::is_being_deleted(&namespace).then(|| (parts.workspace.to_string(), parts.name.to_string()))
}
