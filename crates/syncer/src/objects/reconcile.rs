//! Decides the next action for an object from its desired and observed state. Pure.

use atoll_fleet::definitions::is_definition;
use atoll_fleet::marks;
use atoll_fleet::release::merge_fields;
use atoll_fleet::view::{ObjectTarget, Record, State, SyncResource};
use atoll_meta::object;
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::objects::digest;
use crate::objects::drift::covers;
use crate::objects::mark::Mark;
use crate::settings::Drift;

/// Ending of the hash of a shape whose Pod template is held.
const HELD_SUFFIX: &str = ".held";

/// The desired state of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    Present {
        generation: i64,
        /// Hash of `object`.
        hash: String,
        /// The shape as JSON, which takes a fraction of the memory of parsed values.
        object: Bytes,
        drift: Drift,
        /// Whether the Pod template that was applied last is kept.
        held: bool,
    },
    Absent,
}

impl Desired {
    pub fn present(generation: i64, object: &Value) -> Desired {
        let hash = digest::of_object(object);
        let object = atoll_meta::json::to_vec(object).into();
        Desired::Present { generation, hash, object, drift: Drift::default(), held: false }
    }

    /// Holds the Pod template. The hash differs, so that the template is applied once it is released.
    #[must_use]
    pub fn with_held(mut self, is_held: bool) -> Desired {
        if let Desired::Present { hash, held, .. } = &mut self
            && is_held
        {
            *held = true;
            hash.push_str(HELD_SUFFIX);
        }
        self
    }

    /// Whether the Pod template is held.
    pub fn is_held(&self) -> bool {
        matches!(self, Desired::Present { held: true, .. })
    }

    /// Sets the drift policy.
    #[must_use]
    pub fn with_drift(mut self, how: Drift) -> Desired {
        if let Desired::Present { drift, .. } = &mut self {
            *drift = how;
        }
        self
    }

    /// Returns the drift policy, given the default.
    pub fn drift(&self, otherwise: Drift) -> Drift {
        match self {
            Desired::Present { drift: Drift::Report, .. } => Drift::Report,
            _ => otherwise,
        }
    }

    /// Whether this state was applied last.
    pub fn is_applied(&self, seen: &ObservedObject) -> bool {
        matches!(self, Desired::Present { hash, .. } if *hash == seen.applied)
    }
}

/// The observed state of a managed object in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedObject {
    pub uid: String,
    pub resource_version: String,
    /// Hash of the last applied shape.
    pub applied: String,
    /// Generation above of the last applied shape.
    pub generation: i64,
    /// Generation below; 0 for kinds without one.
    pub own_generation: i64,
    pub is_terminating: bool,
    /// Finalizers that hold it while it is being deleted.
    pub finalizers: Vec<String>,
    /// Hash of the fields that the syncer owns.
    pub fields: u128,
    /// Whether it was created but never applied, so that its fields are not owned by an apply yet.
    pub is_fresh: bool,
    /// Whether it existed before it was adopted.
    pub is_adopted: bool,
    /// Released objects that refer to it; if any, it is not deleted.
    pub keep: String,
    /// Whether it has an earlier Pod template, because its share is held.
    pub is_held: bool,
    /// Whether another writer has changed fields that the syncer owns.
    pub drifted: bool,
    /// Whether controllers in the cluster have observed the current generation.
    pub observed: bool,
    /// Status as JSON; empty if there is none.
    pub status: Bytes,
    /// `spec.replicas`, if it has any.
    pub replicas: Option<i64>,
}

impl ObservedObject {
    /// Reads the state of a managed object.
    pub fn of(found: &Value) -> ObservedObject {
        let status = found.get("status").filter(|status| !status.is_null());
        let observed = found["status"]["observedGeneration"].as_i64();
        let annotation = |key| object::annotation(found, key).unwrap_or_default();
        let annotation_keep = annotation(marks::KEEP);
        ObservedObject {
            uid: short(object::uid(found)).into(),
            resource_version: short(object::resource_version(found)).into(),
            applied: short(annotation(marks::APPLIED)).into(),
            generation: annotation(marks::GENERATION).parse().unwrap_or(0),
            own_generation: object::generation(found),
            is_terminating: object::is_being_deleted(found),
            finalizers: object::finalizers(found)
                .take(FINALIZERS)
                .map(|name| short(name).to_string())
                .collect(),
            fields: owned_fields(found),
            is_fresh: own_entries(found).any(|entry| entry["operation"] == "Update"),
            is_adopted: object::annotation(found, marks::ADOPTED).is_some(),
            keep: annotation_keep.get(..MOST_KEPT.min(annotation_keep.len())).unwrap_or_default().into(),
            is_held: object::annotation(found, marks::HELD).is_some(),
            drifted: false,
            observed: observed.is_none_or(|observed| observed >= object::generation(found)),
            status: status.map(atoll_meta::json::to_vec).unwrap_or_default().into(),
            replicas: found["spec"]["replicas"].as_i64(),
        }
    }

    /// Sets the drift of a new observation. `before` is the previous one.
    #[must_use]
    pub fn after(
        mut self,
        before: Option<&ObservedObject>,
        desired: &Desired,
        found: &Value,
    ) -> ObservedObject {
        let Desired::Present { hash, object, held, .. } = desired else { return self };
        if self.applied != *hash {
            // The shape will be applied in any case.
            return self;
        }
        self.drifted = match before {
            // The owned fields change when another manager takes some of them.
            Some(before) if before.applied == self.applied => before.drifted || before.fields != self.fields,
            // Without a previous observation, compare the content.
            _ => atoll_meta::json::parse(object).is_ok_and(|mut desired| {
                if *held {
                    desired.value["spec"]["template"].take();
                }
                !covers(&desired.value, found)
            }),
        };
        self
    }

    /// Whether drift to report may have changed since `before`.
    pub fn differs(&self, before: &ObservedObject) -> bool {
        self.fields != before.fields
            || self.own_generation != before.own_generation
            || self.own_generation == 0 && self.resource_version != before.resource_version
    }

    /// Estimates the memory of the state.
    pub fn size(&self) -> usize {
        let texts = [&self.uid, &self.resource_version, &self.applied, &self.keep];
        let texts = texts.into_iter().chain(&self.finalizers).map(String::len).sum::<usize>();
        texts + self.finalizers.len() * size_of::<String>() + self.status.len() + size_of::<ObservedObject>()
    }

    pub fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

/// Maximum number of finalizers in a report.
const FINALIZERS: usize = 16;
/// Longest name, uid, resource version or hash; longer ones are ignored.
const SHORT: usize = 320;
/// Annotations of an object have at most 256 KiB in total.
const MOST_KEPT: usize = 256 << 10;

fn short(text: &str) -> &str {
    if text.len() <= SHORT { text } else { "" }
}

/// Returns a hash of the fields that the syncer owns.
fn owned_fields(found: &Value) -> u128 {
    let fields: Vec<Vec<u8>> =
        own_entries(found).map(|entry| atoll_meta::json::to_vec(&entry["fieldsV1"])).collect();
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    digest::of(&fields)
}

/// Returns the syncer's entries in the managed fields, except those of subresources.
fn own_entries(found: &Value) -> impl Iterator<Item = &Value> {
    let entries = found["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["manager"] == marks::MANAGER && entry["subresource"].is_null())
}

/// Returns the managed fields with created fields moved to the apply entry; `None` if there are none. Without
/// that, fields that are left out of a later configuration would stay.
pub fn applied_fields(found: &Value) -> Option<Value> {
    let mut entries = found["metadata"]["managedFields"].as_array()?.clone();
    let is_ours = |entry: &Value, operation: &str| {
        entry["manager"] == marks::MANAGER
            && entry["subresource"].is_null()
            && entry["operation"] == operation
    };
    let created = entries.iter().position(|entry| is_ours(entry, "Update"))?;
    let mut created = entries.remove(created);
    match entries.iter_mut().find(|entry| is_ours(entry, "Apply")) {
        Some(applied) => merge_fields(&mut applied["fieldsV1"], &created["fieldsV1"]),
        None => {
            created["operation"] = "Apply".into();
            entries.push(created);
        }
    }
    Some(Value::Array(entries))
}

/// Returns all fields that the syncer owns, in the format of managed fields.
pub fn owned_fields_of(found: &Value) -> Value {
    let mut all = Value::Object(Map::new());
    own_entries(found).for_each(|entry| merge_fields(&mut all, &entry["fieldsV1"]));
    all
}

/// The next action for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object is as desired.
    None,
    /// The object is being deleted; wait for that.
    Wait,
    Create,
    Apply,
    Delete,
    /// Remove the marks and leave the object: a released object needs it, or it is a definition.
    Release,
    /// No managed object was observed: read the object with that name.
    Read,
}

pub fn action(
    resource: &SyncResource,
    desired: &Desired,
    seen: Option<&ObservedObject>,
    drift: Drift,
) -> Action {
    let drift = desired.drift(drift);
    match (desired, seen) {
        (_, Some(seen)) if seen.is_terminating => Action::Wait,
        (Desired::Present { .. }, None) => Action::Create,
        (Desired::Present { hash, .. }, Some(seen)) => match seen.applied == *hash {
            true if !seen.drifted || drift == Drift::Report => Action::None,
            _ => Action::Apply,
        },
        (Desired::Absent, None) => Action::Read,
        (Desired::Absent, Some(_)) if is_definition(&resource.group, &resource.resource) => Action::Release,
        (Desired::Absent, Some(seen)) if !seen.keep.is_empty() => Action::Release,
        (Desired::Absent, Some(_)) => Action::Delete,
    }
}

/// An object found under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    Absent,
    Managed(Box<ObservedObject>),
    /// Not managed by this syncer; the message to report.
    Foreign(String),
}

pub fn classify(found: Option<&Value>, control_plane: &str, target: &ObjectTarget) -> Lookup {
    let Some(found) = found else { return Lookup::Absent };
    let mark = Mark::of(found);
    match mark.is_of(control_plane, target) {
        true => Lookup::Managed(Box::new(ObservedObject::of(found))),
        false => Lookup::Foreign(mark.conflict_message(control_plane, target)),
    }
}

/// Returns the record to report about an object.
pub fn record(
    target: &ObjectTarget,
    desired: &Desired,
    seen: Option<&ObservedObject>,
    failure: Option<&(State, String)>,
) -> Record {
    let status =
        seen.filter(|seen| !seen.status.is_empty()).map(|seen| atoll_meta::json::parse(&seen.status));
    let status = status.and_then(Result::ok).map(|parsed| parsed.value).unwrap_or_default();
    // The generation is current if the same shape was applied for an earlier generation.
    let (generation, is_current) = match (desired, seen) {
        (Desired::Present { generation, hash, .. }, Some(seen)) if seen.applied == *hash => {
            (*generation, true)
        }
        (_, Some(seen)) => (seen.generation, false),
        (_, None) => (0, false),
    };
    let (state, message) = failure.cloned().unwrap_or_default();
    let observed = is_current && seen.is_some_and(|seen| seen.observed);
    let held = is_current && seen.is_some_and(|seen| seen.is_held);
    let replicas = seen.and_then(|seen| seen.replicas);
    let target = target.clone();
    Record { target, generation, state, message, observed, status, held, replicas, ..Record::default() }
}

#[cfg(test)]
mod tests;
