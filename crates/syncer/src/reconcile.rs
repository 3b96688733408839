//! What is to be done about an object: from what is wanted above and what is there below to the next step. Pure.

use atoll_fleet::definitions::is_definition;
use atoll_fleet::marks;
use atoll_fleet::release::unite;
use atoll_fleet::view::{Record, Resource, State, Target};
use atoll_meta::object;
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::digest;
use crate::drift::covers;
use crate::mark::Mark;
use crate::settings::Drift;

/// What is wanted of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Present {
        generation: i64,
        /// Of the object.
        hash: String,
        /// As it was shaped above: JSON, for that takes a fraction of the room.
        object: Bytes,
        drift: Drift,
    },
    Absent,
}

impl Wanted {
    pub fn present(generation: i64, object: &Value) -> Wanted {
        let hash = digest::of_object(object);
        let object = atoll_meta::json::to_vec(object).into();
        Wanted::Present { generation, hash, object, drift: Drift::default() }
    }

    /// The same, with what becomes of changes by others.
    #[must_use]
    pub fn drifting(mut self, how: Drift) -> Wanted {
        if let Wanted::Present { drift, .. } = &mut self {
            *drift = how;
        }
        self
    }

    /// What becomes of changes by others, where nothing else is said.
    pub fn drift(&self, otherwise: Drift) -> Drift {
        match self {
            Wanted::Present { drift: Drift::Report, .. } => Drift::Report,
            _ => otherwise,
        }
    }

    /// Whether this is what was sent last.
    pub fn is(&self, seen: &Seen) -> bool {
        matches!(self, Wanted::Present { hash, .. } if *hash == seen.applied)
    }
}

/// What is known of an object of ours in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub uid: String,
    pub resource_version: String,
    /// The hash of what was sent last.
    pub applied: String,
    /// The generation above of what was sent last.
    pub generation: i64,
    /// Its own generation; kinds without one have none.
    pub own_generation: i64,
    pub is_going: bool,
    /// What holds it while it is going.
    pub finalizers: Vec<String>,
    /// A hash of which fields are ours.
    pub fields: u128,
    /// It was created and not applied since: our fields are not yet under the name of one who applies.
    pub is_fresh: bool,
    /// It was there before us.
    pub is_adopted: bool,
    /// What was let go and refers to it, if anything: then it is not deleted.
    pub keep: String,
    /// Somebody has changed what is ours.
    pub drifted: bool,
    /// Whether the cluster's controllers have seen what it says.
    pub observed: bool,
    /// JSON; empty if there is none.
    pub status: Bytes,
}

impl Seen {
    /// Of an object that is known to be ours.
    pub fn of(found: &Value) -> Seen {
        let status = found.get("status").filter(|status| !status.is_null());
        let observed = found["status"]["observedGeneration"].as_i64();
        let annotation = |key| object::annotation(found, key).unwrap_or_default();
        let annotation_keep = annotation(marks::KEEP);
        Seen {
            uid: short(object::uid(found)).into(),
            resource_version: short(object::resource_version(found)).into(),
            applied: short(annotation(marks::APPLIED)).into(),
            generation: annotation(marks::GENERATION).parse().unwrap_or(0),
            own_generation: object::generation(found),
            is_going: object::is_being_deleted(found),
            finalizers: object::finalizers(found)
                .take(FINALIZERS)
                .map(|name| short(name).to_string())
                .collect(),
            fields: owned_fields(found),
            is_fresh: ours(found).any(|entry| entry["operation"] == "Update"),
            is_adopted: object::annotation(found, marks::ADOPTED).is_some(),
            keep: annotation_keep.get(..MOST_KEPT.min(annotation_keep.len())).unwrap_or_default().into(),
            drifted: false,
            observed: observed.is_none_or(|observed| observed >= object::generation(found)),
            status: status.map(atoll_meta::json::to_vec).unwrap_or_default().into(),
        }
    }

    /// The same after somebody, or something, has changed the object. `before` is what was known of it.
    #[must_use]
    pub fn after(mut self, before: Option<&Seen>, wanted: &Wanted, found: &Value) -> Seen {
        let Wanted::Present { hash, object, .. } = wanted else { return self };
        if self.applied != *hash {
            // It is about to be sent again in any case.
            return self;
        }
        self.drifted = match before {
            // Which fields are ours changes when somebody else takes some.
            Some(before) if before.applied == self.applied => before.drifted || before.fields != self.fields,
            // Long ago, or somebody else's work: whether it looks like it must do.
            _ => atoll_meta::json::parse(object).is_ok_and(|wanted| !covers(&wanted.value, found)),
        };
        self
    }

    /// Whether others may have changed something since that we would tell of.
    pub fn differs(&self, before: &Seen) -> bool {
        self.fields != before.fields
            || self.own_generation != before.own_generation
            || self.own_generation == 0 && self.resource_version != before.resource_version
    }

    /// About what it takes to remember it.
    pub fn size(&self) -> usize {
        let texts = [&self.uid, &self.resource_version, &self.applied, &self.keep];
        let texts = texts.into_iter().chain(&self.finalizers).map(String::len).sum::<usize>();
        texts + self.finalizers.len() * size_of::<String>() + self.status.len() + size_of::<Seen>()
    }

    pub fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

/// Finalizers that are told of an object which is going.
const FINALIZERS: usize = 16;
/// Names, uids, revisions and hashes have no more bytes than this; what has more is none.
const SHORT: usize = 320;
/// Annotations of an object have at most 256 KiB all together.
const MOST_KEPT: usize = 256 << 10;

fn short(text: &str) -> &str {
    if text.len() <= SHORT { text } else { "" }
}

/// Which fields the object's managers say are ours.
fn owned_fields(found: &Value) -> u128 {
    let fields: Vec<Vec<u8>> =
        ours(found).map(|entry| atoll_meta::json::to_vec(&entry["fieldsV1"])).collect();
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    digest::of(&fields)
}

/// What managers' entries say of us, but for subresources.
fn ours(found: &Value) -> impl Iterator<Item = &Value> {
    let entries = found["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["manager"] == marks::MANAGER && entry["subresource"].is_null())
}

/// The entries after what we created counts as applied; `None` if it does already. Without that, what is left out of a
/// later configuration would stay.
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
        Some(applied) => unite(&mut applied["fieldsV1"], &created["fieldsV1"]),
        None => {
            created["operation"] = "Apply".into();
            entries.push(created);
        }
    }
    Some(Value::Array(entries))
}

/// All fields that are ours, as managers' entries name them.
pub fn our_fields(found: &Value) -> Value {
    let mut all = Value::Object(Map::new());
    ours(found).for_each(|entry| unite(&mut all, &entry["fieldsV1"]));
    all
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All is as it should be.
    Rest,
    /// It is on its way out; whatever is wanted has to wait for that.
    Wait,
    Create,
    Apply,
    Delete,
    /// Leave it there without our marks: what was let go needs it, or it is a definition.
    LetGo,
    /// Nothing of ours was seen: see what is there under that name.
    Look,
}

pub fn step(resource: &Resource, wanted: &Wanted, seen: Option<&Seen>, drift: Drift) -> Step {
    let drift = wanted.drift(drift);
    match (wanted, seen) {
        (_, Some(seen)) if seen.is_going => Step::Wait,
        (Wanted::Present { .. }, None) => Step::Create,
        (Wanted::Present { hash, .. }, Some(seen)) => match seen.applied == *hash {
            true if !seen.drifted || drift == Drift::Report => Step::Rest,
            _ => Step::Apply,
        },
        (Wanted::Absent, None) => Step::Look,
        (Wanted::Absent, Some(_)) if is_definition(&resource.group, &resource.resource) => Step::LetGo,
        (Wanted::Absent, Some(seen)) if !seen.keep.is_empty() => Step::LetGo,
        (Wanted::Absent, Some(_)) => Step::Delete,
    }
}

/// What was found under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Nothing,
    Ours(Box<Seen>),
    /// Somebody else's; what to say about it.
    Foreign(String),
}

pub fn judge(found: Option<&Value>, control_plane: &str, target: &Target) -> Found {
    let Some(found) = found else { return Found::Nothing };
    let mark = Mark::of(found);
    match mark.is_of(control_plane, target) {
        true => Found::Ours(Box::new(Seen::of(found))),
        false => Found::Foreign(mark.complaint(control_plane, target)),
    }
}

/// What to tell above of an object.
pub fn record(
    target: &Target,
    wanted: &Wanted,
    seen: Option<&Seen>,
    trouble: Option<&(State, String)>,
) -> Record {
    let status =
        seen.filter(|seen| !seen.status.is_empty()).map(|seen| atoll_meta::json::parse(&seen.status));
    let status = status.and_then(Result::ok).map(|parsed| parsed.value).unwrap_or_default();
    // What is applied is what is wanted even if it was sent for an earlier generation.
    let (generation, is_current) = match (wanted, seen) {
        (Wanted::Present { generation, hash, .. }, Some(seen)) if seen.applied == *hash => {
            (*generation, true)
        }
        (_, Some(seen)) => (seen.generation, false),
        (_, None) => (0, false),
    };
    let (state, message) = trouble.cloned().unwrap_or_default();
    let observed = is_current && seen.is_some_and(|seen| seen.observed);
    Record { target: target.clone(), generation, state, message, observed, status, since: 0 }
}

#[cfg(test)]
mod tests;
