//! From a Deployment and its ReplicaSets to what is to be done and what is to be said.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::conditions::{Conditions, PROGRESSING, condition};
use super::rollback::{self, Rollback};
use super::scale::{self, Sets};
use super::set::{REVISION, Set, by_revision};
use super::status::{self, Estimate};
use super::{limits, revision};

/// What is known.
pub struct Observed<'a> {
    pub deployment: &'a Value,
    /// The Deployment's own.
    pub sets: Vec<Arc<Value>>,
    /// Whether there are pods that have not ended, of other sets than the one with this uid.
    pub pods_remain: &'a dyn Fn(&str) -> bool,
    pub now: Timestamp,
}

/// What is to be done, in this order.
#[derive(Debug, Default)]
pub struct Plan {
    /// The Deployment as it is to be, spec and all; then there is nothing else.
    pub rollback: Option<Rollback>,
    /// A new ReplicaSet.
    pub create: Option<Value>,
    /// ReplicaSets that are to change.
    pub change: Vec<Set>,
    pub delete: Vec<Arc<Value>>,
    /// The Deployment with another status or revision.
    pub say: Option<Value>,
    /// When there may be more to say, if nothing happens.
    pub again: Option<Duration>,
}

pub fn reconcile(observed: Observed<'_>) -> Plan {
    let Observed { deployment, sets, pods_remain, now } = observed;
    let (new, old) = revision::split(deployment, sets.into_iter().map(Set::new).collect());
    let mut step =
        Step { deployment: deployment.clone(), sets: Sets { new, old }, plan: Plan::default(), now };
    if object::is_being_deleted(deployment) {
        step.find_new();
        return step.finish(deployment, Estimate::Nothing);
    }
    step.note_pause();
    if limits::is_paused(deployment) {
        step.find_new();
        scale::in_proportion(deployment, &mut step.sets);
        if rollback::wanted(deployment).is_none() {
            step.clean_up();
        }
        return step.finish(deployment, Estimate::Nothing);
    }
    if let Some(to) = rollback::wanted(deployment) {
        let rollback = rollback::roll_back(deployment, to, &step.sets);
        return Plan { rollback: Some(rollback), ..Plan::default() };
    }
    step.find_new();
    if scale::is_scaled(deployment, &step.sets) {
        scale::in_proportion(deployment, &mut step.sets);
        return step.finish(deployment, Estimate::Nothing);
    }
    match limits::is_rolling(deployment) {
        true => step.roll(),
        false => step.recreate(pods_remain),
    }
    step.finish(deployment, Estimate::Progress)
}

/// What has been thought of so far.
struct Step {
    deployment: Value,
    sets: Sets,
    plan: Plan,
    now: Timestamp,
}

impl Step {
    /// A Deployment that is paused makes no progress, and is not to be blamed for it afterwards.
    fn note_pause(&mut self) {
        let conditions = Conditions::of(&self.deployment["status"]);
        if limits::progress_deadline(&self.deployment).is_none()
            || conditions.has_reason(PROGRESSING, "ProgressDeadlineExceeded")
        {
            return;
        }
        let noted = conditions.has_reason(PROGRESSING, "DeploymentPaused");
        match (limits::is_paused(&self.deployment), noted) {
            (true, false) => self.progress("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => self.progress("Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    fn progress(&mut self, status: &str, reason: &str, message: &str) {
        let mut conditions = Conditions::of(&self.deployment["status"]);
        conditions.set(condition(PROGRESSING, status, reason, message, self.now));
        self.deployment["status"]["conditions"] = conditions.0.into();
    }

    /// Brings the set with the Deployment's template up to date, if there is one.
    fn find_new(&mut self) {
        let Some(new) = &mut self.sets.new else { return };
        revision::bring_up_to_date(&self.deployment, new, revision::next_revision(&self.sets.old));
        if let Some(own) = new.annotation(REVISION) {
            object::set_annotation(&mut self.deployment, REVISION, own);
        }
        let message = format!("Found new replica set {:?}", new.name());
        let estimates = limits::progress_deadline(&self.deployment).is_some();
        if estimates && Conditions::of(&self.deployment["status"]).get(PROGRESSING).is_none() {
            self.progress("True", "FoundNewReplicaSet", &message);
        }
    }

    /// The new set, if there is none yet.
    fn make_new(&mut self) {
        if self.sets.new.is_some() {
            return;
        }
        let number = revision::next_revision(&self.sets.old);
        let size = scale::new_size(&self.deployment, self.sets.pods(), 0);
        let made = revision::made_from(&self.deployment, size, number);
        object::set_annotation(&mut self.deployment, REVISION, &number.to_string());
        if limits::progress_deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set {:?}", object::name(&made));
            self.progress("True", "NewReplicaSetCreated", &message);
        }
        self.sets.new = Some(Set::new(Arc::new(made.clone())));
        self.plan.create = Some(made);
    }

    fn roll(&mut self) {
        self.make_new();
        if scale::grow_new(&self.deployment, &mut self.sets)
            || scale::shrink_old(&self.deployment, &mut self.sets)
        {
            return;
        }
        self.clean_up_when_complete();
    }

    fn recreate(&mut self, pods_remain: &dyn Fn(&str) -> bool) {
        if scale::stop_old(&self.deployment, &mut self.sets) {
            return;
        }
        let new = self.sets.new.as_ref().map(|new| object::uid(&new.current)).unwrap_or_default();
        if self.sets.old.iter().any(|set| set.count("replicas") > 0) || pods_remain(new) {
            return;
        }
        self.make_new();
        scale::fill_new(&self.deployment, &mut self.sets);
        self.clean_up_when_complete();
    }

    fn clean_up_when_complete(&mut self) {
        if limits::is_complete(&self.deployment, &self.deployment["status"]) {
            self.clean_up();
        }
    }

    /// The oldest sets of the past are forgotten.
    fn clean_up(&mut self) {
        let Some(limit) = limits::history_limit(&self.deployment) else { return };
        let alive = self.sets.old.iter().filter(|set| !object::is_being_deleted(&set.current));
        let mut past: Vec<&Set> = alive.collect();
        past.sort_by(|one, other| by_revision(one, other));
        let is_idle = |set: &&&Set| {
            set.count("replicas") == 0
                && set.replicas() == 0
                && object::generation(&set.current) <= set.count("observedGeneration")
        };
        let surplus = past.len().saturating_sub(limit);
        let idle = past.iter().take(surplus).filter(is_idle);
        self.plan.delete = idle.map(|set| set.current.clone()).collect();
    }

    fn finish(mut self, before: &Value, estimate: Estimate) -> Plan {
        let new_status = status::status(&self.deployment, &self.sets, estimate, self.now);
        self.plan.again = match estimate {
            Estimate::Progress => status::check_after(&self.deployment, &new_status, self.now),
            Estimate::Nothing => None,
        };
        let is_new_revision =
            object::annotation(before, REVISION) != object::annotation(&self.deployment, REVISION);
        if is_new_revision || !status::is_same(&before["status"], &new_status) {
            self.deployment["status"] = new_status;
            self.plan.say = Some(self.deployment);
        }
        if self.plan.create.is_some() {
            // What is created may have been given another size since.
            self.plan.create = self.sets.new.take().map(|new| new.object().clone());
        }
        self.plan.change =
            self.sets.old.into_iter().chain(self.sets.new).filter(|set| set.next.is_some()).collect();
        self.plan
    }
}

/// A Deployment that selects everything does nothing but say that it was seen. `None` if it was.
pub fn seen(deployment: &Value) -> Option<Value> {
    let generation = object::generation(deployment);
    let is_seen = deployment["status"]["observedGeneration"].as_i64().unwrap_or(0) >= generation;
    (!is_seen).then(|| {
        let mut deployment = deployment.clone();
        deployment["status"]["observedGeneration"] = json!(generation);
        deployment
    })
}

#[cfg(test)]
mod tests;
