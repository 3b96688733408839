//! Namespaces above that are being deleted, until the namespaces below are gone.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Locator;
use atoll_informer::Key;
use tokio::time::Instant;

use super::namespace_worker;
use super::{Namespaces, namespace_key};

/// How long a namespace may wait for objects that the garbage collector should delete.
const DELETION_GRACE: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct TerminatingNamespace {
    /// When the deletion of the namespace below was first tried.
    since: Option<Instant>,
    /// The namespace above, if it waits for the deletion.
    awaited: Option<AwaitedNamespace>,
    /// Last reported reason why the namespace below still exists.
    reported: String,
}

/// A namespace above whose deletion waits for the cluster: its uid, and the revision at which the deletion
/// was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedNamespace {
    pub uid: String,
    pub since: u64,
}

impl Namespaces {
    /// Records that the namespace above is being deleted.
    pub fn set_terminating(&self, workspace: &str, namespace: &str, awaited: Option<AwaitedNamespace>) {
        let mut terminating = self.terminating();
        let entry = terminating.entry((workspace.to_string(), namespace.to_string())).or_default();
        if awaited.is_some() {
            entry.awaited = awaited;
        }
    }

    /// Starts a round: the view will list the waiting namespaces again.
    pub fn begin_round(&self) {
        self.terminating().retain(|_, terminating| terminating.awaited.is_none());
    }

    /// Records that objects are placed in the namespace again: it was recreated, unless its deletion is
    /// known to wait.
    pub fn clear_terminating(&self, workspace: &str, namespace: &str) {
        let mut terminating = self.terminating();
        let key = (workspace.to_string(), namespace.to_string());
        if terminating.get(&key).is_some_and(|terminating| terminating.awaited.is_none()) {
            terminating.remove(&key);
        }
    }

    /// Ends the deletion. Returns the namespace above that waits for it.
    pub fn finish_terminating(&self, locator: &Locator) -> Option<AwaitedNamespace> {
        let terminating = self.terminating().remove(&(locator.workspace.clone(), locator.namespace.clone()));
        terminating.and_then(|terminating| terminating.awaited)
    }

    pub fn is_awaited(&self, locator: &Locator) -> bool {
        let terminating = self.terminating();
        let terminating = terminating.get(&(locator.workspace.clone(), locator.namespace.clone()));
        terminating.is_some_and(|terminating| terminating.awaited.is_some())
    }

    /// Records why a namespace still exists. Returns the namespace above that waits for it, unless the reason
    /// was reported before.
    pub fn record_reason(&self, locator: &Locator, why: &str) -> Option<AwaitedNamespace> {
        let mut terminating = self.terminating();
        let terminating =
            terminating.get_mut(&namespace_key(locator)).filter(|terminating| terminating.reported != why)?;
        terminating.reported = why.to_string();
        terminating.awaited.clone()
    }

    pub fn is_terminating_above(&self, locator: &Locator) -> bool {
        self.terminating().contains_key(&(locator.workspace.clone(), locator.namespace.clone()))
    }

    /// Returns the queue keys of namespaces that are being deleted.
    pub fn terminating_keys(&self) -> Vec<Key> {
        self.terminating()
            .keys()
            .map(|(workspace, namespace)| namespace_worker::key(workspace, namespace))
            .collect()
    }

    /// Whether to keep waiting for objects that the garbage collector should delete.
    pub fn is_within_grace(&self, locator: &Locator) -> bool {
        let mut terminating = self.terminating();
        let terminating =
            terminating.entry((locator.workspace.clone(), locator.namespace.clone())).or_default();
        terminating.since.get_or_insert_with(Instant::now).elapsed() < DELETION_GRACE
    }

    fn terminating(&self) -> MutexGuard<'_, HashMap<(String, String), TerminatingNamespace>> {
        self.terminating.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
