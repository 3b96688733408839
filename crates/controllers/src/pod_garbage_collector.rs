//! Pods that nobody else would ever remove: too many that have ended, those of nodes that are gone or out of service, those
//! that were to go before they had a node.

mod reconcile;

use std::collections::HashMap;
use std::sync::Arc;

use atoll_informer::{Cache, DeleteOptions, Key, World, resources};
use atoll_meta::time::Timestamp;
use atoll_meta::{Status, object};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::context::{Acts, Context};
use reconcile::{Reason, Removal};

/// Pods that are removed together.
const AT_ONCE: usize = 32;

pub async fn run(context: Context) {
    let pods = context.informers.of(&resources::PODS);
    let nodes = context.informers.of(&resources::NODES);
    tokio::join!(pods.synced(), nodes.synced());
    let mut missing = Missing::default();
    let mut due = tokio::time::interval(context.settings.pod_gc_period);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let all = pods.all();
        let now = context.clock.now();
        let mut removals = reconcile::ended(&all, context.settings.terminated_pod_gc_threshold);
        removals.extend(reconcile::out_of_service(&all, |key| nodes.get(key)));
        let gone = missing.confirm(&context, &all, &nodes, now).await;
        removals.extend(reconcile::orphaned(&all, &gone));
        removals.extend(reconcile::never_placed(&all));
        remove(&context, &pods, removals, now).await;
    }
}

/// Nodes that pods name and that were not there, and since when.
#[derive(Default)]
struct Missing(HashMap<Key, Timestamp>);

impl Missing {
    /// Those of them that have been away for long enough and are not there if one asks.
    async fn confirm(
        &mut self,
        context: &Context,
        pods: &[Arc<Value>],
        nodes: &Cache,
        now: Timestamp,
    ) -> Vec<Key> {
        // Where pods are placed elsewhere their nodes are not here, and nothing is wrong with that.
        let has_nodes =
            |key: &Key| context.acts == Acts::Everywhere || !nodes.list(&key.workspace, "").is_empty();
        let is_there = |key: &Key| nodes.get(key).is_some() || !has_nodes(key);
        let patience = context.settings.pod_gc_quarantine;
        let due = reconcile::quarantine(&mut self.0, pods, is_there, patience, now);
        let mut gone = Vec::new();
        for key in due {
            match context.world().get_metadata(&resources::NODES, &key).await {
                Err(status) if status.reason() == "NotFound" => gone.push(key),
                Ok(_) => {}
                Err(status) => tracing::debug!(%status, %key, "a node could not be looked for"),
            }
        }
        gone
    }
}

async fn remove(context: &Context, pods: &Arc<Cache>, removals: Vec<Removal>, now: Timestamp) {
    let mut running = JoinSet::new();
    for removal in removals {
        if running.len() >= AT_ONCE {
            running.join_next().await;
        }
        let (world, pods) = (context.world().clone(), pods.clone());
        running.spawn(async move {
            let key = Key::of(&removal.pod);
            match remove_one(&world, &pods, &key, &removal, now).await {
                Ok(()) => tracing::info!(%key, reason = ?removal.reason, "a pod was removed"),
                Err(status) if status.reason() == "NotFound" => {}
                Err(status) => tracing::warn!(%status, %key, "a pod could not be removed; trying again"),
            }
        });
    }
    while running.join_next().await.is_some() {}
}

async fn remove_one(
    world: &World,
    pods: &Cache,
    key: &Key,
    removal: &Removal,
    now: Timestamp,
) -> Result<(), Status> {
    // Nobody is left who would say that it has ended.
    if let Some(patch) = reconcile::failed(&removal.pod, removal.reason == Reason::Orphaned, now) {
        pods.wrote(&world.patch_status_strategic(&resources::PODS, key, &patch).await?);
    }
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.delete(&resources::PODS, key, options).await?;
    pods.deleting(key, object::uid(&removal.pod));
    Ok(())
}
