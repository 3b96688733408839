//! What a syncer is told when it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll_informer::{Clock, SystemClock};
use tokio::sync::Semaphore;

pub use atoll_fleet::view::Drift;

/// What may be done in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Manage,
    /// Nothing is written there, not even that somebody looks.
    Observe,
}

/// Numbers that nobody can foresee.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    /// The name of the Cluster above.
    pub cluster: String,
    /// Who this syncer is, among those of the control plane. One that is started again under the same name goes on at once;
    /// another one waits until the lease of the first has run out.
    pub instance: String,
    pub version: String,
    /// Between heartbeats. Who is not heard of for three of them has lost the lease.
    pub interval: Duration,
    /// The uid that the cluster's namespace `kube-system` must have, if that is known already.
    pub identity: Option<String>,
    /// The id of the workspace that the Cluster is in.
    pub workspace: String,
    pub access: Access,
    /// For what the view says nothing else of.
    pub drift: Drift,
    /// How many requests are made to the cluster at once.
    pub at_once: usize,
    /// Shared by all syncers of a process: how many requests they make at once, all together.
    pub budget: Option<Arc<Semaphore>>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    /// When the credentials for the cluster expire, in seconds since 1970, if that is known; it changes when they are renewed.
    pub expires: Arc<AtomicI64>,
}

impl Settings {
    pub fn new(cluster: &str, instance: &str, random: Random) -> Settings {
        Settings {
            cluster: cluster.into(),
            instance: instance.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            interval: Duration::from_secs(10),
            identity: None,
            workspace: String::new(),
            access: Access::default(),
            drift: Drift::default(),
            at_once: 8,
            budget: None,
            clock: Arc::new(SystemClock),
            random,
            expires: Arc::new(AtomicI64::new(i64::MAX)),
        }
    }

    /// Whether the credentials for the cluster have expired, as far as our clock knows.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires.load(Ordering::Relaxed) <= self.clock.now().seconds
    }

    /// A while, give or take a quarter, so that those who were cut off together do not all come back together.
    pub(crate) fn about(&self, pause: Duration) -> Duration {
        let share = (self.random)() % 1000;
        pause.mul_f64(0.75 + share as f64 / 2000.0)
    }
}
