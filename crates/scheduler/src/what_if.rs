//! The effect of a change, without making it.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_fleet::what_if::{PlacementEffect, ScaleChange, WhatIf, WhatIfAnswer};
use atoll_informer::{Cache, Key, WORKSPACE};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::kinds::Kinds;
use crate::trial::Trial;
use crate::{Scheduler, workloads};

/// Taint of a cluster that is being drained.
const DRAIN: &str = "atoll.dev/drain";
/// Uid of a policy that does not exist.
const NEW_UID: &str = "what-if";
/// The kind of policies of a workspace.
const CLUSTER_POLICY: &str = "ClusterPlacementPolicy";

/// Returns the effect of a change in a workspace, as far as it is known when it `is_over`.
pub fn answer(
    scheduler: &Scheduler,
    workspace: &str,
    change: &WhatIf,
    is_over: &dyn Fn() -> bool,
) -> Result<WhatIfAnswer, Status> {
    let mut trial = Trial::begin(scheduler);
    let before = placements(&trial.scheduler);
    if let Some(name) = change.drain.as_ref().or(change.lose.as_ref()) {
        change_cluster(&trial, workspace, name, change.lose.is_some())?;
    }
    if let Some(scale) = &change.scale {
        change_replicas(&trial, workspace, scale)?;
    }
    if !change.policy.is_null() {
        change_policy(&trial, workspace, &change.policy);
    }
    trial.settle(is_over)?;
    let after = placements(&trial.scheduler);
    let mut answer = WhatIfAnswer::default();
    let mut others = 0;
    for (key, next) in &after {
        let Some(known) = before.get(key) else { continue };
        let reason = trial.messages.get(key);
        if known.by == next.by && amounts(known) == amounts(next) && reason.is_none() {
            continue;
        }
        match *key.workspace == *workspace {
            true => answer.changes.extend(effect(&trial.scheduler.kinds, key, known, next, reason)),
            false => others += 1,
        }
    }
    // Only the administrator of a cluster may know the number of objects of other workspaces there.
    answer.others = (change.drain.is_some() || change.lose.is_some()).then_some(others);
    Ok(answer)
}

/// The placements of all objects by queue key.
fn placements(scheduler: &Scheduler) -> BTreeMap<Key, Placement> {
    let mut found = BTreeMap::new();
    for (kind, cache) in scheduler.kinds.all() {
        for object in cache.all() {
            found.insert(workloads::queue_key(kind, &Key::of(&object)), Placement::of(&object));
        }
    }
    found
}

/// The shares of a placement, in the order of names.
fn amounts(placement: &Placement) -> Vec<Share> {
    let mut shares: Vec<Share> = placement.clusters.clone();
    for share in &mut shares {
        (share.uid, share.held) = (String::new(), false);
    }
    shares.sort_by(|one, other| one.name.cmp(&other.name));
    shares
}

fn effect(
    kinds: &Kinds,
    key: &Key,
    before: &Placement,
    after: &Placement,
    reason: Option<&String>,
) -> Option<PlacementEffect> {
    let (cache, at) = kinds.target(key)?;
    Some(PlacementEffect {
        kind: cache.resource.kind.to_string(),
        namespace: at.namespace.to_string(),
        name: at.name.to_string(),
        before: amounts(before),
        after: amounts(after),
        by: after.by.clone(),
        reason: reason.cloned().unwrap_or_default(),
    })
}

/// Drains a cluster, or makes it lost.
fn change_cluster(trial: &Trial, workspace: &str, name: &str, is_lost: bool) -> Result<(), Status> {
    let cache = &trial.scheduler.clusters;
    let found = |id: &str| cache.get(&Key::new(id, "", name));
    let line = trial.scheduler.api.ancestry(workspace).into_iter();
    let cluster = line.map(|(id, _)| id).find_map(|id| found(&id));
    let path = trial.scheduler.path(workspace)?;
    let serves = |cluster: &Arc<Value>| trial.scheduler.ledger().fleet.serves(object::uid(cluster), &path);
    let cluster = cluster
        .filter(serves)
        .ok_or_else(|| Status::not_found(&cache.resource.group, &cache.resource.plural, name))?;
    let mut changed = cluster.as_ref().clone();
    if is_lost {
        // Before anything else happened: no failover waits for longer, and no other cluster was lost together with it.
        let since = atoll_meta::time::format(0);
        let mut conditions: Vec<Value> =
            changed["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Ready");
        conditions.push(json!({
            "type": "Ready", "status": "False", "reason": "Unreachable", "message": "", "lastTransitionTime": since,
        }));
        changed["status"]["conditions"] = conditions.into();
    } else {
        let mut taints: Vec<Value> = changed["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.retain(|taint| taint["key"] != DRAIN);
        taints.push(json!({ "key": DRAIN, "effect": "NoExecute" }));
        changed["spec"]["taints"] = taints.into();
        changed["spec"]["unschedulable"] = true.into();
    }
    trial.write(cache, changed);
    Ok(())
}

/// Sets the number of replicas of a workload.
fn change_replicas(trial: &Trial, workspace: &str, scale: &ScaleChange) -> Result<(), Status> {
    let ScaleChange { group, resource, namespace, name, replicas } = scale;
    let kinds = &trial.scheduler.kinds;
    let cache = kinds.position(workspace, (group, resource)).and_then(|kind| kinds.get(kind));
    let found = cache.and_then(|cache| Some((cache.get(&Key::new(workspace, namespace, name))?, cache)));
    let (workload, cache) = found.ok_or_else(|| Status::not_found(group, resource, name))?;
    let mut changed = workload.as_ref().clone();
    let field = if &*cache.resource.kind == "Job" { "parallelism" } else { "replicas" };
    changed["spec"][field] = (*replicas).into();
    trial.write(&cache, changed);
    Ok(())
}

/// Creates or replaces a policy.
fn change_policy(trial: &Trial, workspace: &str, policy: &Value) {
    let policies = &trial.scheduler.policies;
    let cache: &Arc<Cache> = match object::kind(policy) == CLUSTER_POLICY {
        true => &policies.of_workspaces,
        false => &policies.of_namespaces,
    };
    let mut changed = policy.clone();
    let at = Key::new(workspace, object::namespace(policy), object::name(policy));
    let known = cache.get(&at);
    let of = known.as_deref().map(|known| &known["metadata"]);
    let field = |name: &str, default: &str| match of {
        Some(metadata) => metadata[name].clone(),
        None => default.into(),
    };
    let now = trial.scheduler.writer.clock.now().to_time();
    changed["metadata"]["uid"] = field("uid", NEW_UID);
    changed["metadata"]["creationTimestamp"] = field("creationTimestamp", &now);
    changed["metadata"]["resourceVersion"] = field("resourceVersion", "0");
    object::set_annotation(&mut changed, WORKSPACE, workspace);
    trial.write(cache, changed);
}
