//! The time since which a rollout makes no progress, for kinds whose status does not contain it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_informer::Key;

use crate::reports::ReportedPods;

/// Numbers that change while a rollout makes progress: updated and ready pods, and the generation.
type Counts = (i64, i64, i64);
/// The last counts of each cluster, by uid, with the time in seconds since which they are the same.
type Clusters = HashMap<String, (Counts, i64)>;

/// The rollouts under way, by queue key.
#[derive(Default)]
pub struct RolloutProgress(Mutex<HashMap<Key, Clusters>>);

impl RolloutProgress {
    /// Returns the time since which a cluster reports the same pods of an object.
    pub fn since(&self, key: &Key, cluster: &str, report: &ReportedPods, now: i64) -> i64 {
        let counts = (report.updated, report.ready, report.generation);
        let mut rollouts = self.rollouts();
        let clusters = rollouts.entry(key.clone()).or_default();
        match clusters.get(cluster) {
            Some((known, since)) if *known == counts => *since,
            _ => {
                clusters.insert(cluster.to_string(), (counts, now));
                now
            }
        }
    }

    /// Forgets an object that is not rolled out any more.
    pub fn remove(&self, key: &Key) {
        self.rollouts().remove(key);
    }

    fn rollouts(&self) -> MutexGuard<'_, HashMap<Key, Clusters>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_begins_anew_with_every_change() {
        let (progress, key) = (RolloutProgress::default(), Key::new("w", "6/n", "db"));
        let pods = |updated, ready| ReportedPods { updated, ready, ..ReportedPods::default() };
        let since = |cluster: &str, report, now| progress.since(&key, cluster, &report, now);
        assert_eq!(since("east", pods(1, 2), 100), 100);
        assert_eq!(since("east", pods(1, 2), 130), 100);
        assert_eq!(since("west", pods(1, 2), 130), 130);
        assert_eq!(since("east", pods(2, 2), 140), 140);
        assert_eq!(since("east", pods(2, 2), 150), 140);
        progress.remove(&key);
        assert_eq!(since("east", pods(2, 2), 160), 160);
    }
}
