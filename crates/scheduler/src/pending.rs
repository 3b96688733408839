//! Objects that could not be placed, until an event that may help.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Queue};
use tokio::sync::Notify;

/// The least time between two attempts because of changes elsewhere. Many changes at once, such as the
/// deletion of many objects, are one reason to try again.
const PAUSE: Duration = Duration::from_millis(200);

/// Pending objects by queue key, each with the reason that was reported last.
#[derive(Default)]
pub struct Pending {
    objects: Mutex<HashMap<Key, String>>,
    causes: Mutex<Causes>,
    wake: Notify,
}

/// The objects that are to be tried again.
#[derive(Default)]
struct Causes {
    all: bool,
    /// Ids of workspaces: objects there and in the workspaces below.
    workspaces: HashSet<Arc<str>>,
}

impl Pending {
    /// Adds an object. Returns whether its reason is a new one.
    pub fn insert(&self, key: Key, message: &str) -> bool {
        self.objects().insert(key, message.to_string()).is_none_or(|known| known != message)
    }

    /// Keys of all pending objects. They are sorted, so that decisions about them are always made in the same order.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.objects().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// A copy with a wake-up signal of its own.
    pub fn copy(&self) -> Pending {
        Pending { objects: Mutex::new(self.objects().clone()), ..Pending::default() }
    }

    pub fn remove(&self, key: &Key) {
        self.objects().remove(key);
    }

    /// Reports that a placement has changed, so that pending objects may fit now.
    pub fn retry(&self) {
        self.causes().all = true;
        self.wake.notify_one();
    }

    /// Reports that a cluster of a workspace has changed, which pending objects of the workspace and of those below may fit
    /// now. Others do not depend on it.
    pub fn retry_below(&self, workspace: &Arc<str>) {
        self.causes().workspaces.insert(workspace.clone());
        self.wake.notify_one();
    }

    /// Adds pending objects to the queue after each event that may help, for as long as it is polled. `is_below` tells
    /// whether a workspace is another one or below it.
    pub async fn wake(&self, queue: &Queue, is_below: impl Fn(&str, &str) -> bool) {
        loop {
            self.wake.notified().await;
            self.woken(&is_below).into_iter().for_each(|key| queue.add(key));
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes the causes, and returns the keys of the objects that they concern.
    fn woken(&self, is_below: &impl Fn(&str, &str) -> bool) -> Vec<Key> {
        let causes = std::mem::take(&mut *self.causes());
        let mut keys = self.keys();
        if causes.all {
            return keys;
        }
        let mut concerned: HashMap<Arc<str>, bool> = HashMap::new();
        keys.retain(|key| {
            let is_concerned = || causes.workspaces.iter().any(|other| is_below(&key.workspace, other));
            *concerned.entry(key.workspace.clone()).or_insert_with(is_concerned)
        });
        keys
    }

    fn causes(&self) -> MutexGuard<'_, Causes> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_concern_objects_of_their_workspace_and_below() {
        let pending = Pending::default();
        for workspace in ["root", "ann", "ann:team", "bob"] {
            pending.insert(Key::new(workspace, "2/n", "web"), "it does not fit");
        }
        let is_below = |workspace: &str, other: &str| other == "root" || workspace.starts_with(other);
        let woken = || {
            let keys = pending.woken(&is_below);
            keys.iter().map(|key| key.workspace.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(woken(), "");
        pending.retry_below(&"ann".into());
        assert_eq!(woken(), "ann ann:team");
        assert_eq!(woken(), "", "each cause counts once");
        pending.retry_below(&"root".into());
        assert_eq!(woken().split(' ').count(), 4);
        pending.retry_below(&"bob".into());
        pending.retry();
        assert_eq!(woken().split(' ').count(), 4);
    }

    #[test]
    fn a_reason_is_told_once() {
        let (pending, key) = (Pending::default(), Key::new("w", "2/n", "web"));
        assert!(pending.insert(key.clone(), "east is cordoned"));
        assert!(!pending.insert(key.clone(), "east is cordoned"));
        assert!(pending.insert(key.clone(), "east is full"));
        pending.remove(&key);
        assert!(pending.insert(key, "east is full"));
    }
}
