//! Applies the desired state to existing objects, and reports changes of other writers.

use atoll_client::PatchType;
use atoll_fleet::adoption::differences;
use atoll_fleet::view::{DRIFT_PREFIX, Drift, EventReport, State};
use atoll_fleet::{held, marks};
use atoll_informer::Next;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::{ObjectWork, RETRY_PAUSE, configuration_of};
use crate::connections::cluster_client::path;
use crate::objects::drift::{REPLICAS, conflict_messages, conflicts_about, covers, owns, resolve};
use crate::objects::foreign_fields::keep_foreign_fields;
use crate::objects::mark::Mark;
use crate::objects::overlay::overlay;
use crate::objects::reconcile::{Action, Desired, ObservedObject, applied_fields, owned_fields_of};

/// Error message of API servers for a list that cannot be applied. There is no other indication.
const DUPLICATES: &str = "duplicate entries for key";
/// Attempts of an apply after field manager conflicts.
const ATTEMPTS: usize = 4;
/// Maximum number of changes in one Event.
const MOST_TOLD: usize = 10;

impl ObjectWork<'_> {
    pub(super) async fn apply(&self, seen: &ObservedObject) -> Result<Next, Status> {
        let target = &self.task.target;
        let Desired::Present { generation, hash, object, .. } = &self.task.desired else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.create().await };
        if let Some((state, message)) = self.namespace_refusal(&namespace).await? {
            return self.record_failure(state, message, RETRY_PAUSE);
        }
        if seen.applied == *hash {
            let pause = self.syncer.table.correction_delay(self.key);
            if !pause.is_zero() {
                return Ok(Next::After(pause));
            }
        }
        let place = path(&target.resource, &namespace, &target.name);
        if seen.is_fresh {
            self.convert_created_fields(&place, seen).await?;
        }
        let mut sent = configuration_of(object, self.task, &namespace, self.control_plane, *generation, hash);
        // Only this uid: another object with the same name is not managed.
        object::set_uid(&mut sent, &seen.uid);
        if seen.is_adopted {
            object::set_annotation(&mut sent, marks::ADOPTED, "true");
        }
        if !seen.keep.is_empty() {
            object::set_annotation(&mut sent, marks::KEEP, &seen.keep);
        }
        if self.task.desired.is_held() {
            let found = self.syncer.with_permit.get(&place).await?;
            let Some(found) = found.filter(|found| object::uid(found) == seen.uid) else {
                return self.read_again().await;
            };
            hold_template(&mut sent, &found);
        }
        let is_autoscaled = self.remove_autoscaled_replicas(&mut sent, &namespace, Some(&place)).await?;
        // Compare before and after the write, to report what other writers had changed.
        let before = match seen.drifted && self.task.desired.is_applied(seen) {
            true => self.syncer.with_permit.get(&place).await?,
            false => None,
        };
        let (mut force, mut left, mut corrected) = (false, Vec::new(), Vec::new());
        for _ in 0..ATTEMPTS {
            if !self.is_still_valid(&Action::Apply) {
                return Ok(Next::Again);
            }
            let applied = format!("{place}?fieldManager={}&force={force}", marks::MANAGER);
            let status = match self.syncer.with_permit.patch(&applied, PatchType::Apply, &sent).await {
                Ok(answer) => {
                    self.syncer.table.record_write(self.key, &answer);
                    if let Some(before) = before {
                        self.report_correction(corrected, &before, &answer);
                    }
                    return self.report_left(seen, &left);
                }
                Err(status) => status,
            };
            if status.code() == 422 && status.message().contains("metadata.uid") {
                return self.read_again().await;
            }
            if status.code() == 404 {
                return self.read_again().await;
            }
            if status.message().contains(DUPLICATES) {
                return self.replace(&place, seen, &sent).await;
            }
            if !status.has_cause("FieldManagerConflict") {
                if status.code() == 409 {
                    return self.read_again().await;
                }
                return Err(status);
            }
            // The autoscaler has changed the number since it was read.
            if is_autoscaled && sent["spec"]["replicas"].is_number() && conflicts_about(&status, REPLICAS) {
                self.remove_autoscaled_replicas(&mut sent, &namespace, Some(&place)).await?;
                continue;
            }
            let drift = self.task.desired.drift(self.syncer.settings.drift);
            // A field that the syncer still owns was also set by another manager, for example before it was
            // adopted.
            let found = match drift {
                Drift::Report => self.syncer.with_permit.get(&place).await?.unwrap_or_default(),
                Drift::Correct => Value::Null,
            };
            let resolution = resolve(&mut sent, &status, drift, |field| owns(&found, field));
            if resolution.is_stuck || !(resolution.yielded || resolution.force) {
                return self.record_failure(State::Refused, status.message(), RETRY_PAUSE);
            }
            force |= resolution.force;
            left.extend(resolution.left);
            corrected.extend(resolution.corrected);
        }
        Err(Status::service_unavailable("other writers keep changing the same fields"))
    }

    /// Replaces an object that cannot be applied with the desired state merged into it.
    async fn replace(&self, place: &str, seen: &ObservedObject, sent: &Value) -> Result<Next, Status> {
        let is_it = |found: &Value| object::uid(found) == seen.uid && !Mark::of(found).is_released;
        let found = self.syncer.with_permit.get(place).await?.filter(is_it);
        let Some(mut found) = found else { return self.read_again().await };
        let (owned, mut desired, before) = (owned_fields_of(&found), sent.clone(), found.clone());
        let left =
            keep_foreign_fields(&mut desired, &found, self.task.desired.drift(self.syncer.settings.drift));
        overlay(&mut found, &desired, &owned);
        if !self.is_still_valid(&Action::Apply) {
            return Ok(Next::Again);
        }
        let path = format!("{place}?fieldManager={}", marks::MANAGER);
        let answer = self.syncer.with_permit.replace(&path, &found).await?;
        self.syncer.table.record_write(self.key, &answer);
        if seen.drifted && self.task.desired.is_applied(seen) {
            self.report_correction(Vec::new(), &before, &answer);
        }
        self.report_left(seen, &left)
    }

    /// Reports a correction of drift as an Event: managers and fields, as far as they are known.
    fn report_correction(&self, mut corrected: Vec<String>, before: &Value, after: &Value) {
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
        let now = self.syncer.settings.clock.now().to_time();
        let message = format!("{}; this was corrected", corrected.join(", "));
        let event = json!({
            "type": "Warning", "reason": "DriftCorrected", "message": message,
            "count": self.syncer.table.count_correction(self.key), "firstTimestamp": now, "lastTimestamp": now,
            "source": { "component": "atoll-syncer" },
        });
        let target = self.task.target.as_ref().clone();
        let report = EventReport { target, id: "drift-corrected".into(), about: Value::Null, event };
        self.syncer.reports.add_event(report);
    }

    /// Reports the changes of other writers that are left after a write, if any.
    fn report_left(&self, seen: &ObservedObject, left: &[String]) -> Result<Next, Status> {
        if left.is_empty() {
            return self.record_state(None);
        }
        self.syncer.table.set_drifted(self.key, &seen.uid);
        self.record_state(Some((State::Applied, format!("{DRIFT_PREFIX}{}", left.join(", ")))))
    }

    /// Reports drift that is left as it is, found by a dry run of the apply.
    pub(super) async fn report_drift(&self, seen: &ObservedObject) -> Result<Next, Status> {
        let target = &self.task.target;
        let Desired::Present { generation, hash, object, .. } = &self.task.desired else {
            return Ok(Next::Done);
        };
        let Some(namespace) = self.namespace() else { return self.read_again().await };
        let place = path(&target.resource, &namespace, &target.name);
        let mut sent = configuration_of(object, self.task, &namespace, self.control_plane, *generation, hash);
        object::set_uid(&mut sent, &seen.uid);
        self.remove_autoscaled_replicas(&mut sent, &namespace, Some(&place)).await?;
        let Some(found) =
            self.syncer.with_permit.get(&place).await?.filter(|found| object::uid(found) == seen.uid)
        else {
            return self.read_again().await;
        };
        if self.task.desired.is_held() {
            hold_template(&mut sent, &found);
        }
        let tried = format!("{place}?fieldManager={}&force=false&dryRun=All", marks::MANAGER);
        let left = match self.syncer.with_permit.patch(&tried, PatchType::Apply, &sent).await {
            Err(status) if status.has_cause("FieldManagerConflict") => conflict_messages(&status),
            Err(status) if status.message().contains(DUPLICATES) => {
                let mut left = keep_foreign_fields(&mut sent, &found, Drift::Report);
                if !covers(&sent, &found) {
                    let mut whole = found.clone();
                    overlay(&mut whole, &sent, &owned_fields_of(&found));
                    left.extend(removed_fields(&found, &whole));
                }
                left
            }
            Err(status) if matches!(status.code(), 404 | 409) => return self.read_again().await,
            Err(status) => return Err(status),
            Ok(_) if covers(&sent, &found) => Vec::new(),
            Ok(answer) => removed_fields(&found, &answer),
        };
        if left.is_empty() {
            // The object is as desired, so nothing conflicts: take back the ownership of the fields.
            return self.apply(seen).await;
        }
        self.record_state(Some((State::Applied, format!("{DRIFT_PREFIX}{}", left.join(", ")))))
    }

    /// Turns the ownership of created fields into ownership by apply.
    async fn convert_created_fields(&self, place: &str, seen: &ObservedObject) -> Result<(), Status> {
        let Some(found) = self.syncer.with_permit.get(place).await? else { return Ok(()) };
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
        self.syncer.with_permit.patch(&taken, PatchType::Json, &patch).await.map(drop)
    }
}

/// Replaces the Pod template of a configuration with the one that was applied last, if they differ.
fn hold_template(sent: &mut Value, found: &Value) {
    let Some(applied) = held::applied_template(found) else { return };
    let desired = &sent["spec"]["template"];
    if !covers(desired, &applied) || !covers(&applied, desired) {
        sent["spec"]["template"] = applied;
        object::set_annotation(sent, marks::HELD, "true");
    }
}

/// Returns messages about fields that are missing. Managed fields do not record who removes a field.
fn removed_fields(found: &Value, whole: &Value) -> Vec<String> {
    let fields = differences(found, whole);
    fields.into_iter().map(|field| format!("another writer removed {field}")).collect()
}
