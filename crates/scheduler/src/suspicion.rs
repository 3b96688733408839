//! Reports suspicions of the control plane against itself: a condition of each cluster that is not Ready, and
//! one event if it has workloads, instead of one for each of the many objects there.
//!
//! ```text
//!   Cluster changes ─► Notify ─► all Clusters that are not Ready, or have the condition ─► Queue ─► condition
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_informer::{Change, Key, Next, Queue, resources};
use atoll_meta::views::{condition, items};
use atoll_meta::{Status, object};
use atoll_placement::failover::{SUSPECT, suspicion};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::losses::counted;
use crate::writer::PlacementTarget;
use crate::{Keys, Scheduler};

/// The reason of the condition.
const REASON: &str = "MostClustersUnready";
/// The least time between two scans of all clusters: many of them change at once.
const PAUSE: Duration = Duration::from_millis(500);
/// Conditions that are written at the same time.
const WORKERS: usize = 4;

#[derive(Default)]
pub struct Suspicions {
    /// Clusters for which an event was written.
    reported: Mutex<Keys>,
    /// Notified when a Cluster has changed.
    changed: Notify,
}

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
            if self.reported().insert(key) {
                scheduler.writer.recorder.warning(&resources::CLUSTERS, &cluster, SUSPECT, message);
            }
        }
    }

    /// Handles a changed Cluster: the next suspicion is reported again.
    pub fn cluster_changed(&self, change: &Change) {
        if change.new.as_deref().is_none_or(is_ready) {
            self.reported().remove(&change.key);
        }
        if change.old.as_deref().map(terms) != change.new.as_deref().map(terms) {
            self.changed.notify_one();
        }
    }

    fn reported(&self) -> MutexGuard<'_, Keys> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the condition of Clusters until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>) {
    let (queue, worker) = (Queue::new(), scheduler.clone());
    let adding = async {
        loop {
            scheduler.suspicions.changed.notified().await;
            let all = scheduler.clusters.all().into_iter();
            let concerned = all.filter(|cluster| !is_ready(cluster) || condition(cluster, SUSPECT).is_some());
            concerned.for_each(|cluster| queue.add(Key::of(&cluster)));
            tokio::time::sleep(PAUSE).await;
        }
    };
    let writing = queue.work("suspicions", WORKERS, move |key| {
        let scheduler = worker.clone();
        async move { write(&scheduler, &key).await }
    });
    tokio::join!(adding, writing);
}

async fn write(scheduler: &Scheduler, key: &Key) -> Result<Next, Status> {
    let Some(cluster) = scheduler.clusters.get(key).filter(|cluster| !object::is_being_deleted(cluster))
    else {
        return Ok(Next::Done);
    };
    let is_suspected = is_suspected(scheduler, key, &cluster);
    let now = scheduler.writer.clock.now().to_time();
    let Some(conditions) = conditions(&cluster, is_suspected, &now) else { return Ok(Next::Done) };
    let mut changed = cluster.as_ref().clone();
    changed["status"]["conditions"] = conditions.into();
    match scheduler.api.update_status(&resources::CLUSTERS, &changed).await {
        Ok(written) => {
            scheduler.clusters.wrote(&written);
            Ok(Next::Done)
        }
        Err(status) if status.code() == 409 => Ok(Next::Again),
        // The Cluster is gone, or its workspace is at its limit.
        Err(status) if matches!(status.code(), 403 | 404) => Ok(Next::Done),
        Err(status) => Err(status),
    }
}

/// Whether a cluster is not Ready, and the control plane suspects itself in the workspace of the Cluster.
fn is_suspected(scheduler: &Scheduler, key: &Key, cluster: &Value) -> bool {
    let Ok(path) = scheduler.path(&key.workspace) else { return false };
    let mut ledger = scheduler.ledger();
    scheduler.update(&mut ledger);
    let state = ledger.fleet.cluster(object::uid(cluster));
    state.is_some_and(|state| state.readiness.is_not_ready() && !state.is_fenced)
        && suspicion(counted(&ledger.fleet, &path)).is_some()
}

/// The conditions of a Cluster with or without the one about a suspicion; `None` if they stay as they are.
fn conditions(cluster: &Value, is_suspected: bool, now: &str) -> Option<Vec<Value>> {
    match condition(cluster, SUSPECT) {
        None if !is_suspected => return None,
        Some(known) if is_suspected && known.is_true() => return None,
        _ => {}
    }
    let all = items(&cluster["status"]["conditions"]).iter();
    let mut conditions: Vec<Value> = all.filter(|one| one["type"] != SUSPECT).cloned().collect();
    if is_suspected {
        // Numbers of clusters would change with each of them.
        let message = format!(
            "more than half of the clusters of this workspace became unready within a minute, so that the control plane \
             may be the one that is cut off; nothing fails over until they return, or are fenced one by one: atoll \
             cluster fence {}",
            object::name(cluster)
        );
        conditions.push(json!({
            "type": SUSPECT, "status": "True", "reason": REASON, "message": message,
            "observedGeneration": object::generation(cluster), "lastTransitionTime": now,
        }));
    }
    Some(conditions)
}

/// The parts of a Cluster that a suspicion depends on, and whether it has the condition.
fn terms(cluster: &Value) -> (bool, bool, Option<String>, bool, &Value) {
    let ready = condition(cluster, "Ready");
    (
        object::is_being_deleted(cluster),
        ready.is_some_and(|ready| ready.is_true()),
        ready.and_then(|ready| ready.last_transition_time()).map(str::to_string),
        condition(cluster, SUSPECT).is_some(),
        &cluster["spec"],
    )
}

fn is_ready(cluster: &Value) -> bool {
    !object::is_being_deleted(cluster) && condition(cluster, "Ready").is_some_and(|ready| ready.is_true())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_comes_and_goes_and_others_stay() {
        let ready = json!({ "type": "Ready", "status": "False" });
        let cluster = json!({ "metadata": { "name": "east" }, "status": { "conditions": [ready] } });
        assert_eq!(conditions(&cluster, false, "now"), None);
        let reported = conditions(&cluster, true, "now").expect("it is written");
        assert_eq!(
            (&reported[0], &reported[1]["type"], &reported[1]["status"]),
            (&ready, &json!(SUSPECT), &json!("True"))
        );
        assert!(
            reported[1]["message"].as_str().is_some_and(|text| text.ends_with("atoll cluster fence east"))
        );
        let cluster = json!({ "metadata": { "name": "east" }, "status": { "conditions": reported } });
        assert_eq!(conditions(&cluster, true, "later"), None, "it is written once");
        assert_eq!(conditions(&cluster, false, "later"), Some(vec![ready]));
    }
}
