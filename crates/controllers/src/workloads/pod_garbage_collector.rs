//! Pod garbage collector: deletes finished pods beyond a threshold, pods of deleted or out-of-service nodes,
//! and terminating pods that were never scheduled.

// upstream: pkg/controller/podgc/gc_controller.go

mod reconcile;

use std::collections::HashMap;
use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, DeleteOptions, Key, resources};
use atoll_meta::time::Timestamp;
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::context::{Context, WorkloadScope};
use reconcile::{Reason, Removal};

/// Number of pods that are deleted concurrently.
const WORKERS: usize = 32;

pub async fn run(context: Context) {
    let pods = context.informers.of(&resources::PODS);
    let nodes = context.informers.of(&resources::NODES);
    tokio::join!(pods.synced(), nodes.synced());
    let mut missing = MissingNodes::default();
    let mut due = tokio::time::interval(context.settings.pod_gc_period);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let all = pods.all();
        let now = context.clock.now();
        let mut removals = reconcile::surplus_terminated(&all, context.settings.terminated_pod_gc_threshold);
        removals.extend(reconcile::out_of_service(&all, |key| nodes.get(key)));
        let gone = missing.confirm(&context, &all, &nodes, now).await;
        removals.extend(reconcile::orphaned(&all, &gone));
        removals.extend(reconcile::unscheduled_terminating(&all));
        delete_pods(&context, &pods, removals, now).await;
    }
}

/// Missing nodes that pods refer to, with the time since when.
#[derive(Default)]
struct MissingNodes(HashMap<Key, Timestamp>);

impl MissingNodes {
    /// Returns the nodes that were missing for the quarantine period and that the API does not have.
    async fn confirm(
        &mut self,
        context: &Context,
        pods: &[Arc<Value>],
        nodes: &Cache,
        now: Timestamp,
    ) -> Vec<Key> {
        // Pods that are placed elsewhere run on nodes that do not exist here.
        let has_nodes =
            |key: &Key| context.workloads == WorkloadScope::All || !nodes.list(&key.workspace, "").is_empty();
        let exists = |key: &Key| nodes.get(key).is_some() || !has_nodes(key);
        let quarantine_period = context.settings.pod_gc_quarantine;
        let due = reconcile::quarantine(&mut self.0, pods, exists, quarantine_period, now);
        let mut gone = Vec::new();
        for key in due {
            match context.api().get_metadata(&resources::NODES, &key).await {
                Err(status) if status.reason() == "NotFound" => gone.push(key),
                Ok(_) => {}
                Err(status) => tracing::debug!(%status, %key, "reading a node failed"),
            }
        }
        gone
    }
}

async fn delete_pods(context: &Context, pods: &Arc<Cache>, removals: Vec<Removal>, now: Timestamp) {
    let mut running = JoinSet::new();
    for removal in removals {
        if running.len() >= WORKERS {
            running.join_next().await;
        }
        let (api, pods) = (context.api().clone(), pods.clone());
        running.spawn(async move {
            let key = Key::of(&removal.pod);
            match delete_pod(&api, &pods, &key, &removal, now).await {
                Ok(()) => {
                    tracing::info!(%key, reason = ?removal.reason, "pod garbage collector deleted a pod")
                }
                Err(status) if status.reason() == "NotFound" => {}
                Err(status) => {
                    tracing::warn!(%status, %key, "pod garbage collector could not delete a pod; retrying")
                }
            }
        });
    }
    while running.join_next().await.is_some() {}
}

async fn delete_pod(
    api: &ApiScope,
    pods: &Cache,
    key: &Key,
    removal: &Removal,
    now: Timestamp,
) -> Result<(), Status> {
    // No kubelet is left to report that the pod has ended.
    if let Some(patch) = reconcile::failed_status_patch(&removal.pod, removal.reason == Reason::Orphaned, now)
    {
        pods.wrote(&api.patch_status_strategic(&resources::PODS, key, &patch).await?);
    }
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    api.delete(&resources::PODS, key, options).await?;
    pods.deleting(key, object::uid(&removal.pod));
    Ok(())
}
