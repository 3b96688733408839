//! The clusters that a control plane can send requests to at this moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::cluster_api::ClusterApi;
use crate::memory_limits::Budget;

/// The connected clusters, by the uid of the Cluster. A cluster has one connection: the newest.
#[derive(Default)]
pub struct ConnectedClusters {
    connected: Mutex<Connected>,
}

#[derive(Default)]
struct Connected {
    clusters: HashMap<String, Entry>,
    /// Number of connections so far.
    last: u64,
}

struct Entry {
    cluster: ConnectedCluster,
    number: u64,
    /// Dropped when a newer connection replaces this one.
    _current: oneshot::Sender<()>,
}

/// A cluster that requests can be sent to.
#[derive(Clone)]
pub struct ConnectedCluster {
    pub api: Arc<dyn ClusterApi>,
    /// Memory that responses of the cluster may use.
    pub budget: Arc<Budget>,
}

/// A connection to a cluster, which counts until this is dropped.
pub struct LiveConnection {
    clusters: Arc<ConnectedClusters>,
    uid: String,
    number: u64,
    replaced: oneshot::Receiver<()>,
}

impl ConnectedClusters {
    /// Adds the connection of a cluster, which replaces an earlier one.
    pub fn connect(self: &Arc<Self>, uid: &str, cluster: ConnectedCluster) -> LiveConnection {
        let (current, replaced) = oneshot::channel();
        let mut connected = self.connected();
        connected.last += 1;
        let number = connected.last;
        connected.clusters.insert(uid.to_string(), Entry { cluster, number, _current: current });
        LiveConnection { clusters: self.clone(), uid: uid.to_string(), number, replaced }
    }

    pub fn get(&self, uid: &str) -> Option<ConnectedCluster> {
        self.connected().clusters.get(uid).map(|entry| entry.cluster.clone())
    }

    pub fn has(&self, uid: &str) -> bool {
        self.connected().clusters.contains_key(uid)
    }

    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveConnection {
    /// Resolves when a newer connection of the cluster has replaced this one.
    pub async fn replaced(&mut self) {
        // No value is ever sent: the sender is dropped.
        let _ = (&mut self.replaced).await;
    }
}

impl Drop for LiveConnection {
    fn drop(&mut self) {
        let mut connected = self.clusters.connected();
        if connected.clusters.get(&self.uid).is_some_and(|entry| entry.number == self.number) {
            connected.clusters.remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};

    use super::*;
    use crate::cluster_api::Upgrade;
    use crate::{BoxError, BoxFuture, ResponseBody, Transport};

    struct Nothing;

    impl Transport for Nothing {
        fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            Box::pin(std::future::pending())
        }
    }

    impl ClusterApi for Nothing {
        fn upgrade(&self, _: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>> {
            Box::pin(std::future::pending())
        }

        fn forward(
            &self,
            request: Request<Bytes>,
        ) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            self.send(request)
        }

        fn unread_limit(&self) -> usize {
            0
        }
    }

    fn cluster() -> ConnectedCluster {
        ConnectedCluster { api: Arc::new(Nothing), budget: Budget::new(1) }
    }

    #[tokio::test]
    async fn newest_connection_of_a_cluster_counts() {
        let clusters = Arc::new(ConnectedClusters::default());
        let mut first = clusters.connect("u", cluster());
        let other = clusters.connect("v", cluster());
        let newer = cluster();
        let mut second = clusters.connect("u", newer.clone());
        first.replaced().await;
        drop(first);
        let found = clusters.get("u").expect("the newer connection");
        assert!(Arc::ptr_eq(&found.budget, &newer.budget), "the end of the older one changes nothing");
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, second.replaced());
        assert!(waiting.await.is_err(), "nothing has replaced it");
        drop(second);
        assert!(!clusters.has("u") && clusters.has("v"));
        drop(other);
        assert!(clusters.get("v").is_none());
    }
}
