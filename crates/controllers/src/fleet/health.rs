//! Maintains the health conditions of clusters from their heartbeats and reports.
//!
//! ```text
//!   Leases ─► heartbeats: when, by the local clock ─┐
//!   Clusters ─ last reports ────────────────────────┴► faults: what is wrong ─► damping: flapping ─► conditions
//! ```

mod beats;
mod damping;
mod judge;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::marks;
use atoll_informer::{Cache, Key, Look, Next, Queue, Recorder, Sight, resources};
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::time::Instant;

use self::beats::{Beats, Heard};
use self::damping::Damping;
use self::judge::Fault;
use crate::context::Context;
use crate::{conditions, wake};

const AT_ONCE: usize = 16;
const COMPONENT: &str = "atoll-cluster-health";
/// A transient fault counts after this fraction of the grace period.
const BLINK: u32 = 8;

pub async fn run(context: Context) {
    let clusters = context.informers.of(&resources::CLUSTERS);
    let queue = Queue::new();
    wake::itself(&clusters, &queue);
    let health = Arc::new(Health {
        recorder: context.events.recorder(COMPONENT),
        clusters,
        beats: Beats::default(),
        standings: Mutex::default(),
        context,
    });
    let (health_of, clusters) = (Arc::downgrade(&health), health.clusters.clone());
    clusters.listen(move |change| {
        if change.new.is_none()
            && let Some(health) = health_of.upgrade()
        {
            health.beats.forget(&change.key);
            health.standings().remove(&change.key);
        }
    });
    tokio::join!(health.listen(&queue), health.work(&queue));
}

struct Health {
    context: Context,
    clusters: Arc<Cache>,
    recorder: Recorder,
    beats: Beats,
    standings: Mutex<HashMap<Key, Standing>>,
}

/// Recent health of a cluster.
struct Standing {
    damping: Damping,
    /// Start of the current transient fault.
    troubled: Option<Instant>,
}

impl Health {
    async fn listen(&self, queue: &Queue) {
        let patience = self.context.settings.cluster_grace_period;
        let look = Look::everywhere(&resources::LEASES).labelled(marks::CLUSTER);
        let mut has_begun = false;
        let world = self.context.world().clone();
        atoll_informer::follow(&world, look, |sight| match sight {
            Sight::There(lease) => {
                if let Some(key) = self.beats.saw(&lease, patience) {
                    if has_begun {
                        self.beats.made(&key);
                    }
                    queue.add(key);
                }
            }
            // A Lease is created again with the next heartbeat, or its Cluster is deleted, too.
            Sight::Gone(_) => {}
            Sight::All(..) => has_begun = true,
        })
        .await;
    }

    async fn work(self: &Arc<Self>, queue: &Queue) {
        self.clusters.synced().await;
        let health = self.clone();
        queue
            .work("cluster health", AT_ONCE, move |key| {
                let health = health.clone();
                async move { health.sync(&key).await }
            })
            .await;
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some(cluster) = self.clusters.get(key).filter(|cluster| !object::is_being_deleted(cluster))
        else {
            return Ok(Next::Done);
        };
        let (fault, again) = self.judge(key, &cluster);
        self.write(&cluster, fault.as_ref()).await?;
        Ok(again.map_or(Next::Done, Next::After))
    }

    /// Returns the fault of a cluster, and the delay after which to check again.
    fn judge(&self, key: &Key, cluster: &Value) -> (Option<Fault>, Option<Duration>) {
        let patience = self.context.settings.cluster_grace_period;
        let heard = self.beats.heard(key, patience);
        let mut again = match heard {
            Heard::Lately { left } | Heard::NotYet { left } => Some(left),
            Heard::LongAgo { .. } | Heard::Never => None,
        };
        let mut soonest = |left: Duration| again = Some(again.map_or(left, |again| again.min(left)));
        let mut fault = judge::fault(cluster, heard, patience);
        let mut standings = self.standings();
        let recalled =
            || Standing { damping: Damping::recall(cluster, self.context.clock.now()), troubled: None };
        let standing = standings.entry(key.clone()).or_insert_with(recalled);
        let is_ready = conditions::find(cluster, "Ready").is_some_and(|ready| ready["status"] == "True");
        match &fault {
            Some(trouble) if trouble.passes() => {
                let since = *standing.troubled.get_or_insert_with(Instant::now);
                let left = (patience / BLINK).saturating_sub(since.elapsed());
                if is_ready && !left.is_zero() {
                    soonest(left);
                    fault = None;
                }
            }
            Some(_) => {}
            None => standing.troubled = None,
        }
        // The state before this process started observing counts as neither healthy nor faulty.
        if !matches!(heard, Heard::NotYet { .. })
            && let Some(held) = standing.damping.judge(fault.is_none(), patience, self.context.clock.now())
        {
            soonest(held.left);
            fault = Some(judge::flapping(&held));
        }
        (fault, again)
    }

    async fn write(&self, cluster: &Value, fault: Option<&Fault>) -> Result<(), Status> {
        let now = self.context.clock.now().to_time();
        let mut changed = cluster.clone();
        let mut news = false;
        let mapping = judge::mapping(cluster);
        if mapping.is_none() {
            news |= conditions::remove_from(&mut changed, judge::MAPPED);
        }
        for mut condition in judge::conditions(cluster, fault).into_iter().chain(mapping) {
            condition["observedGeneration"] = object::generation(cluster).into();
            news |= conditions::set_in(&mut changed, condition, &now);
        }
        if !news {
            return Ok(());
        }
        // The damping state is stored only together with other changes.
        if let Some(standing) = self.standings().get(&Key::of(cluster)) {
            standing.damping.leave(&mut changed);
        }
        match self.context.world().update_status(&self.clusters.resource, &changed).await {
            // The cluster was deleted; its event enqueues it again.
            Err(status) if status.reason() == "NotFound" => return Ok(()),
            written => self.clusters.wrote(&written?),
        }
        self.tell(cluster, fault);
        Ok(())
    }

    fn standings(&self) -> MutexGuard<'_, HashMap<Key, Standing>> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event when a cluster becomes ready, or stops being ready.
    fn tell(&self, cluster: &Value, fault: Option<&Fault>) {
        let before = conditions::find(cluster, "Ready").and_then(|ready| ready["status"].as_str());
        match (before, fault) {
            (Some("True"), Some(fault)) => {
                let message = format!("{}: {}", fault.reason, fault.message);
                self.recorder.warning(&self.clusters.resource, cluster, "ClusterNotReady", message);
            }
            (before, None) if before != Some("True") => {
                self.recorder.normal(
                    &self.clusters.resource,
                    cluster,
                    "ClusterReady",
                    "the cluster is reachable and synced",
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
