//! Maintains the health conditions of clusters from their heartbeats and reports.
//!
//! ```text
//!   Leases ─► heartbeats: when, by the local clock ─┐
//!   Clusters ─ last reports ────────────────────────┴► faults: what is wrong ─► damping: flapping ─► conditions
//! ```

mod damping;
mod faults;
mod heartbeats;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::{ClusterView, marks};
use atoll_informer::{Cache, Key, ListWatch, ListWatchEvent, Next, Queue, Recorder, resources};
use atoll_meta::views::ConditionView;
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::time::Instant;

use self::damping::Damping;
use self::faults::Fault;
use self::heartbeats::{HeartbeatState, Heartbeats};
use crate::context::Context;
use crate::shared::conditions;
use crate::shared::enqueue;

const WORKERS: usize = 16;
const COMPONENT: &str = "atoll-cluster-health";
/// A transient fault counts after this fraction of the grace period.
const TRANSIENT_FRACTION: u32 = 8;

pub async fn run(context: Context) {
    let clusters = context.informers.of(&resources::CLUSTERS);
    let queue = Queue::new();
    enqueue::changed_objects(&clusters, &queue);
    let health = Arc::new(Health {
        recorder: context.events.recorder(COMPONENT),
        clusters,
        heartbeats: Heartbeats::default(),
        histories: Mutex::default(),
        context,
    });
    let (health_of, clusters) = (Arc::downgrade(&health), health.clusters.clone());
    clusters.listen(move |change| {
        if change.new.is_none()
            && let Some(health) = health_of.upgrade()
        {
            health.heartbeats.forget(&change.key);
            health.histories().remove(&change.key);
        }
    });
    tokio::join!(health.listen(&queue), health.work(&queue));
}

struct Health {
    context: Context,
    clusters: Arc<Cache>,
    recorder: Recorder,
    heartbeats: Heartbeats,
    histories: Mutex<HashMap<Key, HealthHistory>>,
}

/// Recent health of a cluster.
struct HealthHistory {
    damping: Damping,
    /// Start of the current transient fault.
    transient_since: Option<Instant>,
}

impl Health {
    async fn listen(&self, queue: &Queue) {
        let grace_period = self.context.settings.cluster_grace_period;
        let list_watch = ListWatch::all(&resources::LEASES).label_selector(marks::CLUSTER);
        let mut is_synced = false;
        let api = self.context.api().clone();
        atoll_informer::list_and_watch(&api, list_watch, |event| match event {
            ListWatchEvent::Upserted(lease) => {
                if let Some(key) = self.heartbeats.observe(&lease, grace_period) {
                    if is_synced {
                        self.heartbeats.lease_created(&key);
                    }
                    queue.add(key);
                }
            }
            // A Lease is created again with the next heartbeat, or its Cluster is deleted, too.
            ListWatchEvent::Deleted(_) => {}
            ListWatchEvent::Listed(..) => is_synced = true,
        })
        .await;
    }

    async fn work(self: &Arc<Self>, queue: &Queue) {
        self.clusters.synced().await;
        let health = self.clone();
        queue
            .work("cluster health", WORKERS, move |key| {
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
        let (fault, again) = self.find_fault(key, &cluster);
        let grace_period = self.context.settings.cluster_grace_period;
        // A Lease that is not renewed tells nothing about the tunnel.
        let is_expired = matches!(self.heartbeats.state(key, grace_period), HeartbeatState::Expired { .. });
        let has_tunnel = self.heartbeats.has_tunnel(key).map(|has_tunnel| has_tunnel && !is_expired);
        self.write(&cluster, fault.as_ref(), has_tunnel).await?;
        Ok(again.map_or(Next::Done, Next::After))
    }

    /// Returns the fault of a cluster, and the delay after which to check again.
    fn find_fault(&self, key: &Key, cluster: &Value) -> (Option<Fault>, Option<Duration>) {
        let grace_period = self.context.settings.cluster_grace_period;
        let heartbeat = self.heartbeats.state(key, grace_period);
        let mut again = match heartbeat {
            HeartbeatState::Recent { left } | HeartbeatState::Unknown { left } => Some(left),
            HeartbeatState::Expired { .. } | HeartbeatState::Never => None,
        };
        let mut soonest = |left: Duration| again = Some(again.map_or(left, |again| again.min(left)));
        let mut fault = faults::find(cluster, heartbeat, grace_period);
        let mut histories = self.histories();
        let restored = || HealthHistory {
            damping: Damping::restore(cluster, self.context.clock.now()),
            transient_since: None,
        };
        let history = histories.entry(key.clone()).or_insert_with(restored);
        let is_ready = ClusterView::of(cluster).is_ready();
        match &fault {
            Some(transient) if transient.may_be_transient() => {
                let since = *history.transient_since.get_or_insert_with(Instant::now);
                let left = (grace_period / TRANSIENT_FRACTION).saturating_sub(since.elapsed());
                if is_ready && !left.is_zero() {
                    soonest(left);
                    fault = None;
                }
            }
            Some(_) => {}
            None => history.transient_since = None,
        }
        // The state before this process started observing counts as neither healthy nor faulty.
        if !matches!(heartbeat, HeartbeatState::Unknown { .. })
            && let Some(info) =
                history.damping.observe(fault.is_none(), grace_period, self.context.clock.now())
        {
            soonest(info.left);
            fault = Some(faults::flapping(&info));
        }
        (fault, again)
    }

    async fn write(
        &self,
        cluster: &Value,
        fault: Option<&Fault>,
        has_tunnel: Option<bool>,
    ) -> Result<(), Status> {
        let now = self.context.clock.now().to_time();
        let mut changed = cluster.clone();
        let mut changed_any = false;
        let (mapping, rights) = (faults::mapping(cluster), faults::rights(cluster));
        if mapping.is_none() {
            changed_any |= conditions::remove_from(&mut changed, faults::MAPPED);
        }
        if rights.is_none() {
            changed_any |= conditions::remove_from(&mut changed, faults::RIGHTS);
        }
        let tunnel = faults::tunnel(cluster, has_tunnel);
        if tunnel.is_none() {
            changed_any |= conditions::remove_from(&mut changed, faults::TUNNEL);
        }
        let reach = faults::pods_reach_api(cluster, self.context.settings.advertised);
        if reach.is_none() {
            changed_any |= conditions::remove_from(&mut changed, faults::PODS);
        }
        let all = faults::conditions(cluster, fault)
            .into_iter()
            .chain(mapping)
            .chain(rights)
            .chain(tunnel)
            .chain(reach);
        for mut condition in all {
            condition["observedGeneration"] = object::generation(cluster).into();
            changed_any |= conditions::set_in(&mut changed, condition, &now);
        }
        if !changed_any {
            return Ok(());
        }
        // The damping state is stored only together with other changes.
        if let Some(history) = self.histories().get(&Key::of(cluster)) {
            history.damping.store(&mut changed);
        }
        match self.context.api().update_status(&self.clusters.resource, &changed).await {
            // The cluster was deleted.
            Err(status) if status.reason() == "NotFound" => return Ok(()),
            written => self.clusters.wrote(&written?),
        }
        self.record_event(cluster, fault);
        Ok(())
    }

    fn histories(&self) -> MutexGuard<'_, HashMap<Key, HealthHistory>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event when a cluster becomes ready, or stops being ready.
    fn record_event(&self, cluster: &Value, fault: Option<&Fault>) {
        let before = ClusterView::of(cluster).condition("Ready").map(ConditionView::status);
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
