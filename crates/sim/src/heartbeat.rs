//! Heartbeats of simulated nodes: renews leases and updates status.

// upstream: pkg/kubelet/kubelet_node_status.go

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::cluster::Cluster;
use crate::node::{self, Health, LEASE_SECONDS};

/// Number of nodes that are processed concurrently.
const WORKERS: usize = 32;
/// A lease is renewed four times within its duration.
const RENEW: u64 = LEASE_SECONDS.cast_unsigned() * 1000 / 4;
const TICK: Duration = Duration::from_millis(250);

/// Creates missing nodes, and maintains all simulated ones for as long as it is polled.
pub async fn run(cluster: Arc<Cluster>) {
    let nodes = cluster.informers.of(&resources::NODES);
    nodes.synced().await;
    let known: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let (updating, changed) = (known.clone(), Arc::new(tokio::sync::Notify::new()));
    let (notifying, settings) = (changed.clone(), cluster.settings.clone());
    nodes.listen(move |change| {
        let mut known = updating.lock().unwrap_or_else(PoisonError::into_inner);
        match &change.new {
            Some(node) if settings.simulates(node) => {
                let due = known.entry(change.key.name.to_string()).or_insert(0);
                // Another writer marked the node not ready, or its size has changed.
                if !is_ready(node) {
                    *due = 0;
                }
            }
            _ => drop(known.remove(&*change.key.name)),
        }
        notifying.notify_one();
    });
    register(&cluster).await;
    let permits = Arc::new(Semaphore::new(WORKERS));
    let mut faults = cluster.faults.subscribe();
    loop {
        let now = cluster.now();
        let due: Vec<String> = {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let due = known.iter_mut().filter(|(_, due)| **due <= now.millis);
            due.map(|(name, due)| {
                *due = now.millis + RENEW;
                name.clone()
            })
            .collect()
        };
        for name in due {
            let Ok(place) = permits.clone().acquire_owned().await else { return };
            let (cluster, known) = (cluster.clone(), known.clone());
            tokio::spawn(async move {
                let faults = cluster.faults.now();
                if faults.is_dead(&name) || faults.cuts_node(&name) {
                    return;
                }
                if let Err(status) = send_heartbeat(&cluster, &name, faults.is_full(&name)).await {
                    tracing::debug!(%status, node = name, "heartbeat of a simulated node failed; retrying");
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.entry(name).and_modify(|due| *due = now.millis + RENEW / 8);
                }
                drop(place);
            });
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = changed.notified() => {}
            Ok(()) = faults.changed() => {
                for due in known.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
                    *due = 0;
                }
            }
        }
    }
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Creates the nodes of the settings.
async fn register(cluster: &Arc<Cluster>) {
    let nodes = cluster.informers.of(&resources::NODES);
    let mut making = tokio::task::JoinSet::new();
    for position in 0..cluster.settings.nodes {
        if nodes.get(&Key::new("", "", &cluster.settings.node(position))).is_some() {
            continue;
        }
        if making.len() >= WORKERS {
            making.join_next().await;
        }
        let (cluster, nodes) = (cluster.clone(), nodes.clone());
        making.spawn(async move {
            let node = node::object(&cluster.settings, position);
            match cluster.api().create(&resources::NODES, "", "", &node).await {
                Ok(made) => nodes.wrote(&made),
                Err(status) if status.reason() == "AlreadyExists" => {}
                Err(status) => {
                    tracing::warn!(%status, node = object::name(&node), "creating a simulated node failed")
                }
            }
        });
    }
    while making.join_next().await.is_some() {}
}

/// Renews a node's lease and, if changed, writes its status.
async fn send_heartbeat(cluster: &Cluster, name: &str, is_full: bool) -> Result<(), Status> {
    let nodes = cluster.informers.of(&resources::NODES);
    let key = Key::new("", "", name);
    let Some(node) = nodes.get(&key) else { return Ok(()) };
    let (api, now) = (cluster.api(), cluster.now());
    let lease = node::lease(&node, now);
    let lease_key = Key::new("", "kube-node-lease", name);
    let renewal = json!({"spec": lease["spec"]});
    match api.patch(&resources::LEASES, &lease_key, "", &renewal).await {
        Err(status) if status.reason() == "NotFound" => {
            api.create(&resources::LEASES, "", "kube-node-lease", &lease).await?;
        }
        other => drop(other?),
    }
    let health = Health { is_full, kubelet_port: cluster.kubelet_port };
    if let Some(status) = node::status(&node, &cluster.settings, health, now) {
        let patch =
            json!({"metadata": {"resourceVersion": object::resource_version(&node)}, "status": status});
        nodes.wrote(&api.patch(&resources::NODES, &key, "status", &patch).await?);
    }
    Ok(())
}
