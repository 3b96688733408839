//! Settings of a syncer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll_informer::{Clock, SystemClock};
use tokio::sync::Semaphore;

pub use atoll_fleet::view::Drift;

/// Access to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Manage,
    /// Read-only access: not even the lease is written.
    Observe,
}

/// Source of unpredictable numbers.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    /// Name of the Cluster above.
    pub cluster: String,
    /// Identity of this syncer among those of the control plane. A syncer restarted with the same instance
    /// continues at once; another one waits until the lease expires.
    pub instance: String,
    pub version: String,
    /// Interval of heartbeats. The lease expires after three of them.
    pub interval: Duration,
    /// Pinned uid of the cluster's namespace `kube-system`, if known.
    pub identity: Option<String>,
    /// Id of the registering workspace.
    pub workspace: String,
    pub access: Access,
    /// Default drift policy.
    pub drift: Drift,
    /// Concurrent requests to the cluster.
    pub at_once: usize,
    /// Limit on concurrent requests of all syncers of a process.
    pub budget: Option<Arc<Semaphore>>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    /// Expiry of the credentials in seconds since 1970, if known; updated when they are renewed.
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

    /// Whether the credentials have expired by the local clock.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires.load(Ordering::Relaxed) <= self.clock.now().seconds
    }

    /// Returns a duration with 25% jitter, so that syncers do not reconnect all at once.
    pub(crate) fn jitter(&self, pause: Duration) -> Duration {
        let share = (self.random)() % 1000;
        pause.mul_f64(0.75 + share as f64 / 2000.0)
    }
}
