//! Computes the actions and the status from a Deployment and its ReplicaSets.

// upstream: pkg/controller/deployment/deployment_controller.go
// upstream: pkg/controller/deployment/sync.go
// upstream: pkg/controller/deployment/rolling.go
// upstream: pkg/controller/deployment/recreate.go

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::conditions::{Conditions, PROGRESSING, condition};
use super::rollback::{self, Rollback};
use super::scale::{self, Sets};
use super::set::{REVISION, Set, by_revision};
use super::status::{self, Estimate};
use super::{limits, revision};
use crate::shared::views::status::{CONDITIONS, OBSERVED_GENERATION, REPLICAS};
use crate::shared::views::{DeploymentView, WorkloadStatusView};

/// Input of a reconciliation.
pub struct Observed<'a> {
    pub deployment: &'a Value,
    /// ReplicaSets that the Deployment controls.
    pub sets: Vec<Arc<Value>>,
    /// Whether unfinished pods of other sets than the one with this uid exist.
    pub pods_remain: &'a dyn Fn(&str) -> bool,
    pub now: Timestamp,
}

/// Actions to perform, in this order.
#[derive(Debug, Default)]
pub struct Plan {
    /// The Deployment after a rollback. Excludes all other actions.
    pub rollback: Option<Rollback>,
    /// The new ReplicaSet to create.
    pub create: Option<Value>,
    /// ReplicaSets to update.
    pub change: Vec<Set>,
    pub delete: Vec<Arc<Value>>,
    /// The Deployment with the new status or revision to write.
    pub status_update: Option<Value>,
    /// Delay after which to check the progress deadline.
    pub requeue_after: Option<Duration>,
}

pub fn reconcile(observed: Observed<'_>) -> Plan {
    let Observed { deployment, sets, pods_remain, now } = observed;
    let (new, old) = revision::split(deployment, sets.into_iter().map(Set::new).collect());
    let mut reconciler =
        Reconciler { deployment: deployment.clone(), sets: Sets { new, old }, plan: Plan::default(), now };
    if object::is_being_deleted(deployment) {
        reconciler.sync_new_replica_set();
        return reconciler.finish(deployment, Estimate::Nothing);
    }
    reconciler.check_paused_conditions();
    if DeploymentView::of(deployment).is_paused() {
        reconciler.sync_new_replica_set();
        scale::scale_proportionally(deployment, &mut reconciler.sets);
        if rollback::requested_revision(deployment).is_none() {
            reconciler.cleanup_old_replica_sets();
        }
        return reconciler.finish(deployment, Estimate::Nothing);
    }
    if let Some(to) = rollback::requested_revision(deployment) {
        let rollback = rollback::roll_back(deployment, to, &reconciler.sets);
        return Plan { rollback: Some(rollback), ..Plan::default() };
    }
    reconciler.sync_new_replica_set();
    if scale::is_scaled(deployment, &reconciler.sets) {
        scale::scale_proportionally(deployment, &mut reconciler.sets);
        return reconciler.finish(deployment, Estimate::Nothing);
    }
    match DeploymentView::of(deployment).is_rolling() {
        true => reconciler.rolling_update(),
        false => reconciler.recreate(pods_remain),
    }
    reconciler.finish(deployment, Estimate::Progress)
}

/// State of one reconciliation.
struct Reconciler {
    deployment: Value,
    sets: Sets,
    plan: Plan,
    now: Timestamp,
}

impl Reconciler {
    /// Records pauses in the `Progressing` condition, so that the paused time does not count against the
    /// progress deadline.
    fn check_paused_conditions(&mut self) {
        let view = DeploymentView::of(&self.deployment);
        let conditions = Conditions::of(view.status());
        if limits::progress_deadline(&self.deployment).is_none()
            || conditions.has_reason(PROGRESSING, "ProgressDeadlineExceeded")
        {
            return;
        }
        let noted = conditions.has_reason(PROGRESSING, "DeploymentPaused");
        match (view.is_paused(), noted) {
            (true, false) => self.progress("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => self.progress("Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    fn progress(&mut self, status: &str, reason: &str, message: &str) {
        let mut conditions = Conditions::of(DeploymentView::of(&self.deployment).status());
        conditions.set(condition(PROGRESSING, status, reason, message, self.now));
        self.deployment["status"][CONDITIONS] = conditions.0.into();
    }

    /// Updates the ReplicaSet with the current template, if it exists.
    fn sync_new_replica_set(&mut self) {
        let Some(new) = &mut self.sets.new else { return };
        revision::sync_with_deployment(&self.deployment, new, revision::next_revision(&self.sets.old));
        if let Some(own) = new.annotation(REVISION) {
            object::set_annotation(&mut self.deployment, REVISION, own);
        }
        let message = format!("Found new replica set {:?}", new.name());
        let estimates = limits::progress_deadline(&self.deployment).is_some();
        let status = DeploymentView::of(&self.deployment).status();
        if estimates && status.condition(PROGRESSING).is_none() {
            self.progress("True", "FoundNewReplicaSet", &message);
        }
    }

    /// Plans the new ReplicaSet, unless it exists.
    fn plan_new_replica_set(&mut self) {
        if self.sets.new.is_some() {
            return;
        }
        let number = revision::next_revision(&self.sets.old);
        let size = scale::new_size(&self.deployment, self.sets.pods(), 0);
        let created = revision::new_replica_set(&self.deployment, size, number);
        object::set_annotation(&mut self.deployment, REVISION, &number.to_string());
        if limits::progress_deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set {:?}", object::name(&created));
            self.progress("True", "NewReplicaSetCreated", &message);
        }
        self.sets.new = Some(Set::new(Arc::new(created.clone())));
        self.plan.create = Some(created);
    }

    fn rolling_update(&mut self) {
        self.plan_new_replica_set();
        if scale::scale_up_new(&self.deployment, &mut self.sets)
            || scale::scale_down_old(&self.deployment, &mut self.sets)
        {
            return;
        }
        self.cleanup_if_complete();
    }

    fn recreate(&mut self, pods_remain: &dyn Fn(&str) -> bool) {
        if scale::scale_down_all_old(&self.deployment, &mut self.sets) {
            return;
        }
        let new = self.sets.new.as_ref().map(|new| object::uid(&new.current)).unwrap_or_default();
        if self.sets.old.iter().any(|set| set.count(REPLICAS) > 0) || pods_remain(new) {
            return;
        }
        self.plan_new_replica_set();
        scale::scale_new_to_full(&self.deployment, &mut self.sets);
        self.cleanup_if_complete();
    }

    fn cleanup_if_complete(&mut self) {
        if limits::is_complete(&self.deployment, DeploymentView::of(&self.deployment).status()) {
            self.cleanup_old_replica_sets();
        }
    }

    /// Deletes the oldest idle ReplicaSets beyond the history limit.
    fn cleanup_old_replica_sets(&mut self) {
        let Some(limit) = limits::history_limit(&self.deployment) else { return };
        let alive = self.sets.old.iter().filter(|set| !object::is_being_deleted(&set.current));
        let mut past: Vec<&Set> = alive.collect();
        past.sort_by(|one, other| by_revision(one, other));
        let is_idle = |set: &&&Set| {
            set.count(REPLICAS) == 0
                && set.replicas() == 0
                && object::generation(&set.current) <= set.count(OBSERVED_GENERATION)
        };
        let surplus = past.len().saturating_sub(limit);
        let idle = past.iter().take(surplus).filter(is_idle);
        self.plan.delete = idle.map(|set| set.current.clone()).collect();
    }

    fn finish(mut self, before: &Value, estimate: Estimate) -> Plan {
        let new_status = status::status(&self.deployment, &self.sets, estimate, self.now);
        self.plan.requeue_after = match estimate {
            Estimate::Progress => {
                status::check_after(&self.deployment, WorkloadStatusView::of(&new_status), self.now)
            }
            Estimate::Nothing => None,
        };
        let is_new_revision =
            object::annotation(before, REVISION) != object::annotation(&self.deployment, REVISION);
        if is_new_revision || !status::is_same(DeploymentView::of(before).status(), &new_status) {
            self.deployment["status"] = new_status;
            self.plan.status_update = Some(self.deployment);
        }
        if self.plan.create.is_some() {
            // The new set may have been resized since it was planned.
            self.plan.create = self.sets.new.take().map(|new| new.object().clone());
        }
        self.plan.change =
            self.sets.old.into_iter().chain(self.sets.new).filter(|set| set.next.is_some()).collect();
        self.plan
    }
}

/// Returns a Deployment that selects all pods with its observed generation set; `None` if it is already set.
pub fn with_observed_generation(deployment: &Value) -> Option<Value> {
    let generation = object::generation(deployment);
    let is_seen = DeploymentView::of(deployment).status().observed_generation() >= generation;
    (!is_seen).then(|| {
        let mut deployment = deployment.clone();
        deployment["status"][OBSERVED_GENERATION] = generation.into();
        deployment
    })
}

#[cfg(test)]
mod tests;
