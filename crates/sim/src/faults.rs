//! What goes wrong with a simulated cluster just now.
//!
//! A [`FaultSet`] is a value that answers questions; [`Faults`] is the place where the current one is, for everybody who has
//! to do with the cluster. Faults add up: two that make the network slow make it slower.

mod pattern;
mod text;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Answers and events of watches are late, by chance later still.
    Slow { latency: Duration, jitter: Duration },
    /// This part of connections, answers and events gets lost, from 0 to 1.
    Lossy { rate: f64 },
    /// Clients outside hear and are heard no more.
    PartitionClients,
    /// These nodes hear and are heard no more; what runs on them goes on.
    PartitionNodes { nodes: Vec<String> },
    /// Containers of images that fit this pattern end as soon as they have begun.
    CrashLoop { image: String },
    /// The node has no room left and says so.
    FullNode { node: String },
    /// The node has stopped, with all that ran on it.
    DeadNode { node: String },
    /// The cluster has stopped.
    DeadCluster,
    /// A version of a group is not served.
    MissingApi { group: String, version: String },
    /// The cluster's clock is ahead, or behind.
    ClockSkew { seconds: i64 },
}

/// Everything that goes wrong at one time, each with the number it is removed by.
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

    /// How late things are at least.
    pub fn latency(&self) -> Duration {
        let latency = self.all().map(|fault| match fault {
            Fault::Slow { latency, .. } => *latency,
            _ => Duration::ZERO,
        });
        latency.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// How much later than that they may be.
    pub fn jitter(&self) -> Duration {
        let jitter = self.all().map(|fault| match fault {
            Fault::Slow { jitter, .. } => *jitter,
            _ => Duration::ZERO,
        });
        jitter.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Which part gets lost.
    pub fn loss(&self) -> f64 {
        let arrives =
            self.all().map(|fault| if let Fault::Lossy { rate } = fault { 1.0 - rate } else { 1.0 });
        1.0 - arrives.product::<f64>()
    }

    pub fn cuts_clients(&self) -> bool {
        self.all().any(|fault| *fault == Fault::PartitionClients)
    }

    /// Whether a node cannot reach its cluster's API, nor be reached.
    pub fn cuts_node(&self, name: &str) -> bool {
        self.all().any(|fault| matches!(fault, Fault::PartitionNodes { nodes } if has(nodes, name)))
    }

    /// Whether a node has stopped, with all that ran on it.
    pub fn is_dead(&self, name: &str) -> bool {
        self.all().any(|fault| match fault {
            Fault::DeadNode { node } => node == name,
            Fault::DeadCluster => true,
            _ => false,
        })
    }

    /// Whether a node has no room left.
    pub fn is_full(&self, name: &str) -> bool {
        self.all().any(|fault| matches!(fault, Fault::FullNode { node } if node == name))
    }

    /// Whether containers of an image end as soon as they have begun.
    pub fn crashes(&self, image: &str) -> bool {
        self.all()
            .any(|fault| matches!(fault, Fault::CrashLoop { image: like } if pattern::fits(like, image)))
    }

    /// Whether the whole cluster has stopped.
    pub fn is_down(&self) -> bool {
        self.all().any(|fault| *fault == Fault::DeadCluster)
    }

    /// Groups and versions that are not served, in order.
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

    /// By how many seconds the clock is ahead.
    pub fn skew(&self) -> i64 {
        let skew =
            self.all().map(|fault| if let Fault::ClockSkew { seconds } = fault { *seconds } else { 0 });
        skew.fold(0, i64::saturating_add)
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

/// How many faults there may be at once.
const MOST: usize = 1000;

/// The faults of one cluster, shared by all that they concern.
pub struct Faults {
    current: watch::Sender<Arc<FaultSet>>,
    /// The number that was given out last.
    last: Mutex<u64>,
}

/// There are too many already.
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

    /// Tells of every change.
    pub fn follow(&self) -> watch::Receiver<Arc<FaultSet>> {
        self.current.subscribe()
    }

    /// Begins one; returns the number that it is removed by.
    pub fn add(&self, fault: Fault) -> Result<u64, TooMany> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = FaultSet::clone(&self.now());
        if next.faults.len() >= MOST {
            return Err(TooMany);
        }
        *last += 1;
        next.faults.push((*last, fault));
        self.current.send_replace(Arc::new(next));
        Ok(*last)
    }

    /// There are these and no others; too many are as many as there may be.
    pub fn replace(&self, mut faults: Vec<(u64, Fault)>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        faults.truncate(MOST);
        *last = faults.iter().map(|(number, _)| *number).fold(*last, u64::max);
        if self.now().faults != faults {
            self.current.send_replace(Arc::new(FaultSet { faults }));
        }
    }

    /// Ends one; says whether there was such a one.
    pub fn remove(&self, number: u64) -> bool {
        let _alone = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = FaultSet::clone(&self.now());
        let before = next.faults.len();
        next.faults.retain(|(known, _)| *known != number);
        let removed = next.faults.len() < before;
        if removed {
            self.current.send_replace(Arc::new(next));
        }
        removed
    }

    /// Ends all of them; says how many there were.
    pub fn clear(&self) -> usize {
        let _alone = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.now().faults.len();
        if count > 0 {
            self.current.send_replace(Arc::default());
        }
        count
    }
}

#[cfg(test)]
mod tests;
