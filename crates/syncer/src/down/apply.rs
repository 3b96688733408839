//! Applies the desired state to existing objects, and reports changes of other writers.

use atoll_client::PatchType;
use atoll_fleet::adoption::differences;
use atoll_fleet::marks;
use atoll_fleet::view::{Drift, Happening, LEFT, State};
use atoll_informer::Next;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::{LATER, Work, sent};
use crate::below::path;
use crate::drift::{complaints, covers, owns, resolve};
use crate::mark::Mark;
use crate::overlay::overlay;
use crate::reconcile::{Seen, Step, Wanted, applied_fields, our_fields};
use crate::theirs::yield_to;

/// Error message of API servers for a list that cannot be applied. There is no other indication.
const DUPLICATES: &str = "duplicate entries for key";
/// Attempts of an apply after field manager conflicts.
const ATTEMPTS: usize = 4;
/// Maximum number of changes in one Event.
const MOST_TOLD: usize = 10;

impl Work<'_> {
    pub(super) async fn apply(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Wanted::Present { generation, hash, object, .. } = &self.task.wanted else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.create().await };
        if let Some((state, complaint)) = self.namespace_refusal(&namespace).await? {
            return self.complain(state, complaint, LATER);
        }
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
        // Only this uid: another object with the same name is not managed.
        object::set_uid(&mut sent, &seen.uid);
        if seen.is_adopted {
            object::set_annotation(&mut sent, marks::ADOPTED, "true");
        }
        if !seen.keep.is_empty() {
            object::set_annotation(&mut sent, marks::KEEP, &seen.keep);
        }
        self.leave_replicas(&mut sent, &namespace, Some(&place)).await?;
        // Compare before and after the write, to report what other writers had changed.
        let before = match seen.drifted && self.task.wanted.is(seen) {
            true => self.core.in_turn.get(&place).await?,
            false => None,
        };
        let (mut force, mut left, mut corrected) = (false, Vec::new(), Vec::new());
        for _ in 0..ATTEMPTS {
            if !self.may_go_on(&Step::Apply) {
                return Ok(Next::Again);
            }
            let applied = format!("{place}?fieldManager={}&force={force}", marks::MANAGER);
            let status = match self.core.in_turn.patch(&applied, PatchType::Apply, &sent).await {
                Ok(answer) => {
                    self.core.table.wrote(self.key, &answer);
                    if let Some(before) = before {
                        self.tell_corrected(corrected, &before, &answer);
                    }
                    return self.tell_left(seen, &left);
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
            // A field that the syncer still owns was also set by another manager, for example before it was
            // adopted.
            let found = match drift {
                Drift::Report => self.core.in_turn.get(&place).await?.unwrap_or_default(),
                Drift::Correct => Value::Null,
            };
            let resolution = resolve(&mut sent, &status, drift, |field| owns(&found, field));
            if resolution.is_stuck || !(resolution.yielded || resolution.force) {
                return self.complain(State::Refused, status.message(), LATER);
            }
            force |= resolution.force;
            left.extend(resolution.left);
            corrected.extend(resolution.corrected);
        }
        Err(Status::service_unavailable("other writers keep changing the same fields"))
    }

    /// Replaces an object that cannot be applied with the desired state merged into it.
    async fn replace(&self, place: &str, seen: &Seen, sent: &Value) -> Result<Next, Status> {
        let is_it = |found: &Value| object::uid(found) == seen.uid && !Mark::of(found).is_released;
        let found = self.core.in_turn.get(place).await?.filter(is_it);
        let Some(mut found) = found else { return self.look().await };
        let (owned, mut wanted, before) = (our_fields(&found), sent.clone(), found.clone());
        let left = yield_to(&mut wanted, &found, self.task.wanted.drift(self.core.settings.drift));
        overlay(&mut found, &wanted, &owned);
        if !self.may_go_on(&Step::Apply) {
            return Ok(Next::Again);
        }
        let path = format!("{place}?fieldManager={}", marks::MANAGER);
        let answer = self.core.in_turn.replace(&path, &found).await?;
        self.core.table.wrote(self.key, &answer);
        if seen.drifted && self.task.wanted.is(seen) {
            self.tell_corrected(Vec::new(), &before, &answer);
        }
        self.tell_left(seen, &left)
    }

    /// Reports a correction of drift as an Event: managers and fields, as far as they are known.
    fn tell_corrected(&self, mut corrected: Vec<String>, before: &Value, after: &Value) {
        if corrected.is_empty() {
            corrected = differences(before, after)
                .into_iter()
                .map(|field| format!("another writer changed {field}"))
                .collect();
        }
        if corrected.is_empty() {
            return;
        }
        corrected.truncate(MOST_TOLD);
        let now = self.core.settings.clock.now().to_time();
        let message = format!("{}; this was corrected", corrected.join(", "));
        let event = json!({
            "type": "Warning", "reason": "DriftCorrected", "message": message,
            "count": self.core.table.corrected(self.key), "firstTimestamp": now, "lastTimestamp": now,
            "source": { "component": "atoll-syncer" },
        });
        let target = self.task.target.as_ref().clone();
        let happening = Happening { target, id: "drift-corrected".into(), about: Value::Null, event };
        self.core.reports.happened(happening);
    }

    /// Reports the changes of other writers that are left after a write, if any.
    fn tell_left(&self, seen: &Seen, left: &[String]) -> Result<Next, Status> {
        if left.is_empty() {
            return self.settle(None);
        }
        self.core.table.set_drifted(self.key, &seen.uid);
        self.settle(Some((State::Applied, format!("{LEFT}{}", left.join(", ")))))
    }

    /// Reports drift that is left as it is, found by a dry run of the apply.
    pub(super) async fn tell_drift(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Wanted::Present { generation, hash, object, .. } = &self.task.wanted else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.look().await };
        let place = path(&target.resource, &namespace, &target.name);
        let mut sent = sent(object, self.task, &namespace, self.control_plane, *generation, hash);
        object::set_uid(&mut sent, &seen.uid);
        self.leave_replicas(&mut sent, &namespace, Some(&place)).await?;
        let Some(found) = self.core.in_turn.get(&place).await?.filter(|found| object::uid(found) == seen.uid)
        else {
            return self.look().await;
        };
        let tried = format!("{place}?fieldManager={}&force=false&dryRun=All", marks::MANAGER);
        let left = match self.core.in_turn.patch(&tried, PatchType::Apply, &sent).await {
            Err(status) if status.has_cause("FieldManagerConflict") => complaints(&status),
            Err(status) if status.message().contains(DUPLICATES) => {
                let mut left = yield_to(&mut sent, &found, Drift::Report);
                if !covers(&sent, &found) {
                    let mut whole = found.clone();
                    overlay(&mut whole, &sent, &our_fields(&found));
                    left.extend(taken_away(&found, &whole));
                }
                left
            }
            Err(status) if matches!(status.code(), 404 | 409) => return self.look().await,
            Err(status) => return Err(status),
            Ok(_) if covers(&sent, &found) => Vec::new(),
            Ok(answer) => taken_away(&found, &answer),
        };
        if left.is_empty() {
            // The object is as desired, so nothing conflicts: take back the ownership of the fields.
            return self.apply(seen).await;
        }
        self.settle(Some((State::Applied, format!("{LEFT}{}", left.join(", ")))))
    }

    /// Turns the ownership of created fields into ownership by apply.
    async fn take_over(&self, place: &str, seen: &Seen) -> Result<(), Status> {
        let Some(found) = self.core.in_turn.get(place).await? else { return Ok(()) };
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
        self.core.in_turn.patch(&taken, PatchType::Json, &patch).await.map(drop)
    }
}

/// Returns messages about fields that are missing. Managed fields do not record who removes a field.
fn taken_away(found: &Value, whole: &Value) -> Vec<String> {
    let fields = differences(found, whole);
    fields.into_iter().map(|field| format!("another writer removed {field}")).collect()
}
