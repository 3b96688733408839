//! When the share of a cluster that is not Ready is replaced, and when it may return.

use crate::cluster::{ClusterState, Readiness};
use crate::demand::Demand;
use crate::fleet::Fleet;
use crate::rules::Failover;

/// Seconds within which clusters turn unready together.
const WINDOW: i64 = 60;

/// What happens to the share of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The share stays.
    Stays,
    /// The share is replaced at this time, in seconds, unless the cluster returns.
    Until(i64),
    /// The share is to be replaced now: add the cluster to `evicted`.
    Replaced,
    /// It should be replaced but must not be; the sentence says why, and what to do.
    Held { code: &'static str, reason: String },
}

/// A suspicion of the control plane against itself: too many clusters turned unready together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Clusters that turned within a minute.
    pub turned: usize,
    /// All clusters.
    pub of: usize,
    /// Time at which the first of them turned, in seconds.
    pub since: i64,
}

/// Returns a suspicion if more than half of the clusters, and at least two, turned unready within a minute
/// and still are. It ends as they become Ready again.
pub fn suspicion<'a>(clusters: impl IntoIterator<Item = &'a ClusterState>) -> Option<Suspicion> {
    let (mut turned, mut of) = (Vec::new(), 0);
    for cluster in clusters.into_iter().filter(|cluster| !cluster.is_fenced && !cluster.is_being_removed) {
        of += 1;
        if let Readiness::NotReady { since, .. } = &cluster.readiness {
            turned.push(*since);
        }
    }
    turned.sort_unstable();
    let together =
        |from: usize| turned[from..].iter().take_while(|time| **time - turned[from] <= WINDOW).count();
    let (count, since) = (0..turned.len())
        .map(|from| (together(from), turned[from]))
        .max_by_key(|(count, since)| (*count, -since))?;
    (count >= 2 && count * 2 > of).then_some(Suspicion { turned: count, of, since })
}

/// Decides about the share of a demand on a cluster, at a time in seconds.
pub fn loss(
    cluster: &ClusterState,
    demand: &Demand,
    failover: &Failover,
    suspicion: Option<&Suspicion>,
    now: i64,
) -> Loss {
    let _ = (cluster, demand, failover, suspicion, now);
    Loss::Stays
}

/// Returns when a cluster may get back what it lost: the time in seconds, `None` if never.
pub fn returns_at(cluster: &ClusterState, failover: &Failover) -> Option<i64> {
    match &cluster.readiness {
        Readiness::Ready { since } if failover.returns => Some(since + failover.returns_after),
        _ => None,
    }
}

/// Returns the suspicion about all clusters of a fleet.
pub fn suspicion_of(fleet: &Fleet) -> Option<Suspicion> {
    suspicion(fleet.clusters())
}
