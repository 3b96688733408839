//! What a workload's template has been: a ControllerRevision for each form of it.

mod store;

use std::cmp::Ordering;

use atoll_informer::{Resource, WORKSPACE, resources};
use atoll_meta::{json as text, object};
use serde_json::{Map, Value, json};

pub(crate) use store::History;

use crate::pods::controller_reference;

/// Where a StatefulSet's revision keeps the hash in its name.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Where pods say which revision they are of.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
/// What a name of a revision may keep of its owner's.
const PREFIX: usize = 223;

/// What brings an object back to the template that it has now: a strategic merge patch.
pub(crate) fn snapshot(owner: &Value) -> Value {
    let mut template = owner["spec"]["template"].clone();
    if let Value::Object(template) = &mut template {
        template.insert("$patch".into(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// The template that a revision brings back.
pub(crate) fn template_of(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Value::Object(template) = &mut template {
        template.remove("$patch");
    }
    template
}

/// A number for data, in letters that make no words. `collisions` makes another one of it.
pub(crate) fn hash(data: &Value, collisions: Option<i64>) -> String {
    let mut sum = Fnv::default();
    sum.add(&text::to_vec(data));
    if let Some(collisions) = collisions {
        sum.add(collisions.to_string().as_bytes());
    }
    safe(&sum.0.to_string())
}

/// The 32 bits of FNV-1.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0x811c_9dc5)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
        }
    }
}

/// No vowels, and nothing that looks like one.
fn safe(digits: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    digits.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

pub(crate) fn name(owner: &str, hash: &str) -> String {
    let end = (0..=owner.len().min(PREFIX)).rev().find(|end| owner.is_char_boundary(*end)).unwrap_or(0);
    format!("{}-{hash}", &owner[..end])
}

/// A revision of what its owner is now. `label` is where it keeps its hash.
pub(crate) fn revision(
    owner: &Value,
    kind: &Resource,
    data: Value,
    number: i64,
    label: &str,
    hash: &str,
) -> Value {
    let mut labels = owner["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[label] = hash.into();
    let annotations: Map<String, Value> = object::annotations(owner)
        .filter(|(key, _)| *key != WORKSPACE)
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    let mut revision = json!({
        "apiVersion": resources::CONTROLLER_REVISIONS.api_version(),
        "kind": resources::CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name(object::name(owner), hash),
            "namespace": object::namespace(owner),
            "labels": labels,
            "ownerReferences": [controller_reference(kind, owner)],
        },
        "data": data,
        "revision": number,
    });
    if !annotations.is_empty() {
        revision["metadata"]["annotations"] = annotations.into();
    }
    revision
}

pub(crate) fn number(revision: &Value) -> i64 {
    revision["revision"].as_i64().unwrap_or(0)
}

/// By number; of two with the same, the older one first.
pub(crate) fn in_order(one: &Value, other: &Value) -> Ordering {
    let created = |revision| object::creation_timestamp(revision).unwrap_or_default();
    number(one)
        .cmp(&number(other))
        .then_with(|| created(one).cmp(created(other)))
        .then_with(|| object::name(one).cmp(object::name(other)))
}

/// Whether two pieces of data mean the same: a field that is null is one that is not there.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let present = |map: &Map<String, Value>| map.values().filter(|value| !value.is_null()).count();
            let has = |(key, value): (&String, &Value)| {
                value.is_null() || other.get(key).is_some_and(|theirs| same(value, theirs))
            };
            present(one) == present(other) && one.iter().all(has)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
