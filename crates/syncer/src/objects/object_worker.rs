//! Brings one object at a time into its desired state in the cluster.

mod apply;
mod autoscaled;
mod removal;

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::view::{Record, State};
use atoll_fleet::{Locator, marks};
use atoll_informer::{Key, Next};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::connections::cluster_client::{collection, path};
use crate::namespaces::namespace_worker::{self, SHORT_PAUSE};
use crate::namespaces::{NamespaceResolution, locator};
use crate::objects::mark::configuration;
use crate::objects::reconcile::{Action, Desired, Lookup, ObservedObject, action, classify};
use crate::objects::table::Task;
use crate::objects::unserved;
use crate::syncer::Syncer;

/// Pause before a conflict or a refused write is checked again; nothing notifies the syncer when that
/// changes.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Pause before an object that is being deleted is checked again, in case the watch misses its deletion.
const RECHECK_PAUSE: Duration = Duration::from_secs(30);

pub async fn work(syncer: Arc<Syncer>, key: Key) -> Result<Next, Status> {
    if namespace_worker::is_key(&key) {
        return namespace_worker::work(&syncer, &key).await;
    }
    let Some(task) = syncer.table.task(&key) else { return Ok(Next::Done) };
    // Wait first, then decide: meanwhile the desired state may change or the workspace may be paused.
    let Some(permit) = syncer.acquire(Some(&task.target.resource)).await else { return Ok(Next::Done) };
    permit.run(with_permit(&syncer, &key)).await
}

async fn with_permit(syncer: &Syncer, key: &Key) -> Result<Next, Status> {
    // Use what was observed while waiting.
    let Some(task) = syncer.table.task(key) else { return Ok(Next::Done) };
    let Some(registration) = syncer.current_registration() else { return Ok(Next::Done) };
    let (control_plane, registering_workspace) = (&registration.control_plane, &registration.workspace);
    let work = ObjectWork { syncer, key, task: &task, control_plane, registering_workspace };
    let outcome = work.next(task.seen.as_ref()).await;
    match outcome {
        Ok(next) => Ok(next),
        Err(status) => work.failed(status).await,
    }
}

struct ObjectWork<'a> {
    syncer: &'a Syncer,
    key: &'a Key,
    task: &'a Task,
    control_plane: &'a str,
    /// Id of the registering workspace; empty if an older control plane does not send it.
    registering_workspace: &'a str,
}

impl ObjectWork<'_> {
    async fn next(&self, seen: Option<&ObservedObject>) -> Result<Next, Status> {
        let action = action(&self.task.target.resource, &self.task.desired, seen, self.syncer.settings.drift);
        if let Some(why) = self.syncer.pauses.reason_for(&self.task.target.workspace)
            && matches!(action, Action::Create | Action::Delete | Action::Release)
        {
            return self.report_pause(&action, &why).await;
        }
        match (action, seen) {
            (Action::None, Some(seen)) if seen.drifted => self.report_drift(seen).await,
            (Action::None, _) => self.record_state(None),
            (Action::Wait, seen) => {
                let holds = seen.map(|seen| seen.finalizers.join(", ")).unwrap_or_default();
                let message = match holds.is_empty() {
                    true => "the object is being deleted in the cluster".to_string(),
                    false => format!(
                        "the object is being deleted in the cluster and waits for finalizers: {holds}"
                    ),
                };
                self.record_state(Some((State::Applied, message)))?;
                self.read_again().await
            }
            (Action::Create, _) => self.create().await,
            (Action::Apply, Some(seen)) => self.apply(seen).await,
            (Action::Delete, Some(seen)) => self.delete(seen).await,
            (Action::Release, Some(seen)) => self.release(seen).await,
            (Action::Read | Action::Apply | Action::Delete | Action::Release, _) => self.read_again().await,
        }
    }

    /// Records and reports the state of the object.
    fn record_state(&self, failure: Option<(State, String)>) -> Result<Next, Status> {
        self.syncer.table.set_failure(self.key, failure);
        self.syncer.report(self.key);
        Ok(Next::Done)
    }

    fn record_failure(
        &self,
        state: State,
        message: impl Into<String>,
        again: Duration,
    ) -> Result<Next, Status> {
        self.record_state(Some((state, message.into())))?;
        Ok(Next::After(self.syncer.settings.jitter(again)))
    }

    /// Reports that the object does not exist, or was never managed.
    fn gone(&self, message: String) -> Result<Next, Status> {
        let target = self.task.target.as_ref().clone();
        let since = self.task.since;
        let record = Record { target, state: State::Gone, message, since, ..Record::default() };
        self.syncer.reports.report(self.key.clone(), record);
        Ok(Next::Done)
    }

    async fn failed(&self, status: Status) -> Result<Next, Status> {
        let target = &self.task.target;
        match status.code() {
            429 => Ok(Next::After(Duration::from_secs(status.retry_after().unwrap_or(1).into()))),
            // The heartbeat reports authentication failures.
            401 => {
                self.syncer.gate.suspend();
                Err(status)
            }
            409 => Err(status),
            503 | 504 => {
                self.syncer.gate.suspend();
                Err(status)
            }
            // Usually an admission webhook that does not respond, which may last.
            500.. => {
                self.record_state(Some((State::Refused, status.message().to_string())))?;
                Err(status)
            }
            404 if status.details().is_some_and(|details| details.kind == "namespaces") => {
                self.syncer.namespaces.forget(&self.locator());
                Err(status)
            }
            404 => {
                let message = unserved::message(&self.syncer.with_permit, &target.resource).await;
                self.record_failure(State::Refused, message, RETRY_PAUSE)
            }
            403 if status.has_cause("NamespaceTerminating") => {
                self.syncer.namespaces.forget(&self.locator());
                self.record_failure(State::Refused, status.message(), SHORT_PAUSE)
            }
            _ => {
                let cluster = &self.syncer.settings.cluster;
                let advice = unserved::advice(&status, &target.resource, cluster).unwrap_or_default();
                self.record_failure(State::Refused, format!("{}{advice}", status.message()), RETRY_PAUSE)
            }
        }
    }

    /// Reports that creations and deletions are paused. Resuming adds the key again.
    async fn report_pause(&self, action: &Action, why: &str) -> Result<Next, Status> {
        let waits = match action {
            Action::Delete => Some("deleted"),
            Action::Release => Some("released"),
            _ => None,
        };
        if let Some(what) = waits {
            return self.record_state(Some((State::Applied, format!("not {what} yet: {why}"))));
        }
        let target = &self.task.target;
        for namespace in self.namespaces().await? {
            let found =
                self.syncer.with_permit.get(&path(&target.resource, &namespace, &target.name)).await?;
            if let (Some(found), Lookup::Managed(_)) =
                (&found, classify(found.as_ref(), self.control_plane, target))
            {
                self.syncer.namespaces.record_found(self.locator(), &namespace, self.registering_workspace);
                self.syncer.table.observe(self.key, self.control_plane, found);
                return Ok(Next::Again);
            }
        }
        self.record_state(Some((State::Refused, format!("not created yet: {why}"))))
    }

    /// Whether a decision made before other requests were sent is still valid.
    fn is_still_valid(&self, action: &Action) -> bool {
        let is_paused =
            *action != Action::Apply && self.syncer.pauses.reason_for(&self.task.target.workspace).is_some();
        let is_unchanged = |task: Task| task.target == self.task.target && task.desired == self.task.desired;
        !is_paused && self.syncer.table.task(self.key).is_some_and(is_unchanged)
    }

    async fn create(&self) -> Result<Next, Status> {
        if let Some(why) = self.syncer.pauses.reason_for(&self.task.target.workspace) {
            return self.report_pause(&Action::Create, &why).await;
        }
        let target = &self.task.target;
        let Desired::Present { generation, hash, object, .. } = &self.task.desired else {
            return Ok(Next::Done);
        };
        let mut namespace = String::new();
        if target.resource.namespaced {
            match self
                .syncer
                .namespaces
                .ensure(&self.syncer.with_permit, self.locator(), self.registering_workspace)
                .await?
            {
                NamespaceResolution::Ready(name) => namespace = name,
                NamespaceResolution::Conflict(message) => {
                    return self.record_failure(State::Conflict, message, RETRY_PAUSE);
                }
                NamespaceResolution::Terminating(message) => {
                    return self.record_failure(State::Refused, message, SHORT_PAUSE);
                }
            }
        }
        let mut sent = configuration_of(object, self.task, &namespace, self.control_plane, *generation, hash);
        if !self.task.keep.is_empty() {
            object::set_annotation(&mut sent, marks::KEEP, &self.task.keep);
        }
        self.remove_autoscaled_replicas(&mut sent, &namespace, None).await?;
        if !self.is_still_valid(&Action::Create) {
            return Ok(Next::Again);
        }
        let made = format!("{}?fieldManager={}", collection(&target.resource, &namespace), marks::MANAGER);
        match self.syncer.with_permit.create(&made, &sent).await {
            Ok(made) => {
                self.syncer.table.record_write(self.key, &made);
                self.record_state(None)
            }
            Err(status) if status.reason() == "AlreadyExists" => self.read_again().await,
            Err(status) => Err(status),
        }
    }

    /// Reads the object and decides again.
    async fn read_again(&self) -> Result<Next, Status> {
        let target = &self.task.target;
        let mut conflict = String::new();
        for namespace in self.namespaces().await? {
            let found =
                self.syncer.with_permit.get(&path(&target.resource, &namespace, &target.name)).await?;
            match classify(found.as_ref(), self.control_plane, target) {
                Lookup::Absent => {}
                Lookup::Foreign(message) => conflict = message,
                Lookup::Managed(seen) => {
                    if let Some(found) = &found {
                        self.syncer.namespaces.record_found(
                            self.locator(),
                            &namespace,
                            self.registering_workspace,
                        );
                        self.syncer.table.observe(self.key, self.control_plane, found);
                    }
                    if seen.is_terminating {
                        self.syncer.report(self.key);
                        return Ok(Next::After(RECHECK_PAUSE));
                    }
                    // Decide again with the new observation.
                    return Ok(Next::Again);
                }
            }
        }
        if let Some(seen) = &self.task.seen {
            self.syncer.table.record_deleted(self.key, &seen.uid);
        }
        match (&self.task.desired, conflict.is_empty()) {
            // An object that cannot be read is not necessarily gone.
            (Desired::Absent, true) if self.task.seen.is_some() && !self.is_certainly_absent().await? => {
                let what = unserved::name(&target.resource);
                let message = format!(
                    "the cluster no longer serves {what}, so it is not known whether the object still exists"
                );
                self.record_failure(State::Refused, message, RECHECK_PAUSE)
            }
            // It was released before, and that could not be reported.
            (Desired::Absent, false) if self.is_definition() => {
                self.finish_removal(self.kept_reason("")).await
            }
            (Desired::Absent, _) => self.finish_removal(conflict).await,
            (Desired::Present { .. }, false) => self.record_failure(State::Conflict, conflict, RETRY_PAUSE),
            // It was deleted between two reads.
            (Desired::Present { .. }, true) => Ok(Next::Again),
        }
    }

    /// Whether an object that was not found certainly does not exist.
    async fn is_certainly_absent(&self) -> Result<bool, Status> {
        let (below, resource) = (&self.syncer.with_permit, &self.task.target.resource);
        Ok(unserved::is_served(below, resource).await
            || unserved::is_gone_with_definition(below, resource).await?)
    }

    /// Returns the namespace below, if it is known.
    fn namespace(&self) -> Option<String> {
        let target = &self.task.target;
        match target.resource.namespaced {
            true => self.syncer.namespaces.get(&self.locator()),
            false => Some(String::new()),
        }
    }

    /// Returns why nothing may be written to the namespace of the object: its locator does not, or no longer,
    /// name the workspace of the object.
    async fn namespace_refusal(&self, namespace: &str) -> Result<Option<(State, String)>, Status> {
        let locator = self.locator();
        if !self.task.target.resource.namespaced
            || self.syncer.namespaces.verified(&locator, self.registering_workspace).is_some()
        {
            return Ok(None);
        }
        Ok(
            match self
                .syncer
                .namespaces
                .ensure(&self.syncer.with_permit, locator, self.registering_workspace)
                .await?
            {
                NamespaceResolution::Ready(name) if name == namespace => None,
                NamespaceResolution::Ready(name) => {
                    let message = format!(
                        "the object is in namespace {namespace:?} of the cluster, but belongs into {name:?} now"
                    );
                    Some((State::Conflict, message))
                }
                NamespaceResolution::Conflict(message) => Some((State::Conflict, message)),
                NamespaceResolution::Terminating(message) => Some((State::Refused, message)),
            },
        )
    }

    /// Returns the namespaces in which the object may be.
    async fn namespaces(&self) -> Result<Vec<String>, Status> {
        if let Some(known) = self.namespace() {
            return Ok(vec![known]);
        }
        let locator = self.locator();
        // A namespace without its locator may still contain the object.
        let guesses = [true, false].map(|in_registering_workspace| locator.below(in_registering_workspace));
        let sought = self.syncer.namespaces.find_by_label(&self.syncer.with_permit, &locator).await?;
        Ok(sought.map_or_else(|| guesses.to_vec(), |name| vec![name]))
    }

    fn locator(&self) -> Locator {
        locator(self.control_plane, &self.task.target)
    }
}

/// Returns the configuration for the desired state.
fn configuration_of(
    object: &[u8],
    task: &Task,
    namespace: &str,
    control_plane: &str,
    generation: i64,
    hash: &str,
) -> Value {
    // The syncer serialized it, so it parses.
    let shaped = atoll_meta::json::parse(object).map(|parsed| parsed.value).unwrap_or_default();
    configuration(&shaped, &task.target, namespace, control_plane, generation, hash)
}

#[cfg(test)]
mod tests;
