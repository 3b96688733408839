//! What is wanted becomes so in the cluster, one object at a time.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::PatchType;
use atoll_fleet::view::{Drift, LEFT, Record, State};
use atoll_fleet::{Locator, marks};
use atoll_informer::{Key, Next};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::below::{collection, path};
use crate::core::Core;
use crate::drift::{complaints, covers, is_controller, owns, resolve};
use crate::mark::{Mark, configuration};
use crate::overlay::{overlay, yield_to};
use crate::reconcile::{Found, Seen, Step, Wanted, applied_fields, fields_of, judge, our_fields, step};
use crate::retire::{Retired, retire};
use crate::spaces::{Place, locator};
use crate::table::Task;
use crate::unserved;

/// What is not ours, or is not taken, is looked at again after this long: nothing tells when that changes.
const LATER: Duration = Duration::from_secs(60);
/// The same of a namespace that is going.
const SOON: Duration = Duration::from_secs(2);
/// What is on its way out is looked at again after this long, should nobody tell that it is gone.
const SAFETY: Duration = Duration::from_secs(30);
/// What servers say of a list that they cannot apply. There is no other sign of it.
const DUPLICATES: &str = "duplicate entries for key";
/// How often an apply goes on after it was told whose fields are in its way.
const ATTEMPTS: usize = 4;

pub async fn work(core: Arc<Core>, key: Key) -> Result<Next, Status> {
    if !core.trust.opened().await {
        return Ok(Next::Done);
    }
    let Some(task) = core.table.task(&key) else { return Ok(Next::Done) };
    core.sighted(&task.target.resource).await;
    // Waiting comes before deciding: meanwhile something else may be wanted.
    core.below.rested().await;
    // What was seen meanwhile counts.
    let Some(task) = core.table.task(&key) else { return Ok(Next::Done) };
    let Some(master) = core.control_plane() else { return Ok(Next::Done) };
    let work = Work { core: &core, key: &key, task: &task, control_plane: &master.control_plane };
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
}

impl Work<'_> {
    async fn next(&self, seen: Option<&Seen>) -> Result<Next, Status> {
        let step = step(&self.task.wanted, seen, self.core.settings.drift);
        if let Some(why) = self.core.pauses.of(&self.task.target.workspace)
            && matches!(step, Step::Create | Step::Delete)
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
            (Step::Look | Step::Apply | Step::Delete, _) => self.look().await,
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
                let message = unserved::complaint(&self.core.below, &target.resource).await;
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
        if *step == Step::Delete {
            return self.settle(Some((State::Applied, format!("it is not deleted yet: {why}"))));
        }
        let target = &self.task.target;
        for namespace in self.namespaces() {
            let found = self.core.below.get(&path(&target.resource, &namespace, &target.name)).await?;
            if let (Some(found), Found::Ours(_)) = (&found, judge(found.as_ref(), self.control_plane, target))
            {
                self.core.spaces.learn(self.locator(), &namespace);
                self.core.table.saw(self.key, self.control_plane, found);
                return Ok(Next::Again);
            }
        }
        self.settle(Some((State::Refused, format!("it is not made yet: {why}"))))
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
            let is_only = || self.core.is_only(&target.workspace);
            match self.core.spaces.ensure(&self.core.below, self.locator(), is_only).await? {
                Place::In(name) => namespace = name,
                Place::Taken(complaint) => return self.complain(State::Conflict, complaint, LATER),
                Place::Going(complaint) => return self.complain(State::Refused, complaint, SOON),
            }
        }
        let sent = sent(object, self.task, &namespace, self.control_plane, *generation, hash);
        let made = format!("{}?fieldManager={}", collection(&target.resource, &namespace), marks::MANAGER);
        match self.core.below.create(&made, &sent).await {
            Ok(made) => {
                self.core.table.wrote(self.key, &made);
                self.settle(None)
            }
            Err(status) if status.reason() == "AlreadyExists" => self.look().await,
            Err(status) => Err(status),
        }
    }

    async fn apply(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Wanted::Present { generation, hash, object, .. } = &self.task.wanted else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.create().await };
        if seen.applied == *hash {
            let pause = self.core.table.correct(self.key);
            if !pause.is_zero() {
                return Ok(Next::After(pause));
            }
        }
        let place = path(&target.resource, &namespace, &target.name);
        if seen.is_fresh {
            self.take_over(&place, seen).await?;
        }
        let mut sent = sent(object, self.task, &namespace, self.control_plane, *generation, hash);
        // Only this very one: another of the same name is not ours.
        object::set_uid(&mut sent, &seen.uid);
        if seen.is_adopted {
            object::set_annotation(&mut sent, marks::ADOPTED, "true");
        }
        let (mut force, mut left) = (false, Vec::new());
        for _ in 0..ATTEMPTS {
            let applied = format!("{place}?fieldManager={}&force={force}", marks::MANAGER);
            let status = match self.core.below.patch(&applied, PatchType::Apply, &sent).await {
                Ok(answer) => {
                    self.core.table.wrote(self.key, &answer);
                    if !left.is_empty() {
                        self.core.table.set_drifted(self.key, &seen.uid);
                    }
                    let message = (!left.is_empty()).then(|| format!("{LEFT}{}", left.join(", ")));
                    return self.settle(message.map(|message| (State::Applied, message)));
                }
                Err(status) => status,
            };
            if status.code() == 422 && status.message().contains("metadata.uid") {
                return self.look().await;
            }
            if status.code() == 404 {
                return self.look().await;
            }
            if status.message().contains(DUPLICATES) {
                return self.replace(&place, seen, &sent).await;
            }
            if !status.has_cause("FieldManagerConflict") {
                if status.code() == 409 {
                    return self.look().await;
                }
                return Err(status);
            }
            let drift = self.task.wanted.drift(self.core.settings.drift);
            // What we still have, others only say as well: it was theirs before it was adopted, say.
            let found = match drift {
                Drift::Report => self.core.below.get(&place).await?.unwrap_or_default(),
                Drift::Correct => Value::Null,
            };
            let resolution = resolve(&mut sent, &status, drift, |field| owns(&found, field));
            if resolution.is_stuck || !(resolution.yielded || resolution.force) {
                return self.complain(State::Refused, status.message(), LATER);
            }
            force |= resolution.force;
            left.extend(resolution.left);
        }
        Err(Status::service_unavailable("others change the same fields all the time"))
    }

    /// For what cannot be applied: the object as it is, with what is wanted in it.
    async fn replace(&self, place: &str, seen: &Seen, sent: &Value) -> Result<Next, Status> {
        let is_it = |found: &Value| object::uid(found) == seen.uid && !Mark::of(found).is_released;
        let found = self.core.below.get(place).await?.filter(is_it);
        let Some(mut found) = found else { return self.look().await };
        let (owned, mut wanted) = (our_fields(&found), sent.clone());
        let theirs = match self.task.wanted.drift(self.core.settings.drift) {
            Drift::Correct => fields_of(&found, is_controller),
            Drift::Report => fields_of(&found, |manager| manager != marks::MANAGER),
        };
        yield_to(&mut wanted, &found, &theirs);
        overlay(&mut found, &wanted, &owned);
        let path = format!("{place}?fieldManager={}", marks::MANAGER);
        let answer = self.core.below.replace(&path, &found).await?;
        self.core.table.wrote(self.key, &answer);
        self.settle(None)
    }

    /// Says who has changed what, where that is left as it is: an apply that is not done would tell.
    async fn tell_drift(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Wanted::Present { generation, hash, object, .. } = &self.task.wanted else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.look().await };
        let place = path(&target.resource, &namespace, &target.name);
        let mut sent = sent(object, self.task, &namespace, self.control_plane, *generation, hash);
        object::set_uid(&mut sent, &seen.uid);
        let Some(found) = self.core.below.get(&place).await?.filter(|found| object::uid(found) == seen.uid)
        else {
            return self.look().await;
        };
        let tried = format!("{place}?fieldManager={}&force=false&dryRun=All", marks::MANAGER);
        let left = match self.core.below.patch(&tried, PatchType::Apply, &sent).await {
            Err(status) if status.has_cause("FieldManagerConflict") => complaints(&status),
            Err(status) if matches!(status.code(), 404 | 409) => return self.look().await,
            Err(status) => return Err(status),
            Ok(_) if covers(&sent, &found) => Vec::new(),
            Ok(answer) => {
                let fields = atoll_fleet::adoption::differences(&found, &answer);
                fields.into_iter().map(|field| format!("somebody took away {field}")).collect()
            }
        };
        if left.is_empty() {
            // It is as we want it, so nobody is in the way: what they had taken is ours again.
            return self.apply(seen).await;
        }
        self.settle(Some((State::Applied, format!("{LEFT}{}", left.join(", ")))))
    }

    /// Lets what we created count as applied.
    async fn take_over(&self, place: &str, seen: &Seen) -> Result<(), Status> {
        let Some(found) = self.core.below.get(place).await? else { return Ok(()) };
        let Some(entries) = applied_fields(&found) else { return Ok(()) };
        if object::uid(&found) != seen.uid {
            return Ok(());
        }
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": seen.uid },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": object::resource_version(&found) },
            { "op": "replace", "path": "/metadata/managedFields", "value": entries },
        ]);
        let taken = format!("{place}?fieldManager={}", marks::MANAGER);
        self.core.below.patch(&taken, PatchType::Json, &patch).await.map(drop)
    }

    async fn delete(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Some(namespace) = self.namespace() else { return self.look().await };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": seen.uid, "resourceVersion": seen.resource_version },
        });
        let place = path(&target.resource, &namespace, &target.name);
        match self.core.below.delete(&place, &options).await {
            Ok(_) => self.look().await,
            // Changed since, or gone: what is there now decides.
            Err(status) if matches!(status.code(), 404 | 409) => self.look().await,
            Err(status) => Err(status),
        }
    }

    /// What is there now decides what is done.
    async fn look(&self) -> Result<Next, Status> {
        let target = &self.task.target;
        let mut complaint = String::new();
        for namespace in self.namespaces() {
            let found = self.core.below.get(&path(&target.resource, &namespace, &target.name)).await?;
            match judge(found.as_ref(), self.control_plane, target) {
                Found::Nothing => {}
                Found::Foreign(message) => complaint = message,
                Found::Ours(seen) => {
                    if let Some(found) = &found {
                        self.core.spaces.learn(self.locator(), &namespace);
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
            (Wanted::Absent, _) => {
                if let Some((why, again)) = self.retire().await? {
                    self.settle(Some((State::Applied, why)))?;
                    return Ok(again);
                }
                self.gone(complaint)
            }
            (Wanted::Present { .. }, false) => self.complain(State::Conflict, complaint, LATER),
            // It went between two looks.
            (Wanted::Present { .. }, true) => Ok(Next::Again),
        }
    }

    /// Takes away the namespace that it was in, if that ends above and this was the last. Why that has to wait, if so.
    async fn retire(&self) -> Result<Option<(String, Next)>, Status> {
        let (target, locator) = (&self.task.target, self.locator());
        let is_last = target.resource.namespaced
            && self.core.spaces.is_ending(&locator)
            && !self.core.table.has_neighbours(self.key, target);
        let Some(name) = self.core.spaces.get(&locator).filter(|_| is_last) else { return Ok(None) };
        if let Some(why) = self.core.pauses.of(&target.workspace) {
            return Ok(Some((format!("its namespace is not deleted yet: {why}"), Next::Done)));
        }
        match retire(&self.core.below, &locator, &name).await? {
            Retired::Gone => self.core.spaces.forget(&locator),
            Retired::NotOurs => {}
            Retired::Passing(contents) if self.core.spaces.is_patient(&locator) => {
                let why = format!("its namespace waits for what is left in it: {}", contents.join(", "));
                return Ok(Some((why, Next::After(SOON))));
            }
            Retired::Kept(contents) | Retired::Passing(contents) => tracing::warn!(
                cluster = %self.core.settings.cluster, namespace = %name,
                "the namespace stays in the cluster although the one above is gone, for there is something in it: {}",
                contents.join(", ")
            ),
        }
        Ok(None)
    }

    /// Whether what was not found is not there.
    async fn is_certain(&self) -> Result<bool, Status> {
        let (below, resource) = (&self.core.below, &self.task.target.resource);
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

    /// Where it may be.
    fn namespaces(&self) -> Vec<String> {
        match self.namespace() {
            Some(known) => vec![known],
            // A namespace that has lost what it said of itself may still have it.
            None => [true, false].map(|is_only| self.locator().below(is_only)).to_vec(),
        }
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
