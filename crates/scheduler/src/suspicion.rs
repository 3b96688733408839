//! Tells about suspicions of the control plane against itself: an event for each cluster that is not Ready, and
//! not for each of the many objects there.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_fleet::Placement;
use atoll_informer::{Change, Key, resources};
use atoll_meta::object;
use atoll_meta::views::condition;

use crate::losses::SUSPECT;
use crate::writer::PlacementTarget;
use crate::{Keys, Scheduler};

/// Clusters whose users were told.
#[derive(Default)]
pub struct Suspicions(Mutex<Keys>);

impl Suspicions {
    /// Records an event for each cluster of an object that is not Ready.
    pub fn tell(&self, scheduler: &Scheduler, target: &PlacementTarget, message: &str) {
        let placement = Placement::of(&target.object);
        let uids: HashSet<&str> = placement.clusters.iter().map(|share| share.uid.as_str()).collect();
        let keys: Vec<Key> = {
            let ledger = scheduler.ledger();
            uids.iter().filter_map(|uid| ledger.cluster_key(uid).cloned()).collect()
        };
        for key in keys {
            let Some(cluster) = scheduler.clusters.get(&key).filter(|cluster| !is_ready(cluster)) else {
                continue;
            };
            if self.told().insert(key) {
                scheduler.writer.recorder.warning(&resources::CLUSTERS, &cluster, SUSPECT, message);
            }
        }
    }

    /// Handles a changed Cluster: the next suspicion is told again.
    pub fn cluster_changed(&self, change: &Change) {
        if change.new.as_deref().is_none_or(is_ready) {
            self.told().remove(&change.key);
        }
    }

    fn told(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_ready(cluster: &serde_json::Value) -> bool {
    !object::is_being_deleted(cluster) && condition(cluster, "Ready").is_some_and(|ready| ready.is_true())
}
