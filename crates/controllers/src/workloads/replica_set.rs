//! ReplicaSets and ReplicationControllers: maintains the number of identical pods.
//!
//! ```text
//!   sets, pods ─► queue ─► claim pods ─► next_action: number of pods to create or delete ─► status, if changed
//! ```

// upstream: pkg/controller/replicaset/replica_set.go
// upstream: pkg/controller/replication/replication_controller.go

mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Change, Key, Next, Queue, Resource, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use crate::context::Context;
use crate::shared::controller_refs::{self, ControllerRefManager};
use crate::shared::pods::{self, PodControl};
use crate::shared::selectors;
use crate::shared::views::WorkloadView;
use crate::shared::views::status::REPLICAS;
use reconcile::ReplicaAction;

/// Number of sets that are reconciled concurrently.
const WORKERS: usize = 16;
/// Maximum number of pods created or deleted in one sync, so that changes of the set are noticed.
const BURST_REPLICAS: usize = 500;
/// Up to this many pods, a set is synced for every change of a pod.
const BATCH_THRESHOLD: i64 = 100;
/// Delay per pod that combines changes in larger sets.
const BATCH_DELAY_PER_POD: Duration = Duration::from_micros(50);

/// Differences between the two kinds.
struct Flavour {
    sets: &'static Resource,
    component: &'static str,
    /// Whether the selector is a plain label map.
    plain_selector: bool,
    /// Whether the status counts terminating pods.
    counts_terminating: bool,
}

static REPLICA_SET: Flavour = Flavour {
    sets: &resources::REPLICA_SETS,
    component: "replicaset-controller",
    plain_selector: false,
    counts_terminating: true,
};

static REPLICATION_CONTROLLER: Flavour = Flavour {
    sets: &resources::REPLICATION_CONTROLLERS,
    component: "replication-controller",
    plain_selector: true,
    counts_terminating: false,
};

pub async fn run(context: Context) {
    run_flavour(context, &REPLICA_SET).await;
}

pub async fn run_replication_controllers(context: Context) {
    run_flavour(context, &REPLICATION_CONTROLLER).await;
}

async fn run_flavour(context: Context, flavour: &'static Flavour) {
    let sets = context.informers.of(flavour.sets);
    let pods = context.informers.of(&resources::PODS);
    let orphans = pods.index(controller_refs::orphans);
    let queue = Queue::new();
    let adding = queue.clone();
    sets.listen(move |change| adding.add(change.key.clone()));
    let (adding, known) = (queue.clone(), sets.clone());
    pods.listen(move |change| on_pod_change(flavour, &known, &adding, change));
    tokio::join!(sets.synced(), pods.synced());
    let pod_control = PodControl {
        api: context.api().clone(),
        cache: pods,
        recorder: context.events.recorder(flavour.component),
        owners: flavour.sets,
    };
    let controller = Arc::new(Controller { flavour, context, sets, orphans, pod_control });
    queue
        .work(flavour.component, WORKERS, |key| {
            let controller = controller.clone();
            async move { controller.sync(&key).await }
        })
        .await;
}

/// Enqueues the set that controls a changed pod, or the sets that could adopt it.
fn on_pod_change(flavour: &Flavour, sets: &Cache, queue: &Queue, change: &Change) {
    let managed = |pod: &Value| controller_refs::controller_key(sets, flavour.sets, pod);
    let before = change.old.as_deref().and_then(managed);
    let Some(pod) = change.new.as_deref() else {
        match before {
            Some(key) if change.old.as_deref().is_some_and(pods::is_active) => queue.add(key),
            Some(key) => add_batched(sets, queue, key),
            None => {}
        }
        return;
    };
    let after = managed(pod);
    if before != after
        && let Some(key) = before
    {
        queue.add(key);
    }
    let is_relevant = change.old.as_deref().is_none_or(|old| relevant_state(old) != relevant_state(pod));
    match after {
        Some(_) if !is_relevant => {}
        Some(key) => {
            match change.old.as_deref().is_some_and(|old| pods::is_active(old) == pods::is_active(pod)) {
                true => add_batched(sets, queue, key),
                false => queue.add(key),
            }
        }
        None if object::controller_of(pod).is_some() || object::is_being_deleted(pod) => {}
        None if !is_relevant => {}
        None => {
            let place = Key::of(pod);
            for set in sets.list(&place.workspace, &place.namespace) {
                let selector = selectors::parsed(&set, |set| selector(flavour, set));
                if selector.is_ok_and(|selector| controller_refs::selects(&selector, pod)) {
                    queue.add(Key::of(&set));
                }
            }
        }
    }
}

/// Returns the state of a pod that matters to its set.
fn relevant_state(pod: &Value) -> impl PartialEq {
    (
        pods::is_active(pod),
        pods::is_terminating(pod),
        pods::is_ready(pod),
        pods::ready_since(pod),
        object::metadata(pod).and_then(|metadata| metadata.get("labels")),
        object::controller_of(pod).map(|owner| owner.uid),
    )
}

/// Enqueues a set; with a delay if it has many pods, because many change at a time.
fn add_batched(sets: &Cache, queue: &Queue, key: Key) {
    let count = sets.get(&key).map_or(0, |set| WorkloadView::of(&set).status().count(REPLICAS));
    match u32::try_from(count) {
        Ok(many) if count > BATCH_THRESHOLD => queue.add_after(key, BATCH_DELAY_PER_POD * many),
        _ => queue.add(key),
    }
}

fn selector(flavour: &Flavour, set: &Value) -> Result<LabelSelector, String> {
    let selector = WorkloadView::of(set).selector();
    match flavour.plain_selector {
        true => LabelSelector::from_object(&json!({"matchLabels": selector})),
        false => LabelSelector::from_object(selector),
    }
}

struct Controller {
    flavour: &'static Flavour,
    context: Context,
    sets: Arc<Cache>,
    /// Index of pods without a controller.
    orphans: usize,
    pod_control: PodControl,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some(set) = self.sets.get(key).filter(|set| self.context.manages(set)) else {
            return Ok(Next::Done);
        };
        // An invalid selector selects nothing.
        let Ok(selector) = selector(self.flavour, &set) else { return Ok(Next::Done) };
        let found = controller_refs::candidates(&self.pod_control.cache, self.orphans, &set);
        let (active, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|pod| pods::is_active(pod));
        let claim = ControllerRefManager {
            api: self.context.api(),
            cache: &self.pod_control.cache,
            owners: self.flavour.sets,
            owner: &set,
            selector: &selector,
            finalizers: &[],
        };
        let active = claim.claim(active).await?;
        let uid = object::uid(&set);
        let terminating = self.flavour.counts_terminating.then(|| {
            let is_owned = |pod: &&Arc<Value>| {
                controller_refs::is_managed_by(pod, uid) && controller_refs::selects(&selector, pod)
            };
            others.iter().filter(|pod| pods::is_terminating(pod)).filter(is_owned).count()
        });
        let managed = self.manage(&set, &active).await;
        let now = self.context.clock.now();
        let failure = managed.as_ref().err().map(Status::message);
        if let Some(status) = reconcile::status(&set, &active, terminating, failure, now) {
            let mut changed = set.as_ref().clone();
            changed["status"] = status;
            let written = self.context.api().update_status(self.flavour.sets, &changed).await?;
            self.sets.wrote(&written);
        }
        managed?;
        let seconds = WorkloadView::of(&set).min_ready_seconds();
        let next = active.iter().filter_map(|pod| pods::available_after(pod, seconds, now)).min();
        Ok(next.map_or(Next::Done, Next::After))
    }

    /// Creates or deletes pods.
    async fn manage(&self, set: &Arc<Value>, active: &[Arc<Value>]) -> Result<(), Status> {
        match reconcile::next_action(set, active.len()) {
            ReplicaAction::None => Ok(()),
            ReplicaAction::Create(count) => {
                let pod = pods::from_template(self.flavour.sets, set, WorkloadView::of(set).template());
                self.pod_control.create_many(set, pod, count.min(BURST_REPLICAS)).await
            }
            ReplicaAction::Delete(count) => {
                let mut surplus = active.to_vec();
                if count < surplus.len() {
                    let related = pods::RelatedPods::of(&self.related(set));
                    pods::sort_for_deletion(&mut surplus, &related, self.context.clock.now());
                }
                surplus.truncate(count.min(BURST_REPLICAS));
                self.pod_control.delete_many(set, surplus).await
            }
        }
    }

    /// Returns the pods of all sets with the same controller, such as a Deployment.
    fn related(&self, set: &Value) -> Vec<Arc<Value>> {
        let Some(manager) = object::controller_of(set) else { return Vec::new() };
        let place = Key::of(set);
        let sets = self.sets.owned_by(&place, manager.uid).into_iter();
        let siblings = sets.filter(|other| controller_refs::is_managed_by(other, manager.uid));
        siblings.flat_map(|other| self.pod_control.cache.owned_by(&place, object::uid(&other))).collect()
    }
}
