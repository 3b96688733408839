//! Brings one object at a time into its desired state in the cluster.

mod apply;
mod autoscaled;
mod leave;

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::view::{Record, State};
use atoll_fleet::{Locator, marks};
use atoll_informer::{Key, Next};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::below::{collection, path};
use crate::core::Core;
use crate::ending::{self, SOON};
use crate::mark::configuration;
use crate::reconcile::{Found, Seen, Step, Wanted, judge, step};
use crate::spaces::{Place, locator};
use crate::table::Task;
use crate::unserved;

/// Pause before a conflict or a refused write is checked again; nothing notifies the syncer when that
/// changes.
const LATER: Duration = Duration::from_secs(60);
/// Pause before an object that is being deleted is checked again, in case the watch misses its deletion.
const SAFETY: Duration = Duration::from_secs(30);

pub async fn work(core: Arc<Core>, key: Key) -> Result<Next, Status> {
    if ending::is_key(&key) {
        return ending::work(&core, &key).await;
    }
    let Some(task) = core.table.task(&key) else { return Ok(Next::Done) };
    // Wait first, then decide: meanwhile the desired state may change or the workspace may be paused.
    let Some(turn) = core.turn(Some(&task.target.resource)).await else { return Ok(Next::Done) };
    turn.take(in_turn(&core, &key)).await
}

async fn in_turn(core: &Core, key: &Key) -> Result<Next, Status> {
    // Use what was observed while waiting.
    let Some(task) = core.table.task(key) else { return Ok(Next::Done) };
    let Some(master) = core.control_plane() else { return Ok(Next::Done) };
    let (control_plane, home) = (&master.control_plane, &master.workspace);
    let work = Work { core, key, task: &task, control_plane, home };
    let outcome = work.next(task.seen.as_ref()).await;
    match outcome {
        Ok(next) => Ok(next),
        Err(status) => work.failed(status).await,
    }
}

struct Work<'a> {
    core: &'a Core,
    key: &'a Key,
    task: &'a Task,
    control_plane: &'a str,
    /// Id of the registering workspace; empty if an older control plane does not send it.
    home: &'a str,
}

impl Work<'_> {
    async fn next(&self, seen: Option<&Seen>) -> Result<Next, Status> {
        let step = step(&self.task.target.resource, &self.task.wanted, seen, self.core.settings.drift);
        if let Some(why) = self.core.pauses.of(&self.task.target.workspace)
            && matches!(step, Step::Create | Step::Delete | Step::LetGo)
        {
            return self.hold(&step, &why).await;
        }
        match (step, seen) {
            (Step::Rest, Some(seen)) if seen.drifted => self.tell_drift(seen).await,
            (Step::Rest, _) => self.settle(None),
            (Step::Wait, seen) => {
                let holds = seen.map(|seen| seen.finalizers.join(", ")).unwrap_or_default();
                let message = match holds.is_empty() {
                    true => "the object is being deleted in the cluster".to_string(),
                    false => format!("the object is being deleted in the cluster and waits for finalizers: {holds}"),
                };
                self.settle(Some((State::Applied, message)))?;
                self.look().await
            }
            (Step::Create, _) => self.create().await,
            (Step::Apply, Some(seen)) => self.apply(seen).await,
            (Step::Delete, Some(seen)) => self.delete(seen).await,
            (Step::LetGo, Some(seen)) => self.let_go(seen).await,
            (Step::Look | Step::Apply | Step::Delete | Step::LetGo, _) => self.look().await,
        }
    }

    /// Records and reports the state of the object.
    fn settle(&self, trouble: Option<(State, String)>) -> Result<Next, Status> {
        self.core.table.set_trouble(self.key, trouble);
        self.core.tell(self.key);
        Ok(Next::Done)
    }

    fn complain(&self, state: State, message: impl Into<String>, again: Duration) -> Result<Next, Status> {
        self.settle(Some((state, message.into())))?;
        Ok(Next::After(self.core.settings.about(again)))
    }

    /// Reports that the object does not exist, or was never managed.
    fn gone(&self, message: String) -> Result<Next, Status> {
        let target = self.task.target.as_ref().clone();
        let since = self.task.since;
        let record = Record { target, state: State::Gone, message, since, ..Record::default() };
        self.core.reports.tell(self.key.clone(), record);
        Ok(Next::Done)
    }

    async fn failed(&self, status: Status) -> Result<Next, Status> {
        let target = &self.task.target;
        match status.code() {
            429 => Ok(Next::After(Duration::from_secs(status.retry_after().unwrap_or(1).into()))),
            // The heartbeat reports authentication failures.
            401 => {
                self.core.trust.doubt();
                Err(status)
            }
            409 => Err(status),
            503 | 504 => {
                self.core.trust.doubt();
                Err(status)
            }
            // Usually an admission webhook that does not respond, which may last.
            500.. => {
                self.settle(Some((State::Refused, status.message().to_string())))?;
                Err(status)
            }
            404 if status.details().is_some_and(|details| details.kind == "namespaces") => {
                self.core.spaces.forget(&self.locator());
                Err(status)
            }
            404 => {
                let message = unserved::complaint(&self.core.in_turn, &target.resource).await;
                self.complain(State::Refused, message, LATER)
            }
            403 if status.has_cause("NamespaceTerminating") => {
                self.core.spaces.forget(&self.locator());
                self.complain(State::Refused, status.message(), SOON)
            }
            _ => {
                let cluster = &self.core.settings.cluster;
                let advice = unserved::advice(&status, &target.resource, cluster).unwrap_or_default();
                self.complain(State::Refused, format!("{}{advice}", status.message()), LATER)
            }
        }
    }

    /// Reports that creations and deletions are paused. Resuming adds the key again.
    async fn hold(&self, step: &Step, why: &str) -> Result<Next, Status> {
        let waits = match step {
            Step::Delete => Some("deleted"),
            Step::LetGo => Some("released"),
            _ => None,
        };
        if let Some(what) = waits {
            return self.settle(Some((State::Applied, format!("not {what} yet: {why}"))));
        }
        let target = &self.task.target;
        for namespace in self.namespaces().await? {
            let found = self.core.in_turn.get(&path(&target.resource, &namespace, &target.name)).await?;
            if let (Some(found), Found::Ours(_)) = (&found, judge(found.as_ref(), self.control_plane, target))
            {
                self.core.spaces.learn(self.locator(), &namespace, self.home);
                self.core.table.saw(self.key, self.control_plane, found);
                return Ok(Next::Again);
            }
        }
        self.settle(Some((State::Refused, format!("not created yet: {why}"))))
    }

    /// Whether a decision made before other requests were sent is still valid.
    fn may_go_on(&self, step: &Step) -> bool {
        let is_held = *step != Step::Apply && self.core.pauses.of(&self.task.target.workspace).is_some();
        let is_wanted = |task: Task| task.target == self.task.target && task.wanted == self.task.wanted;
        !is_held && self.core.table.task(self.key).is_some_and(is_wanted)
    }

    async fn create(&self) -> Result<Next, Status> {
        if let Some(why) = self.core.pauses.of(&self.task.target.workspace) {
            return self.hold(&Step::Create, &why).await;
        }
        let target = &self.task.target;
        let Wanted::Present { generation, hash, object, .. } = &self.task.wanted else {
            return Ok(Next::Done);
        };
        let mut namespace = String::new();
        if target.resource.namespaced {
            match self.core.spaces.ensure(&self.core.in_turn, self.locator(), self.home).await? {
                Place::In(name) => namespace = name,
                Place::Taken(complaint) => return self.complain(State::Conflict, complaint, LATER),
                Place::Going(complaint) => return self.complain(State::Refused, complaint, SOON),
            }
        }
        let mut sent = sent(object, self.task, &namespace, self.control_plane, *generation, hash);
        if !self.task.keep.is_empty() {
            object::set_annotation(&mut sent, marks::KEEP, &self.task.keep);
        }
        self.leave_replicas(&mut sent, &namespace, None).await?;
        if !self.may_go_on(&Step::Create) {
            return Ok(Next::Again);
        }
        let made = format!("{}?fieldManager={}", collection(&target.resource, &namespace), marks::MANAGER);
        match self.core.in_turn.create(&made, &sent).await {
            Ok(made) => {
                self.core.table.wrote(self.key, &made);
                self.settle(None)
            }
            Err(status) if status.reason() == "AlreadyExists" => self.look().await,
            Err(status) => Err(status),
        }
    }

    /// Reads the object and decides again.
    async fn look(&self) -> Result<Next, Status> {
        let target = &self.task.target;
        let mut complaint = String::new();
        for namespace in self.namespaces().await? {
            let found = self.core.in_turn.get(&path(&target.resource, &namespace, &target.name)).await?;
            match judge(found.as_ref(), self.control_plane, target) {
                Found::Nothing => {}
                Found::Foreign(message) => complaint = message,
                Found::Ours(seen) => {
                    if let Some(found) = &found {
                        self.core.spaces.learn(self.locator(), &namespace, self.home);
                        self.core.table.saw(self.key, self.control_plane, found);
                    }
                    if seen.is_going {
                        self.core.tell(self.key);
                        return Ok(Next::After(SAFETY));
                    }
                    // Decide again with the new observation.
                    return Ok(Next::Again);
                }
            }
        }
        if let Some(seen) = &self.task.seen {
            self.core.table.lost(self.key, &seen.uid);
        }
        match (&self.task.wanted, complaint.is_empty()) {
            // An object that cannot be read is not necessarily gone.
            (Wanted::Absent, true) if self.task.seen.is_some() && !self.is_certain().await? => {
                let what = unserved::name(&target.resource);
                let message = format!(
                    "the cluster no longer serves {what}, so it is not known whether the object still exists"
                );
                self.complain(State::Refused, message, SAFETY)
            }
            // It was released before, and that could not be reported.
            (Wanted::Absent, false) if self.is_definition() => self.over(self.why_it_stays("")).await,
            (Wanted::Absent, _) => self.over(complaint).await,
            (Wanted::Present { .. }, false) => self.complain(State::Conflict, complaint, LATER),
            // It was deleted between two reads.
            (Wanted::Present { .. }, true) => Ok(Next::Again),
        }
    }

    /// Whether an object that was not found certainly does not exist.
    async fn is_certain(&self) -> Result<bool, Status> {
        let (below, resource) = (&self.core.in_turn, &self.task.target.resource);
        Ok(unserved::is_served(below, resource).await
            || unserved::is_gone_with_definition(below, resource).await?)
    }

    /// Returns the namespace below, if it is known.
    fn namespace(&self) -> Option<String> {
        let target = &self.task.target;
        match target.resource.namespaced {
            true => self.core.spaces.get(&self.locator()),
            false => Some(String::new()),
        }
    }

    /// Returns why nothing may be written to the namespace of the object: its locator does not, or no longer,
    /// name the workspace of the object.
    async fn namespace_refusal(&self, namespace: &str) -> Result<Option<(State, String)>, Status> {
        let locator = self.locator();
        if !self.task.target.resource.namespaced || self.core.spaces.certain(&locator, self.home).is_some() {
            return Ok(None);
        }
        Ok(match self.core.spaces.ensure(&self.core.in_turn, locator, self.home).await? {
            Place::In(name) if name == namespace => None,
            Place::In(name) => {
                let message =
                    format!("the object is in namespace {namespace:?} of the cluster, but belongs into {name:?} now");
                Some((State::Conflict, message))
            }
            Place::Taken(complaint) => Some((State::Conflict, complaint)),
            Place::Going(complaint) => Some((State::Refused, complaint)),
        })
    }

    /// Returns the namespaces in which the object may be.
    async fn namespaces(&self) -> Result<Vec<String>, Status> {
        if let Some(known) = self.namespace() {
            return Ok(vec![known]);
        }
        let locator = self.locator();
        // A namespace without its locator may still contain the object.
        let guesses = [true, false].map(|is_home| locator.below(is_home));
        let sought = self.core.spaces.seek(&self.core.in_turn, &locator).await?;
        Ok(sought.map_or_else(|| guesses.to_vec(), |name| vec![name]))
    }

    fn locator(&self) -> Locator {
        locator(self.control_plane, &self.task.target)
    }
}

/// Returns the configuration for the desired state.
fn sent(
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
