//! Clusters whose health has changed, or the terms on which they accept objects.
//!
//! Many objects may depend on a cluster, and a listener of a cache delays all other listeners. So a listener only notes
//! the change. A worker finds the objects, and the cluster is throttled afterwards: changes that follow each other quickly
//! are handled together.

use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, Key, Next, Queue};
use atoll_meta::object;
use serde_json::Value;
use tokio::time::Instant;

use super::cluster_lookup::{self, AcceptanceTerms};

/// Changes that are handled or throttled at the same time, in all and of one workspace.
const AT_ONCE: usize = 64;
const PER_WORKSPACE: usize = 1;
/// A worker pauses after a change for this multiple of the time that it took to find the objects.
const PAUSE_FACTOR: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Whether its reports are current.
    Health,
    /// Whether it accepts objects that are not placed yet, and from which workspaces.
    Terms,
}

impl ClusterChange {
    fn name(self) -> &'static str {
        match self {
            ClusterChange::Health => "health",
            ClusterChange::Terms => "terms",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct ChangedCluster {
    pub what: ClusterChange,
    /// Id of the workspace in which the cluster is registered.
    workspace: Arc<str>,
    name: String,
    uid: String,
}

impl ChangedCluster {
    /// Names have no slash.
    fn key(&self) -> Key {
        let ChangedCluster { what, workspace, name, uid } = self;
        Key::new(workspace, what.name(), &format!("{name}/{uid}"))
    }

    fn of(key: &Key) -> Option<ChangedCluster> {
        let what = [ClusterChange::Health, ClusterChange::Terms];
        let what = what.into_iter().find(|what| what.name() == &*key.namespace)?;
        let (name, uid) = key.name.split_once('/')?;
        let (name, uid) = (name.to_string(), uid.to_string());
        Some(ChangedCluster { what, workspace: key.workspace.clone(), name, uid })
    }

    /// The index keys of what depends on the cluster. Old placements have no uids.
    pub fn index_keys(&self) -> [String; 2] {
        [index_key(&self.name, &self.uid), index_key(&self.name, "")]
    }

    /// Whether a workspace is the one of the cluster or below it.
    pub fn serves(&self, api: &ApiScope, workspace: &str) -> bool {
        api.ancestry(workspace).iter().any(|(id, _)| **id == *self.workspace)
    }
}

/// The index key of what depends on a cluster. Clusters of several workspaces may have the same name.
pub fn index_key(name: &str, uid: &str) -> String {
    if uid.is_empty() { name.to_string() } else { format!("{name}/{uid}") }
}

/// The index key of the cluster of a report.
pub fn of_report(record: &Value) -> Option<String> {
    let text = |field: &str| record["spec"][field].as_str();
    Some(index_key(text("cluster")?, text("clusterUID").unwrap_or_default()))
}

/// Calls a function for each change of a cluster, until it is dropped.
pub async fn follow(clusters: &Cache, affected: impl Fn(&ChangedCluster) + Send + Sync + 'static) {
    let (queue, affected) = (Queue::new(), Arc::new(affected));
    let adding = queue.clone();
    clusters.listen(move |change| {
        let [old, new] = [&change.old, &change.new].map(Option::as_deref);
        let note = |what: ClusterChange| {
            let (name, uid) = (change.key.name.to_string(), object::uid(change.object()).to_string());
            let workspace = change.key.workspace.clone();
            adding.add(ChangedCluster { what, workspace, name, uid }.key());
        };
        if old.map(AcceptanceTerms::of) != new.map(AcceptanceTerms::of) {
            note(ClusterChange::Terms);
        }
        if old.map(cluster_lookup::health) != new.map(cluster_lookup::health) {
            note(ClusterChange::Health);
        }
    });
    let work = |key: Key| {
        let affected = affected.clone();
        async move {
            let begun = Instant::now();
            ChangedCluster::of(&key).iter().for_each(|cluster| affected(cluster));
            // Changes in the meantime are handled afterwards.
            tokio::time::sleep(begun.elapsed() * PAUSE_FACTOR).await;
            Ok(Next::Done)
        }
    };
    queue.work_with_share("objects of changed clusters", AT_ONCE, PER_WORKSPACE, work).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_found_by_their_keys() {
        for what in [ClusterChange::Health, ClusterChange::Terms] {
            let (workspace, name, uid) = ("w".into(), "east".to_string(), "1/2".to_string());
            let cluster = ChangedCluster { what, workspace, name, uid };
            assert_eq!(ChangedCluster::of(&cluster.key()), Some(cluster));
        }
    }
}
