//! What is wanted becomes so in the cluster, one object at a time.

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

/// What is not ours, or is not taken, is looked at again after this long: nothing tells when that changes.
const LATER: Duration = Duration::from_secs(60);
/// What is on its way out is looked at again after this long, should nobody tell that it is gone.
const SAFETY: Duration = Duration::from_secs(30);

pub async fn work(core: Arc<Core>, key: Key) -> Result<Next, Status> {
    if ending::is_key(&key) {
        return ending::work(&core, &key).await;
    }
    let Some(task) = core.table.task(&key) else { return Ok(Next::Done) };
    // Waiting comes before deciding: meanwhile something else may be wanted, or nothing may be done.
    let Some(turn) = core.turn(Some(&task.target.resource)).await else { return Ok(Next::Done) };
    turn.take(in_turn(&core, &key)).await
}

async fn in_turn(core: &Core, key: &Key) -> Result<Next, Status> {
    // What was seen meanwhile counts.
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
    /// The id of the workspace in which the Cluster is registered; empty if an older control plane does not say it.
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
                    true => "it is being deleted in the cluster".to_string(),
                    false => format!("it is being deleted in the cluster, where it is held by {holds}"),
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

    /// Says how it fares.
    fn settle(&self, trouble: Option<(State, String)>) -> Result<Next, Status> {
        self.core.table.set_trouble(self.key, trouble);
        self.core.tell(self.key);
        Ok(Next::Done)
    }

    fn complain(&self, state: State, message: impl Into<String>, again: Duration) -> Result<Next, Status> {
        self.settle(Some((state, message.into())))?;
        Ok(Next::After(self.core.settings.about(again)))
    }

    /// It is gone, or was never ours.
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
            // Who we are is for the heartbeat to complain about.
            401 => {
                self.core.trust.doubt();
                Err(status)
            }
            409 => Err(status),
            503 | 504 => {
                self.core.trust.doubt();
                Err(status)
            }
            // Most often somebody whom the cluster asks, such as a webhook, does not answer: that may last.
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

    /// Makes and deletes nothing while that is paused, and says so. Who resumes wakes this up.
    async fn hold(&self, step: &Step, why: &str) -> Result<Next, Status> {
        let waits = match step {
            Step::Delete => Some("deleted"),
            Step::LetGo => Some("let go"),
            _ => None,
        };
        if let Some(what) = waits {
            return self.settle(Some((State::Applied, format!("it is not {what} yet: {why}"))));
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
        self.settle(Some((State::Refused, format!("it is not made yet: {why}"))))
    }

    /// Whether what was decided before the cluster was asked for something else still holds.
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

    /// What is there now decides what is done.
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
                    // With what is known now.
                    return Ok(Next::Again);
                }
            }
        }
        if let Some(seen) = &self.task.seen {
            self.core.table.lost(self.key, &seen.uid);
        }
        match (&self.task.wanted, complaint.is_empty()) {
            // What cannot be asked for is not gone because nobody finds it.
            (Wanted::Absent, true) if self.task.seen.is_some() && !self.is_certain().await? => {
                let what = unserved::name(&target.resource);
                let message = format!(
                    "the cluster does not serve {what} any more; whether it is still there is not known"
                );
                self.complain(State::Refused, message, SAFETY)
            }
            // It was unmarked before, and that could not be reported.
            (Wanted::Absent, false) if self.is_definition() => self.over(self.why_it_stays("")).await,
            (Wanted::Absent, _) => self.over(complaint).await,
            (Wanted::Present { .. }, false) => self.complain(State::Conflict, complaint, LATER),
            // It went between two looks.
            (Wanted::Present { .. }, true) => Ok(Next::Again),
        }
    }

    /// Whether what was not found is not there.
    async fn is_certain(&self) -> Result<bool, Status> {
        let (below, resource) = (&self.core.in_turn, &self.task.target.resource);
        Ok(unserved::is_served(below, resource).await
            || unserved::is_gone_with_definition(below, resource).await?)
    }

    /// Where it is in the cluster, if that is known.
    fn namespace(&self) -> Option<String> {
        let target = &self.task.target;
        match target.resource.namespaced {
            true => self.core.spaces.get(&self.locator()),
            false => Some(String::new()),
        }
    }

    /// Why nothing is written to the namespace in which an object is: it does not say, or no longer, that it is for the
    /// workspace of the object.
    async fn namespace_refusal(&self, namespace: &str) -> Result<Option<(State, String)>, Status> {
        let locator = self.locator();
        if !self.task.target.resource.namespaced || self.core.spaces.certain(&locator, self.home).is_some() {
            return Ok(None);
        }
        Ok(match self.core.spaces.ensure(&self.core.in_turn, locator, self.home).await? {
            Place::In(name) if name == namespace => None,
            Place::In(name) => {
                let message =
                    format!("it is in namespace {namespace:?} of the cluster, and its place is {name:?} now");
                Some((State::Conflict, message))
            }
            Place::Taken(complaint) => Some((State::Conflict, complaint)),
            Place::Going(complaint) => Some((State::Refused, complaint)),
        })
    }

    /// Where it may be.
    async fn namespaces(&self) -> Result<Vec<String>, Status> {
        if let Some(known) = self.namespace() {
            return Ok(vec![known]);
        }
        let locator = self.locator();
        // A namespace that has lost what it said of itself may still have it.
        let guesses = [true, false].map(|is_home| locator.below(is_home));
        let sought = self.core.spaces.seek(&self.core.in_turn, &locator).await?;
        Ok(sought.map_or_else(|| guesses.to_vec(), |name| vec![name]))
    }

    fn locator(&self) -> Locator {
        locator(self.control_plane, &self.task.target)
    }
}

/// What is sent for what is wanted.
fn sent(
    object: &[u8],
    task: &Task,
    namespace: &str,
    control_plane: &str,
    generation: i64,
    hash: &str,
) -> Value {
    // It was written by us.
    let shaped = atoll_meta::json::parse(object).map(|parsed| parsed.value).unwrap_or_default();
    configuration(&shaped, &task.target, namespace, control_plane, generation, hash)
}

#[cfg(test)]
mod tests;
