//! Autoscalers of the workloads that the scheduler places. A decision about a workload also chooses the side on
//! which its autoscaler acts. This module places the autoscaler with an undivided workload, or removes it from
//! all clusters.
//!
//! ```text
//!   target: undivided ─► side below ─► autoscaler placed on its cluster ─► replicas there ─► share of the target
//!   target: divided ──► side above ─► the controller above acts
//! ```

pub mod side;

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::autoscaling::{BELOW, ScaleTarget, is_of_placed_workloads};
use atoll_fleet::placement::Share;
use atoll_fleet::{Placement, pause, placed_by};
use atoll_informer::{ApiScope, Cache, Change, Key, Next, Queue, Resource, resources};
use atoll_meta::{Status, object};
use atoll_placement::fleet::Fleet;
use atoll_placement::intent::Intent;
use serde_json::{Value, json};

use crate::serving::first_by_name;
use crate::writer::PAUSED_DELAY;
use crate::{Scheduler, workloads};

const WORKERS: usize = 4;
/// Delay before a refused placement is retried, or before checking again whether a cluster has confirmed a
/// removal.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
/// Most autoscalers of a workload that decisions about it look at, in the order of their names. More than one is a
/// mistake: in Kubernetes they scale against each other.
const MAX_OF_WORKLOAD: usize = 64;

/// The autoscalers of all workspaces.
pub struct Autoscalers {
    pub cache: Arc<Cache>,
    by_target: usize,
    /// Whether a removal counts as confirmed at once, as in a trial.
    assumes_removed: bool,
}

/// The autoscalers of one workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerState {
    pub exists: bool,
    /// Whether the user keeps one of them in the control plane.
    pub keeps_above: bool,
    /// Whether no cluster that is reachable has one of them.
    pub is_clear: bool,
    /// The highest `maxReplicas`.
    pub most: i64,
}

/// Index of autoscalers by their target.
fn by_target(autoscaler: &Value) -> Vec<String> {
    let target = ScaleTarget::of(autoscaler).filter(|_| is_of_placed_workloads(autoscaler));
    target.map(|target| index_key(&Key::of(autoscaler), target)).into_iter().collect()
}

fn index_key(at: &Key, target: ScaleTarget<'_>) -> String {
    format!("{}/{}/{}/{}/{}", at.workspace, at.namespace, target.group, target.kind, target.name)
}

/// The position of the kind of an autoscaler's target, and the key of the target.
fn target_of(autoscaler: &Value, at: &Key) -> Option<(usize, Key)> {
    let target = ScaleTarget::of(autoscaler).filter(|_| is_of_placed_workloads(autoscaler))?;
    let mut kinds = workloads::kinds().into_iter();
    let kind = kinds.position(|kind| (&*kind.group, &*kind.kind) == (target.group, target.kind))?;
    Some((kind, at.sibling(target.name)))
}

/// Whether the scheduler places an autoscaler. One that its user has placed is left alone.
fn is_own(autoscaler: &Value) -> bool {
    let placement = Placement::of(autoscaler);
    (placement.clusters.is_empty() || placement.by == placed_by::REFERENCE)
        && match Intent::on(autoscaler) {
            None => true,
            Some(intent) => intent.is_ok_and(|intent| intent.is_none()),
        }
}

/// The parts of an autoscaler that decisions about its target depend on. The rest is mostly status.
fn decides(autoscaler: &Value) -> (&Value, &Value, bool) {
    let is_deleted = object::is_being_deleted(autoscaler);
    (&autoscaler["spec"], &autoscaler["metadata"]["annotations"], is_deleted)
}

impl Autoscalers {
    pub fn new(cache: Arc<Cache>) -> Autoscalers {
        let by_target = cache.index(by_target);
        Autoscalers { cache, by_target, assumes_removed: false }
    }

    /// A copy for a trial, in which clusters remove autoscalers at once.
    pub fn copy(&self) -> Autoscalers {
        let cache = Arc::new(self.cache.detached_copy());
        Autoscalers { assumes_removed: true, ..Autoscalers::new(cache) }
    }

    /// Queue keys of the workloads that a changed autoscaler scales, or scaled before.
    pub fn targets(change: &Change) -> Vec<Key> {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && decides(old) == decides(new)
        {
            return Vec::new();
        }
        let both = [&change.old, &change.new].into_iter().flatten();
        let found = both.filter_map(|autoscaler| target_of(autoscaler, &change.key));
        found.map(|(kind, at)| workloads::queue_key(kind, &at)).collect()
    }

    /// The autoscalers of a workload, as far as the scheduler places them.
    fn of(&self, resource: &Resource, at: &Key) -> Vec<Arc<Value>> {
        let mut found = self.indexed(resource, at);
        found.retain(|autoscaler| is_own(autoscaler));
        found
    }

    fn indexed(&self, resource: &Resource, at: &Key) -> Vec<Arc<Value>> {
        let target = ScaleTarget { group: &resource.group, kind: &resource.kind, name: &at.name };
        self.cache.by_index(self.by_target, &index_key(at, target))
    }

    pub fn state(&self, resource: &Resource, at: &Key, fleet: &Fleet) -> AutoscalerState {
        let mut state = AutoscalerState { is_clear: true, ..AutoscalerState::default() };
        let mut found = first_by_name(self.indexed(resource, at), MAX_OF_WORKLOAD);
        found.retain(|autoscaler| is_own(autoscaler));
        for autoscaler in found {
            let placement = Placement::of(&autoscaler);
            state.is_clear &= self.assumes_removed || is_clear(&placement, None, fleet);
            state.most = state.most.max(autoscaler["spec"]["maxReplicas"].as_i64().unwrap_or(0));
            if !object::is_being_deleted(&autoscaler) {
                state.exists = true;
                state.keeps_above |= Intent::on(&autoscaler).is_some();
            }
        }
        state
    }
}

/// Whether no reachable cluster, except one, has an object or may still have it. An autoscaler in a lost
/// cluster scales only the pods of that cluster.
fn is_clear(placement: &Placement, except: Option<&str>, fleet: &Fleet) -> bool {
    placement.cluster_refs().all(|(_, uid)| {
        Some(uid) == except
            || fleet.cluster(uid).is_none_or(|state| state.is_fenced || state.readiness.is_not_ready())
    })
}

/// The clusters of an autoscaler, by the placement of its target.
fn shares(autoscaler: &Value, target: Option<&Placement>) -> Vec<Share> {
    let is_kept_above = Intent::on(autoscaler).is_some();
    match target.map(|target| (target.autoscaler.as_str(), target.clusters.as_slice())) {
        Some((BELOW, [share])) if !is_kept_above => vec![Share::on(&share.name, &share.uid)],
        _ => Vec::new(),
    }
}

/// Places autoscalers until it is dropped.
pub async fn run(scheduler: &Arc<Scheduler>) {
    let queue = Queue::new();
    let adding = queue.clone();
    scheduler.autoscalers.cache.listen(move |change| adding.add(change.key.clone()));
    for (kind, cache) in scheduler.kinds.workloads.iter().enumerate() {
        let (adding, autoscalers) = (queue.clone(), scheduler.clone());
        cache.listen(move |change| {
            let side = |object: &Option<Arc<Value>>| {
                object
                    .as_deref()
                    .map(Placement::of)
                    .map(|placement| (placement.autoscaler, placement.clusters.len()))
            };
            if side(&change.old) != side(&change.new) {
                let found = autoscalers.autoscalers.of(workloads::kinds()[kind], &change.key);
                found.iter().for_each(|autoscaler| adding.add(Key::of(autoscaler)));
            }
        });
    }
    let worker = scheduler.clone();
    queue
        .work("autoscalers", WORKERS, move |key| {
            let scheduler = worker.clone();
            async move { sync(&scheduler, &key).await }
        })
        .await;
}

async fn sync(scheduler: &Scheduler, at: &Key) -> Result<Next, Status> {
    let Some(found) = scheduler.autoscalers.cache.get(at) else { return Ok(Next::Done) };
    if !is_own(&found) || !is_of_placed_workloads(&found) || object::is_being_deleted(&found) {
        return Ok(Next::Done);
    }
    let placement = Placement::of(&found);
    let target = target_of(&found, at);
    let cached = target.as_ref().and_then(|(kind, at)| scheduler.kinds.workloads[*kind].get(at));
    let wanted = shares(&found, cached.as_deref().map(Placement::of).as_ref());
    if is_same(&placement.clusters, &wanted) {
        return Ok(Next::Done);
    }
    // The cache may be behind: an autoscaler must neither act on both sides nor be removed by mistake.
    let read = match &target {
        Some((kind, at)) => read(&scheduler.api, workloads::kinds()[*kind], at).await?,
        None => None,
    };
    let wanted = shares(&found, read.as_ref().map(Placement::of).as_ref());
    let next = wanted.first().map(|share| share.uid.as_str());
    if next.is_some() && !is_clear(&placement, next, &scheduler.ledger().fleet) {
        if placement.clusters.is_empty() {
            // The autoscaler is placed on its new cluster when the old one has confirmed the removal.
            return Ok(Next::After(RETRY_DELAY));
        }
        return place(scheduler, at, &found, &[]).await;
    }
    match is_same(&placement.clusters, &wanted) {
        true => Ok(Next::Done),
        false => place(scheduler, at, &found, &wanted).await,
    }
}

async fn read(api: &ApiScope, resource: &Resource, at: &Key) -> Result<Option<Value>, Status> {
    match api.get(resource, at).await {
        Err(status) if status.code() == 404 => Ok(None),
        found => found.map(Some),
    }
}

async fn place(scheduler: &Scheduler, at: &Key, found: &Value, shares: &[Share]) -> Result<Next, Status> {
    let patch = json!({
        "metadata": { "uid": object::uid(found), "resourceVersion": object::resource_version(found) },
        "spec": { "clusters": shares, "by": placed_by::REFERENCE },
    });
    match scheduler.api.patch(&resources::HORIZONTAL_POD_AUTOSCALERS, at, PLACEMENT, &patch).await {
        Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
        Err(status) if status.has_cause(pause::CAUSE) => Ok(Next::After(PAUSED_DELAY)),
        Err(status) if matches!(status.code(), 403 | 422) => Ok(Next::After(RETRY_DELAY)),
        placed => placed.map(|_| Next::Done),
    }
}

fn is_same(shares: &[Share], others: &[Share]) -> bool {
    shares.len() == others.len()
        && shares.iter().all(|share| others.iter().any(|other| other.is_of(&share.name, &share.uid)))
}

#[cfg(test)]
mod tests {
    use atoll_fleet::placement::Leaving;
    use atoll_placement::cluster::{ClusterState, Readiness};

    use super::*;

    fn autoscaler(annotations: Value) -> Value {
        let reference = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        json!({
            "metadata": { "name": "web", "namespace": "n", "annotations": annotations },
            "spec": { "scaleTargetRef": reference, "maxReplicas": 9 },
        })
    }

    #[test]
    fn autoscalers_go_with_undivided_targets_only() {
        let target = |side: &str, clusters: &[&str]| Placement {
            clusters: clusters.iter().map(|name| Share::on(name, name)).collect(),
            autoscaler: side.into(),
            ..Placement::default()
        };
        let none = json!({ "atoll.dev/clusters": "none" });
        for (annotations, target, expected) in [
            (json!({}), Some(target(BELOW, &["east"])), "east"),
            (json!({}), Some(target(BELOW, &["east", "west"])), ""),
            (json!({}), Some(target("stopping", &["east"])), ""),
            (json!({}), Some(target("above", &["east", "west"])), ""),
            (json!({}), Some(target("", &["east"])), ""),
            (json!({}), None, ""),
            (none, Some(target(BELOW, &["east"])), ""),
        ] {
            let found = shares(&autoscaler(annotations), target.as_ref());
            let names: Vec<&str> = found.iter().map(|share| share.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{target:?}");
        }
    }

    #[test]
    fn autoscalers_that_users_place_are_left_alone() {
        let placed = |by: &str| {
            let clusters = vec![Share::on("east", "east")];
            Placement { clusters, by: by.into(), ..Placement::default() }.text()
        };
        for (annotations, expected) in [
            (json!({}), true),
            (json!({ "atoll.dev/placement": placed("reference") }), true),
            (json!({ "atoll.dev/placement": placed("hand") }), false),
            (json!({ "atoll.dev/clusters": "none" }), true),
            (json!({ "atoll.dev/clusters": "east" }), false),
            (json!({ "atoll.dev/clusters": "=" }), false),
        ] {
            assert_eq!(is_own(&autoscaler(annotations.clone())), expected, "{annotations}");
        }
    }

    #[test]
    fn lost_clusters_need_not_confirm() {
        let mut fleet = Fleet::new();
        for (name, readiness) in [
            ("east", Readiness::Ready { since: 0 }),
            ("west", Readiness::NotReady { since: 0, reason: "Unreachable".into() }),
        ] {
            let (uid, name) = (name.into(), name.into());
            fleet.set_cluster(ClusterState { uid, name, readiness, ..ClusterState::default() });
        }
        let on = |clusters: &[&str], leaving: &[&str]| Placement {
            clusters: clusters.iter().map(|name| Share::on(name, name)).collect(),
            leaving: leaving
                .iter()
                .map(|name| Leaving { name: (*name).into(), uid: (*name).into() })
                .collect(),
            ..Placement::default()
        };
        for (placement, except, expected) in [
            (on(&[], &[]), None, true),
            (on(&["east"], &[]), None, false),
            (on(&["east"], &[]), Some("east"), true),
            (on(&[], &["east"]), None, false),
            (on(&[], &["east"]), Some("west"), false),
            (on(&["west"], &[]), None, true),
            (on(&[], &["west", "removed"]), None, true),
        ] {
            assert_eq!(is_clear(&placement, except, &fleet), expected, "{placement:?}");
        }
    }
}
