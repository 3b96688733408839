//! Faults of a simulated cluster.
//!
//! A [`FaultSet`] is an immutable value; [`Faults`] holds the current one for all parts of the cluster.
//! Faults add up: two latencies are added.

mod pattern;
mod text;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Responses and watch events are delayed, by the latency plus a random jitter.
    Slow { latency: Duration, jitter: Duration },
    /// This fraction of connections, responses and events is lost, from 0 to 1.
    Lossy { rate: f64 },
    /// External clients are disconnected.
    PartitionClients,
    /// These nodes are disconnected; their pods continue to run.
    PartitionNodes { nodes: Vec<String> },
    /// Containers of images that match this pattern end right after their start.
    CrashLoop { image: String },
    /// The node has disk pressure.
    FullNode { node: String },
    /// The node is stopped, with all its pods.
    DeadNode { node: String },
    /// The cluster is stopped.
    DeadCluster,
    /// A version of an API group is not served.
    MissingApi { group: String, version: String },
    /// The cluster's clock is ahead or behind.
    ClockSkew { seconds: i64 },
}

/// All faults at one time, each with the number by which it is removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSet {
    faults: Vec<(u64, Fault)>,
}

impl FaultSet {
    pub fn list(&self) -> &[(u64, Fault)] {
        &self.faults
    }

    fn all(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().map(|(_, fault)| fault)
    }

    /// Returns the minimum delay.
    pub fn latency(&self) -> Duration {
        let latency = self.all().map(|fault| match fault {
            Fault::Slow { latency, .. } => *latency,
            _ => Duration::ZERO,
        });
        latency.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Returns the maximum additional delay.
    pub fn jitter(&self) -> Duration {
        let jitter = self.all().map(|fault| match fault {
            Fault::Slow { jitter, .. } => *jitter,
            _ => Duration::ZERO,
        });
        jitter.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Returns the fraction that is lost.
    pub fn loss(&self) -> f64 {
        let arrives =
            self.all().map(|fault| if let Fault::Lossy { rate } = fault { 1.0 - rate } else { 1.0 });
        1.0 - arrives.product::<f64>()
    }

    pub fn cuts_clients(&self) -> bool {
        self.all().any(|fault| *fault == Fault::PartitionClients)
    }

    /// Whether a node is disconnected from the API.
    pub fn cuts_node(&self, name: &str) -> bool {
        self.all().any(|fault| matches!(fault, Fault::PartitionNodes { nodes } if has(nodes, name)))
    }

    /// Whether a node is stopped.
    pub fn is_dead(&self, name: &str) -> bool {
        self.all().any(|fault| match fault {
            Fault::DeadNode { node } => node == name,
            Fault::DeadCluster => true,
            _ => false,
        })
    }

    /// Whether a node has disk pressure.
    pub fn is_full(&self, name: &str) -> bool {
        self.all().any(|fault| matches!(fault, Fault::FullNode { node } if node == name))
    }

    /// Whether containers of an image end right after their start.
    pub fn crashes(&self, image: &str) -> bool {
        self.all()
            .any(|fault| matches!(fault, Fault::CrashLoop { image: like } if pattern::fits(like, image)))
    }

    /// Whether the whole cluster is stopped.
    pub fn is_down(&self) -> bool {
        self.all().any(|fault| *fault == Fault::DeadCluster)
    }

    /// Returns the groups and versions that are not served, sorted.
    pub fn missing(&self) -> Vec<(String, String)> {
        let missing = self.all().filter_map(|fault| match fault {
            Fault::MissingApi { group, version } => Some((group.clone(), version.clone())),
            _ => None,
        });
        let mut missing: Vec<(String, String)> = missing.collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Returns the seconds by which the clock is ahead.
    pub fn skew(&self) -> i64 {
        let skew =
            self.all().map(|fault| if let Fault::ClockSkew { seconds } = fault { *seconds } else { 0 });
        skew.fold(0, i64::saturating_add)
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

/// Maximum number of faults.
const MAX_FAULTS: usize = 1000;

/// The faults of one cluster, shared by all its parts.
pub struct Faults {
    current: watch::Sender<Arc<FaultSet>>,
    /// The last number that was assigned.
    last: Mutex<u64>,
}

/// Error if the maximum number of faults is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Default for Faults {
    fn default() -> Self {
        Faults { current: watch::channel(Arc::default()).0, last: Mutex::default() }
    }
}

impl Faults {
    pub fn now(&self) -> Arc<FaultSet> {
        self.current.borrow().clone()
    }

    /// Subscribes to changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<FaultSet>> {
        self.current.subscribe()
    }

    /// Adds a fault, and returns the number by which it is removed.
    pub fn add(&self, fault: Fault) -> Result<u64, TooMany> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = FaultSet::clone(&self.now());
        if next.faults.len() >= MAX_FAULTS {
            return Err(TooMany);
        }
        *last += 1;
        next.faults.push((*last, fault));
        self.current.send_replace(Arc::new(next));
        Ok(*last)
    }

    /// Replaces all faults. Faults beyond the maximum are dropped.
    pub fn replace(&self, mut faults: Vec<(u64, Fault)>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        faults.truncate(MAX_FAULTS);
        *last = faults.iter().map(|(number, _)| *number).fold(*last, u64::max);
        if self.now().faults != faults {
            self.current.send_replace(Arc::new(FaultSet { faults }));
        }
    }

    /// Removes a fault. Returns whether it existed.
    pub fn remove(&self, number: u64) -> bool {
        let _guard = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = FaultSet::clone(&self.now());
        let before = next.faults.len();
        next.faults.retain(|(known, _)| *known != number);
        let removed = next.faults.len() < before;
        if removed {
            self.current.send_replace(Arc::new(next));
        }
        removed
    }

    /// Removes all faults, and returns their number.
    pub fn clear(&self) -> usize {
        let _guard = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.now().faults.len();
        if count > 0 {
            self.current.send_replace(Arc::default());
        }
        count
    }
}

#[cfg(test)]
mod tests;
