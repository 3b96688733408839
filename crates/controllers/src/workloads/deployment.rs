//! Deployments: one ReplicaSet for each template, and rollouts from one to the next.
//!
//! ```text
//!   deployments, sets, pods ─► queue ─► claim sets ─► reconcile ─► Plan: create, update, delete sets; status
//!                                                       ├─ revision: the set with the template, or a new one
//!                                                       ├─ scale: size of each set
//!                                                       ├─ status, conditions
//!                                                       └─ rollback
//! ```

// upstream: pkg/controller/deployment/deployment_controller.go
// upstream: pkg/controller/deployment/sync.go

mod conditions;
mod limits;
mod reconcile;
mod revision;
mod rollback;
mod scale;
mod set;
mod status;

use std::sync::Arc;

use atoll_informer::{Cache, Change, DeleteOptions, Key, Next, Queue, Recorder, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::Value;

use crate::context::Context;
use crate::shared::controller_refs::{self, ControllerRefManager};
use crate::shared::views::status::{COLLISION_COUNT, CONDITIONS};
use crate::shared::views::{DeploymentView, WorkloadView};
use crate::shared::{pods, selectors};
use conditions::{Conditions, PROGRESSING, condition};
use reconcile::{Observed, Plan};
use set::{Set, is_same_template};

/// Number of Deployments that are reconciled concurrently.
const WORKERS: usize = 16;
const COMPONENT: &str = "deployment-controller";
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

pub async fn run(context: Context) {
    let deployments = context.informers.of(&resources::DEPLOYMENTS);
    let sets = context.informers.of(&resources::REPLICA_SETS);
    let pods = context.informers.of(&resources::PODS);
    let orphans = sets.index(controller_refs::orphans);
    let queue = Queue::new();
    let adding = queue.clone();
    deployments.listen(move |change| adding.add(change.key.clone()));
    let (adding, known) = (queue.clone(), deployments.clone());
    sets.listen(move |change| on_replica_set_change(&known, &adding, change));
    let (adding, known, between) = (queue.clone(), deployments.clone(), sets.clone());
    pods.listen(move |change| on_pod_change(&known, &between, &adding, change));
    tokio::join!(deployments.synced(), sets.synced(), pods.synced());
    let recorder = context.events.recorder(COMPONENT);
    let controller = Arc::new(Controller { context, deployments, sets, pods, orphans, recorder });
    queue
        .work(COMPONENT, WORKERS, |key| {
            let controller = controller.clone();
            async move { controller.sync(&key).await }
        })
        .await;
}

fn on_replica_set_change(deployments: &Cache, queue: &Queue, change: &Change) {
    let managed = |set: &Value| controller_refs::controller_key(deployments, &resources::DEPLOYMENTS, set);
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let (before, after) = (old.and_then(managed), new.and_then(managed));
    if before != after
        && let Some(key) = before
    {
        queue.add(key);
    }
    if let Some(key) = after {
        queue.add(key);
        return;
    }
    let Some(set) = new.filter(|set| object::controller_of(set).is_none()) else { return };
    let labels = |set: &Value| object::metadata(set).and_then(|metadata| metadata.get("labels")).cloned();
    let is_relevant =
        old.is_none_or(|old| object::controller_of(old).is_some() || labels(old) != labels(set));
    if is_relevant {
        for deployment in deployments.list(&change.key.workspace, &change.key.namespace) {
            let selector = selectors::of_object(&deployment);
            if selector.is_ok_and(|selector| !selector.is_empty() && controller_refs::selects(&selector, set))
            {
                queue.add(Key::of(&deployment));
            }
        }
    }
}

/// Enqueues a Deployment with strategy Recreate when one of its pods ends.
fn on_pod_change(deployments: &Cache, sets: &Cache, queue: &Queue, change: &Change) {
    let has_ended = change.new.as_deref().is_none_or(pods::is_terminal);
    let had_ended = change.old.as_deref().is_none_or(pods::is_terminal);
    if !has_ended || had_ended {
        return;
    }
    let set = controller_refs::controller_key(sets, &resources::REPLICA_SETS, change.object())
        .and_then(|key| sets.get(&key));
    let Some(key) =
        set.and_then(|set| controller_refs::controller_key(deployments, &resources::DEPLOYMENTS, &set))
    else {
        return;
    };
    if deployments.get(&key).is_some_and(|deployment| !DeploymentView::of(&deployment).is_rolling()) {
        queue.add(key);
    }
}

struct Controller {
    context: Context,
    deployments: Arc<Cache>,
    sets: Arc<Cache>,
    pods: Arc<Cache>,
    /// Index of ReplicaSets without a controller.
    orphans: usize,
    recorder: Recorder,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some(deployment) = self.deployments.get(key).filter(|own| self.context.manages(own)) else {
            return Ok(Next::Done);
        };
        let Ok(selector) = LabelSelector::from_object(DeploymentView::of(&deployment).selector()) else {
            return Ok(Next::Done);
        };
        if selector.is_empty() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.warning(&resources::DEPLOYMENTS, &deployment, "SelectingAll", message);
            if let Some(updated) = reconcile::with_observed_generation(&deployment) {
                self.update_status(&updated).await?;
            }
            return Ok(Next::Done);
        }
        let claim = ControllerRefManager {
            api: self.context.api(),
            cache: &self.sets,
            owners: &resources::DEPLOYMENTS,
            owner: &deployment,
            selector: &selector,
            finalizers: &[],
        };
        let sets = claim.claim(controller_refs::candidates(&self.sets, self.orphans, &deployment)).await?;
        let uids: Vec<String> = sets.iter().map(|set| object::uid(set).to_string()).collect();
        let plan = reconcile::reconcile(Observed {
            deployment: &deployment,
            sets,
            pods_remain: &|new| {
                let old = uids.iter().filter(|uid| *uid != new);
                old.flat_map(|uid| self.pods.owned_by(key, uid)).any(|pod| !pods::is_terminal(&pod))
            },
            now: self.context.clock.now(),
        });
        self.execute(&deployment, plan).await
    }

    async fn execute(&self, deployment: &Value, plan: Plan) -> Result<Next, Status> {
        let api = self.context.api();
        if let Some(rollback) = plan.rollback {
            match rollback.is_warning {
                true => self.recorder.warning(
                    &resources::DEPLOYMENTS,
                    deployment,
                    rollback.reason,
                    rollback.message,
                ),
                false => self.record(deployment, rollback.reason, rollback.message),
            }
            let written = api.update(&resources::DEPLOYMENTS, &rollback.deployment).await?;
            self.deployments.wrote(&written);
            return Ok(Next::Done);
        }
        if let Some(set) = &plan.create
            && !self.create(deployment, set).await?
        {
            return Ok(Next::Done);
        }
        for set in plan.change {
            self.change(deployment, set).await?;
        }
        for set in plan.delete {
            let key = Key::of(&set);
            match api.delete(&resources::REPLICA_SETS, &key, DeleteOptions::default()).await {
                Ok(_) => self.sets.deleting(&key, object::uid(&set)),
                Err(status) if status.reason() == "NotFound" => {}
                Err(status) => return Err(status),
            }
        }
        if let Some(deployment) = plan.status_update {
            self.update_status(&deployment).await?;
        }
        Ok(plan.requeue_after.map_or(Next::Done, Next::After))
    }

    async fn update_status(&self, deployment: &Value) -> Result<(), Status> {
        let written = self.context.api().update_status(&resources::DEPLOYMENTS, deployment).await?;
        self.deployments.wrote(&written);
        Ok(())
    }

    fn record(&self, deployment: &Value, reason: &str, message: String) {
        self.recorder.normal(&resources::DEPLOYMENTS, deployment, reason, message);
    }

    async fn change(&self, deployment: &Value, set: Set) -> Result<(), Status> {
        let Some(next) = &set.next else { return Ok(()) };
        let written = self.context.api().update(&resources::REPLICA_SETS, next).await?;
        self.sets.wrote(&written);
        let (from, to) = (set.current_view().replicas(), set.replicas());
        if from != to {
            let direction = if from < to { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.name());
            self.record(deployment, "ScalingReplicaSet", message);
        }
        Ok(())
    }

    /// Creates the new ReplicaSet. Returns whether it was created and the rest of the plan can be executed.
    async fn create(&self, deployment: &Value, set: &Value) -> Result<bool, Status> {
        let (api, place) = (self.context.api(), Key::of(deployment));
        let status = match api.create(&resources::REPLICA_SETS, &place.workspace, &place.namespace, set).await
        {
            Ok(created) => {
                self.sets.wrote(&created);
                let count = WorkloadView::of(&created).replicas();
                if count > 0 {
                    let name = object::name(&created);
                    let message = format!("Scaled up replica set {name} from 0 to {count}");
                    self.record(deployment, "ScalingReplicaSet", message);
                }
                return Ok(true);
            }
            Err(status) => status,
        };
        if status.has_cause(NAMESPACE_TERMINATING) {
            return Ok(false);
        }
        let (view, mut changed) = (DeploymentView::of(deployment), deployment.clone());
        if status.reason() == "AlreadyExists" {
            let other = api.get(&resources::REPLICA_SETS, &place.sibling(object::name(set))).await?;
            if controller_refs::is_managed_by(&other, object::uid(deployment))
                && is_same_template(WorkloadView::of(&other).template(), view.template())
            {
                // The informer has not seen the set yet; store it in the cache.
                self.sets.wrote(&other);
                return Ok(false);
            }
            let collisions = view.status().collision_count().unwrap_or(0);
            changed["status"][COLLISION_COUNT] = (collisions + 1).into();
            self.update_status(&changed).await?;
            return Err(status);
        }
        let message = format!("Failed to create new replica set {:?}: {status}", object::name(set));
        if limits::progress_deadline(deployment).is_some() {
            let mut conditions = Conditions::of(view.status());
            let now = self.context.clock.now();
            conditions.set(condition(PROGRESSING, "False", "ReplicaSetCreateError", &message, now));
            changed["status"][CONDITIONS] = conditions.0.into();
            if DeploymentView::of(&changed).status() != view.status() {
                // A failure of this write is less important than the failed creation, which is returned.
                let _ = self.update_status(&changed).await;
            }
        }
        self.recorder.warning(&resources::DEPLOYMENTS, deployment, "ReplicaSetCreateError", message);
        Err(status)
    }
}
